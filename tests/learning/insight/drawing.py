"""A study of a known mixture: real sketches, with real noise from a seed."""

import hashlib
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.decoding.density import GaussianMixture
from sfumato.learning.estimate.limbs import split_limbs
from sfumato.learning.estimate.sizes import SizeMoments
from sfumato.learning.estimate.totals import Totals
from sfumato.learning.insight.covariance import Density
from sfumato.learning.insight.devices import DeviceExamination
from sfumato.learning.insight.model import StudyModel
from sfumato.learning.insight.selection import Selection
from sfumato.shared.core import SketchAccumulator
from sfumato.shared.plan import Dimension, PlanSpec, SketchPlan, WindowRule, create_plan
from sfumato.shared.privacy.testing import SeededSource

DELTA = Fraction(1, 10**6)
MIXTURE = GaussianMixture(
    weights=np.array([0.5, 0.3, 0.2]),
    means=np.array([[0.0, 0.0], [6.0, 2.0], [-3.0, 6.0]]),
    variances=np.array([[1.0, 1.0], [2.0, 2.0], [0.5, 0.5]]),
)


@cache
def make_plan(m: int | None = 40, mechanism: str = "discrete-knorm", **changes: Any) -> SketchPlan:
    choices: dict[str, Any] = {
        "dimensions": tuple(
            Dimension(name=name, unit="1", lower=-20.0, upper=20.0, scale=1.0) for name in "xy"
        ),
        "n_frequencies": m,
        "seed": hashlib.sha256(b"insight").hexdigest(),
        "mechanism": mechanism,
        "epsilon": Fraction(1),
        "delta": DELTA if mechanism == "discrete-gaussian" else Fraction(0),
        "window": WindowRule(kind="count", length=1000),
        "most_records": 100_000,
    }
    return create_plan(PlanSpec(**(choices | changes)))


@cache
def make_model(plan: SketchPlan, mixture: GaussianMixture = MIXTURE) -> StudyModel:
    return StudyModel(plan=plan, fit=mixture, density=Density.of(mixture))


class Fleet:
    """Draws selections of sketches of records of a mixture; no two share a sketch."""

    def __init__(self, plan: SketchPlan, seed: int) -> None:
        self.plan = plan
        self._rng = np.random.default_rng(seed)
        self._source = SeededSource(seed)
        self._n_sketches = 0

    def draw(
        self,
        n_records: int,
        n_sketches: int = 1,
        *,
        mixture: GaussianMixture = MIXTURE,
        slant: NDArray[np.float64] | None = None,
        name: str = "a window",
    ) -> Selection:
        plan, m = self.plan, self.plan.n_frequencies
        sums = np.zeros(2 * m + plan.blocks.n_blocks * plan.releases_count, dtype=np.int64)
        members, blocks, energy = set(), [], [0] * plan.blocks.n_blocks
        for _ in range(n_sketches):
            ordinal = self._n_sketches
            self._n_sketches += 1
            block = plan.blocks.choose(ordinal=ordinal, stream="main", turn=0)
            stream = ordinal.to_bytes(4, "big")
            accumulator = SketchAccumulator(plan.statistic_of(stream, block=block))
            records = mixture.draw_samples(n_records, rng=self._rng)
            accumulator.add(records if slant is None else records @ slant.T)
            exact = plan.finish_sum(accumulator.sums, n_records)
            released = plan.mechanism.add_noise(exact, self._source)
            places = plan.places[block]
            sums[places] += released[: places.size]
            if plan.releases_count:
                sums[2 * m + block] += released[-1]
            energy[block] += int(np.sum(released[: places.size].astype(object) ** 2))
            members.add(ordinal)
            blocks.append(block)
        size = 0 if plan.releases_count else n_records
        moments = SizeMoments.of_sizes(
            [size] * n_sketches, blocks=blocks, n_blocks=plan.blocks.n_blocks, energy=energy
        )
        totals = Totals(
            sums=sums,
            size_sums=split_limbs([size * total for total in sums.tolist()]),
            moments=moments,
        )
        return Selection(name=name, totals=totals, members=frozenset(members))


def make_examination(name: str, size: float, error: float, *, differs: bool) -> DeviceExamination:
    return DeviceExamination(
        device=name,
        n_sketches=1,
        n_records=500,
        share=0.1,
        p_content=1e-9 if differs else 0.5,
        p_silence=0.5,
        z=None,
        size=size,
        size_error=error,
        snr=10.0,
        least_lie=0.1,
        differs=differs,
        is_silent=False,
        is_unusual=False,
    )
