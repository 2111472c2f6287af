"""Studies for judging comparisons: selections of real sketches, with and without a change.

Noise is that of the mechanism, exactly sampled; only its bytes come from a seed.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, reduce
from itertools import count

import numpy as np

from benchmarks.datasets import SPREAD, TEN, Dataset, Source
from benchmarks.designs import find_scale
from benchmarks.sketches import GeneratorSource, Noise, Study, make_noise, make_plan, pose_totals
from sfumato.learning.decoding.density import GaussianMixture
from sfumato.learning.estimate.limbs import split_limbs
from sfumato.learning.estimate.sizes import SizeMoments
from sfumato.learning.estimate.totals import Totals
from sfumato.learning.insight.model import StudyModel, explain
from sfumato.learning.insight.selection import Selection, SelectionMean, average
from sfumato.shared.arrays import Floats, Integers
from sfumato.shared.core import SketchAccumulator
from sfumato.shared.plan import SketchPlan

_NEWCOMER_WIDTH = 1.5


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A kind of selection.

    Parameters
    ----------
    name
        Name of the case.
    source
        Source of the records.
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


def make_setting(
    name: str,
    noise: str,
    epsilon: int,
    n_frequencies: int,
    n_records: int,
    n_sketches: int = 1,
    source: Source = TEN,
) -> Setting:
    """Make a setting, of the mixture unless another source is named."""
    return Setting(
        name=name,
        source=source,
        n_frequencies=n_frequencies,
        noise=make_noise(noise, Fraction(epsilon)),
        n_records=n_records,
        n_sketches=n_sketches,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Population:
    """Records to draw from: a mixture of round clusters, or all records of a real set.

    Parameters
    ----------
    dataset
        The records.
    weights, means
        Weights and means of a mixture; None for real records.
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
        self._bytes = GeneratorSource(self.seed)

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
            scale=find_scale(dataset),
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

    def select(self, records: Floats) -> Selection:
        """Release records in L sketches of equal size: their sum, with L noises.

        Exact sums add up exactly, so that the records need not be divided.
        """
        n_sketches, ordinal = self.setting.n_sketches, next(self._ordinals)
        totals = self._release(records, n_sketches)
        return Selection(name=f"selection {ordinal}", totals=totals, members=frozenset({ordinal}))

    def _release(self, records: Floats, n_sketches: int) -> Totals:
        accumulator = SketchAccumulator(self.plan.statistic_of(b"", block=0))
        accumulator.add(records)
        sums: Integers = accumulator.sums
        for _ in range(n_sketches):
            sums = self.plan.mechanism.add_noise(sums, self._bytes)
        size = len(records) // n_sketches
        return Totals(
            sums=sums,
            size_sums=split_limbs([size * value for value in sums.tolist()]),
            moments=SizeMoments.of_sizes([size] * n_sketches),
        )

    def average_pair(
        self, changed: Population | None = None
    ) -> tuple[SelectionMean, SelectionMean]:
        """Make two selections, and average them."""
        first, second = self.select_pair(changed)
        return average(self.plan, first), average(self.plan, second)

    def model(self, *selections: Selection) -> StudyModel:
        """Fit the sketches of selections together, as a study does."""
        totals = reduce(operator.add, [selection.totals for selection in selections])
        posed = pose_totals(self.plan, totals, self.population.dataset.n_clusters)
        found = explain(posed.problem, rng=np.random.default_rng((self.seed, 2)))
        return StudyModel.of(self.plan, found)

    def find_cluster(self, model: StudyModel, cluster: int) -> int:
        """Return the number of the fit's cluster nearest to a true one."""
        means = self.population.means
        assert means is not None
        return int(np.argmin(np.sum((model.fit.means - means[cluster]) ** 2, axis=1)))
