"""What a cover costs is known before any record."""

from fractions import Fraction
from typing import Any

import pytest

from sfumato.learning.coverage.averages import GaussianAverages
from sfumato.shared.errors import ConfigError, PrivacyError
from sfumato.shared.privacy.cover import (
    CoverEvent,
    GaussianEvent,
    PureEvent,
    calibrate_gaussian,
    compute_joint_delta,
)
from sfumato.shared.privacy.samplers import UNIT
from tests.learning.coverage.mixtures import DELTA, make_plan


@pytest.mark.parametrize("relation", ["add-remove-one", "replace-one"])
def test_the_stages_cost_together_what_was_asked_for(relation: str) -> None:
    plan = make_plan(relation=relation)
    assert compute_joint_delta(plan.events, Fraction(1), relation=relation) <= DELTA
    # Nearly all is used: half a percent more noise would do for less.
    assert compute_joint_delta(plan.events, Fraction(199, 200), relation=relation) > DELTA
    cover, votes, rounds = plan.events
    assert isinstance(cover, CoverEvent)
    assert isinstance(votes, PureEvent)
    assert isinstance(rounds, GaussianEvent)
    moved = 1 if relation == "add-remove-one" else 2
    assert votes.epsilon == Fraction(moved * plan.count_rate, UNIT) <= Fraction(1, 10)
    assert rounds.mu_squared == sum(each.measure(relation) for each in plan.averages)


def calibrate_apart(events: Any, *, epsilon: Fraction, delta: Fraction, relation: str) -> Fraction:
    """Calibrate the averages as if nothing else were released."""
    return calibrate_gaussian((), epsilon=epsilon, delta=delta, relation=relation)


@pytest.mark.parametrize("relation", ["add-remove-one", "replace-one"])
@pytest.mark.parametrize(
    ("name", "planted"),
    [
        # Averages and picks both take all of delta.
        ("calibrate_gaussian", calibrate_apart),
        # Each round of averages takes what all of them may.
        (
            "GaussianAverages.calibrate",
            lambda *, radius, mu_squared, relation: GaussianAverages(
                radius=radius, sigma_count=10_000, sigma_sum=radius
            ),
        ),
    ],
)
def test_a_plan_whose_stages_cost_more_is_refused(
    name: str, planted: Any, relation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"sfumato.learning.coverage.plan.{name}", planted)
    with pytest.raises(PrivacyError, match="exceeded by the planned stages"):
        make_plan(relation=relation)


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"n_clusters": 0}, "n_clusters"),
        ({"n_clusters": 7000}, "n_clusters"),
        ({"radius": 10**6}, "radius"),
        ({"n_projected": 9}, "n_projected"),
        ({"n_dimensions": 784, "n_projected": 64}, "n_projected"),
        ({"radii": ()}, "radii"),
        ({"radii": (Fraction(1, 10**5),)}, "radii"),
        ({"fineness": Fraction(0)}, "fineness"),
        ({"shares": (Fraction(1, 2), Fraction(1, 2))}, "shares"),
        ({"rounds": ()}, "rounds"),
        ({"n_picks": 0}, "n_picks"),
        ({"delta": Fraction(0)}, "delta"),
        ({"relation": "none"}, "neighbouring"),
        ({"epsilon": Fraction(1, 10**9), "delta": Fraction(1, 10**20)}, "would not fit"),
    ],
)
def test_numbers_out_of_range_are_refused(changed: dict[str, Any], field: str) -> None:
    with pytest.raises((ConfigError, PrivacyError), match=field):
        make_plan(**changed)
