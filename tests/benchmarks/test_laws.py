from fractions import Fraction

import numpy as np
import pytest

from benchmarks.laws import PLAN_LAW, Law, parse_law
from shared.core import RadiusLaw
from shared.errors import SketchError
from shared.plan import Dimension, SketchPlan, WindowRule, create_plan


def make_plan(law: Law, m: int = 40) -> SketchPlan:
    return create_plan(
        dimensions=(Dimension(name="x", unit="1", lower=-9, upper=9, scale=1.0),) * 1
        + (Dimension(name="y", unit="1", lower=-9, upper=9, scale=1.0),),
        n_frequencies=m,
        seed=bytes(32),
        epsilon=Fraction(1),
        window=WindowRule(kind="count", length=10),
        most_records=10,
        radius_law=law.parts[0][1],
    )


def test_the_law_of_plans_draws_a_plans_own_frequencies() -> None:
    plan = make_plan(PLAN_LAW)
    assert PLAN_LAW.parts == ((1.0, RadiusLaw()),)
    assert PLAN_LAW.draw(plan).digest == plan.frequencies_digest


def test_one_law_is_read_and_drawn() -> None:
    law = parse_law("folded-gaussian:0.5:2")
    assert law.parts == ((1.0, RadiusLaw(kind="folded-gaussian", sigma_low=0.5, sigma_high=2)),)
    assert law.draw(make_plan(law)).n_frequencies == 40


def test_a_mixture_gives_each_part_its_share() -> None:
    law = parse_law("0.75*adapted:0.1:0.1+0.25*adapted:100:100")
    plan = make_plan(law)
    omega = np.linalg.norm(law.draw(plan).to_angular(plan.quantiser), axis=0)
    # Radii of the parts differ a thousandfold; either has hardly any beyond a factor of 10.
    assert omega.shape == (40,)
    assert np.all(omega[:30] > 1.0)
    assert np.all(omega[30:] < 0.1)


@pytest.mark.parametrize(
    "text",
    [
        "adapted",
        "adapted:1",
        "adapted:one:2",
        "adapter:1:4",
        "0.5*adapted:1:4",
        "0.75*adapted:1:2+0.75*adapted:2:6",
        "adapted:1:2+adapted:2:6",
        "-1*adapted:1:2+2*adapted:2:6",
        "adapted:4:1",
        "adapted:nan:1",
        "",
    ],
)
def test_a_law_that_cannot_be_used_is_refused(text: str) -> None:
    with pytest.raises(SketchError) as caught:
        parse_law(text)
    assert caught.value.field in {"--law", "radius_law.sigma_low"}
    assert caught.value.fix
