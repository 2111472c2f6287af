"""Studies for judging comparisons: selections of real sketches, with and without a change.

Noise is that of the mechanism, exactly sampled; only its bytes come from a seed.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count

import numpy as np
from numpy.typing import NDArray

from benchmarks.datasets import SPREAD, Dataset, Floats, Source
from benchmarks.reference import find_reference
from benchmarks.sketches import Noise, Study, make_plan
from sfumato.learning.decoding.density import GaussianMixture
from sfumato.learning.estimate.counts import count_records
from sfumato.learning.estimate.limbs import split_limbs
from sfumato.learning.estimate.posing import pose_problem
from sfumato.learning.estimate.sizes import SizeMoments
from sfumato.learning.estimate.totals import Totals
from sfumato.learning.estimate.utility import estimate_utility
from sfumato.learning.estimate.weighting import SIZE_WEIGHTS
from sfumato.learning.insight.model import StudyModel, explain
from sfumato.learning.insight.selection import Selection, SelectionMean, average
from sfumato.shared.core import SketchAccumulator
from sfumato.shared.plan import SketchPlan

_NEWCOMER_WIDTH = 1.5


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A kind of selection.

    Parameters
    ----------
    name
        Of the case.
    source
        Of the records.
    n_frequencies
        m.
    noise
        Guarantee of each sketch.
    n_records, n_sketches
        n and L of a selection.
    """

    name: str
    source: Source
    n_frequencies: int
    noise: Noise
    n_records: int
    n_sketches: int


class RandomBytes:
    """Bytes of a NumPy generator, for simulated devices: faster than a hash, as repeatable."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def draw_bytes(self, n_bytes: int) -> bytes:
        """Return the next bytes."""
        return self._rng.bytes(n_bytes)


@dataclass(frozen=True, kw_only=True, eq=False)
class Population:
    """Records to draw from: a mixture of round clusters, or all records of a real set.

    Parameters
    ----------
    dataset
        The records.
    weights, means
        Of a mixture; None for real records.
    shift
        Added to the first column of every record.
    """

    dataset: Dataset
    weights: Floats | None = None
    means: Floats | None = None
    shift: float = 0.0

    @classmethod
    def of(cls, dataset: Dataset) -> Population:
        """Return the population of a dataset."""
        means = dataset.true_means
        if means is None:
            return cls(dataset=dataset)
        return cls(dataset=dataset, weights=np.full(len(means), 1.0 / len(means)), means=means)

    def move(self, cluster: int, distance: float) -> Population:
        """Return it with one cluster moved along the first axis, in its standard deviations."""
        assert self.means is not None
        means = self.means.copy()
        means[cluster, 0] += distance * SPREAD
        return replace(self, means=means)

    def grow(self, cluster: int, share: float) -> Population:
        """Return it with another share of one cluster, and the rest in proportion."""
        assert self.weights is not None
        weights = self.weights * (1.0 - share) / (1.0 - self.weights[cluster])
        weights[cluster] = share
        return replace(self, weights=weights)

    def weigh(self, weights: Floats) -> Population:
        """Return it with other weights of its clusters, summing to 1."""
        return replace(self, weights=weights)

    def join(self, share: float) -> Population:
        """Return it with a new cluster at a place of its own, drawn as the others."""
        assert self.weights is not None
        assert self.means is not None
        d = self.dataset.n_dimensions
        width = _NEWCOMER_WIDTH * len(self.means) ** (1.0 / d)
        place = np.random.default_rng((d, len(self.means))).normal(0.0, width, (1, d))
        return replace(
            self,
            weights=np.append(self.weights * (1.0 - share), share),
            means=np.concatenate([self.means, place]),
        )

    def draw(self, n_records: int, rng: np.random.Generator) -> Floats:
        """Draw different records: shape ``(n, d)``, inside the public box."""
        if self.means is None or self.weights is None:
            chosen = rng.choice(len(self.dataset.records), n_records, replace=False)
            records = self.dataset.records[chosen]
        else:
            mixture = GaussianMixture(
                weights=self.weights,
                means=self.means,
                variances=np.full_like(self.means, SPREAD**2),
            )
            records = mixture.draw_samples(n_records, rng=rng)
        records[:, 0] += self.shift
        return np.clip(records, self.dataset.lower, self.dataset.upper)


@dataclass(kw_only=True)
class Workshop:
    """Makes selections of one study.

    Parameters
    ----------
    setting, seed
        What to make, and the seed of records, frequencies and noise.
    """

    setting: Setting
    seed: int
    _ordinals: count[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng((self.seed, 1))
        self._bytes = RandomBytes(self.seed)

    @cached_property
    def population(self) -> Population:
        """The unchanged records."""
        return Population.of(self.setting.source.load(self.seed))

    @cached_property
    def plan(self) -> SketchPlan:
        """The plan of the study."""
        dataset = self.population.dataset
        sizes = np.full(1, self.setting.n_records)
        study = Study(
            n_frequencies=self.setting.n_frequencies,
            scale=dataset.spread or find_reference(dataset).spread,
            noise=self.setting.noise,
        )
        return make_plan(dataset, study, sizes, self.seed)

    def select_pair(self, changed: Population | None = None) -> tuple[Selection, Selection]:
        """Make two selections of different records; the second of a changed population, if any."""
        n = self.setting.n_records
        if changed is not None:
            return self.select(self.population.draw(n, self.rng)), self.select(
                changed.draw(n, self.rng)
            )
        records = self.population.draw(2 * n, self.rng)
        return self.select(records[:n]), self.select(records[n:])

    def select(
        self, records: Floats, *, n_noises: int | None = None, name: str | None = None
    ) -> Selection:
        """Release records in L sketches of equal size: their sum, with L noises.

        Exact sums add up exactly, so that the records need not be divided. Only a liar adds another
        number of noises.
        """
        plan, n_sketches = self.plan, self.setting.n_sketches
        accumulator = SketchAccumulator(plan.statistic_of(b"", block=0))
        accumulator.add(records)
        sums: NDArray[np.int64] = accumulator.sums
        for _ in range(n_sketches if n_noises is None else n_noises):
            sums = plan.mechanism.add_noise(sums, self._bytes)
        size = len(records) // n_sketches
        sizes = [size] * n_sketches
        ordinal = next(self._ordinals)
        return Selection(
            name=name or f"selection {ordinal}",
            totals=Totals(
                sums=sums,
                size_sums=split_limbs([size * value for value in sums.tolist()]),
                moments=SizeMoments.of_sizes(sizes),
            ),
            members=frozenset({ordinal}),
        )

    def average_pair(
        self, changed: Population | None = None
    ) -> tuple[SelectionMean, SelectionMean]:
        """Make two selections, and average them."""
        first, second = self.select_pair(changed)
        return average(self.plan, first), average(self.plan, second)

    def model(self, *selections: Selection) -> StudyModel:
        """Fit the sketches of selections together, as a study does."""
        parts = [selection.totals for selection in selections]
        sums = np.sum([part.sums for part in parts], axis=0)
        moments = sum((part.moments for part in parts[1:]), parts[0].moments)
        size = moments.first // moments.n_sketches
        totals = Totals(
            sums=sums,
            size_sums=split_limbs([size * value for value in sums.tolist()]),
            moments=moments,
        )
        plan = self.plan
        utility = estimate_utility(plan, totals, count_records(plan, totals), SIZE_WEIGHTS)
        problem = pose_problem(
            plan,
            totals,
            SIZE_WEIGHTS,
            signal_energy=utility.signal_energy,
            n_clusters=self.population.dataset.n_clusters,
        )
        found = explain(problem, rng=np.random.default_rng((self.seed, 2)))
        return StudyModel.of(plan, found)

    def find_cluster(self, model: StudyModel, cluster: int) -> int:
        """Return the number of the fit's cluster nearest to a true one."""
        means = self.population.means
        assert means is not None
        return int(np.argmin(np.sum((model.fit.means - means[cluster]) ** 2, axis=1)))
