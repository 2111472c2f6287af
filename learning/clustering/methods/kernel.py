"""Lloyd's algorithm on random features: private kernel k-means.

Acs, Melis, Castelluccia and De Cristofaro, "Differentially Private Mixture of Generative Neural
Networks" (2019), section 4: records become m random Fourier features, whose inner products are a
Gaussian kernel, and rounds of Lloyd's algorithm cluster these under Gaussian noise. What noise has
to hide does not grow with the columns. Ours has the integer features of the sketch, exact noise,
counts that cost nothing under replace-one, and the sensitivity of two clusters that change: the
paper's Lemma 1 counts a factor of 2 too little. Clusters are convex in the features, not in the
data: :func:`KernelMethod.assign` tells the cluster of a record, and a centroid is the point whose
features are nearest to a cluster's mean.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.clustering.methods.contract import (
    Answer,
    Clusters,
    Curator,
    Floats,
    Integers,
    QuantisedRecords,
    Round,
    Task,
    divide_jointly,
    guess_scale,
)
from sfumato.learning.clustering.methods.starts import (
    Centroids,
    place_start,
    read_start,
    require_start,
)
from sfumato.learning.clustering.methods.sums import SumsNoise, make_gaussian
from sfumato.learning.decoding.points.clompr import ClOmpr
from sfumato.learning.decoding.problem import DecodingProblem
from sfumato.shared.core import (
    AMPLITUDE,
    FrequencyMatrix,
    Quantiser,
    RadiusLaw,
    draw_frequencies,
    feature_table,
)
from sfumato.shared.core.quantise import STEPS
from sfumato.shared.errors import ConfigError
from sfumato.shared.privacy.cluster_sums import ClusterSums

MOST_FEATURES: Final = 4096
MOST_ROUNDS: Final = 20
_FREE_COUNT: Final = 0.3
_BATCH: Final = 1 << 13
_GAUSSIAN: Final = RadiusLaw(kind="gaussian", sigma_low=1.0, sigma_high=1.0)
_PHASE_BITS: Final = 16
_REPLICATES: Final = 5


@dataclass(frozen=True, kw_only=True)
class KernelMethod:
    """Rounds of Lloyd's algorithm on m random Fourier features.

    Parameters
    ----------
    n_frequencies
        m; inner products of features are those of the kernel up to ``1 / sqrt(m)``.
    n_rounds
        T.
    width
        Width of the kernel, in ``sqrt(d)`` times the task's scale or a guess of it: w makes the
        kernel of two records of one round cluster ``exp(-1 / w^2)``. A narrow one ends in local
        optima.
    start
        ``packing``, ``uniform``, or ``given``: the features of points.
    centroids
        For ``given``: k points of d numbers each, in half widths from the centre of the box, public
        or released before.
    """

    name: ClassVar[str] = "kernel"

    n_frequencies: int = 200
    n_rounds: int = 5
    width: float = 2.0
    start: str = "packing"
    centroids: Centroids = ()

    def __post_init__(self) -> None:
        for name, most in (("n_frequencies", MOST_FEATURES), ("n_rounds", MOST_ROUNDS)):
            if not 1 <= getattr(self, name) <= most:
                raise ConfigError(
                    f"must be from 1 to {most}", field=name, fix="leave it out for a choice"
                )
        if not 0.0 < self.width < math.inf:
            raise ConfigError("must be positive", field="width", fix="leave it out")
        object.__setattr__(self, "centroids", read_start(self.start, self.centroids))

    def describe(self) -> dict[str, Any]:
        """See ``Method``."""
        return asdict(self)

    def plan_rounds(self, task: Task) -> tuple[Round, ...]:
        """See ``Method``: rho in equal parts."""
        require_start(task, self.centroids)
        rounds = divide_jointly(task, ["features"] * self.n_rounds, [Fraction(1)] * self.n_rounds)
        self._make_noise(task, rounds[0])
        self._draw_frequencies(task)
        return rounds

    def release(self, records: QuantisedRecords, task: Task, curator: Curator) -> None:
        """See ``Method``."""
        frequencies, k = self._draw_frequencies(task), task.n_clusters
        start = place_start(task, self.start, self.centroids, purpose=self.name)
        around = compute_rows(np.rint(start).astype(np.int64), frequencies).astype(np.int64)
        for planned in self.plan_rounds(task):
            noise = self._make_noise(task, planned)
            found = np.zeros((k + 1, 2 * self.n_frequencies + 1), dtype=np.int64)
            for labels, rows in _assign(records.steps, frequencies, around):
                members = np.eye(k)[labels]
                # Integers below 2^53, so that the order of additions changes nothing.
                found[:k, :-1] += (members.T @ rows).astype(np.int64)
                found[:k, -1] += np.bincount(labels, minlength=k) * noise.sums.count_unit
            found[k, -1] = records.n_missing * noise.sums.count_unit
            answer = curator.ask(noise, found, centroids=around)
            around, _ = self._read(task, planned, answer)

    def recover(
        self, task: Task, answers: Sequence[Answer], *, n_clusters: int, rng: np.random.Generator
    ) -> Clusters:
        """See ``Method``; rounds on features tell of the task's k alone."""
        if n_clusters != task.n_clusters:
            raise ConfigError(
                f"must be {task.n_clusters}: features tell of no other number of clusters",
                field="n_clusters",
                fix="fit again, which spends again, or use the method grid or tree",
            )
        around, masses = self._read_last(task, answers)
        frequencies = self._draw_frequencies(task)
        centroids = [_find_point(task, frequencies, row, rng) for row in around]
        return Clusters.of(np.array(centroids), masses)

    def assign(
        self, task: Task, answers: Sequence[Answer], steps: NDArray[np.integer]
    ) -> NDArray[np.intp]:
        """Return the cluster of records, shape ``(n,)``: the place of its centroid.

        Parameters
        ----------
        steps
            Shape ``(n, d)``, in steps.
        """
        around, masses = self._read_last(task, answers)
        frequencies = self._draw_frequencies(task)
        parts = [labels for labels, _ in _assign(steps, frequencies, around)]
        labels = np.concatenate([np.zeros(0, dtype=np.intp), *parts])
        # As Clusters.of orders them.
        order = np.argsort(-np.maximum(masses, 0.0), kind="stable")
        place = np.empty(len(order), dtype=np.intp)
        place[order] = np.arange(len(order))
        placed: NDArray[np.intp] = place[labels]
        return placed

    def _draw_frequencies(self, task: Task) -> FrequencyMatrix:
        d = task.n_dimensions
        return draw_frequencies(
            hashlib.sha256(b"kernel" + task.seed).digest(),
            n_frequencies=self.n_frequencies,
            law=_GAUSSIAN,
            quantiser=Quantiser.from_bounds(np.full(d, -1.0), np.full(d, 1.0)),
            scale=np.full(d, self.width * math.sqrt(d) * _find_scale(task)),
        )

    def _make_noise(self, task: Task, planned: Round) -> SumsNoise:
        """Make the noise of a round: a record has m features of modulus up to A."""
        m, relation = self.n_frequencies, task.relation
        share = 1.0 if task.is_counted else _FREE_COUNT
        sums = ClusterSums(
            n_dimensions=m,
            radius=AMPLITUDE,
            count_unit=math.isqrt(math.floor(m * (share * AMPLITUDE) ** 2)),
        )
        squared = sums.measure_l2_squared(relation)
        n_coordinates = (task.n_clusters + 1) * (2 * m + 1)
        mechanism = make_gaussian(planned, relation, squared, n_coordinates)
        return SumsNoise(sums=sums, mechanism=mechanism)

    def _read_last(self, task: Task, answers: Sequence[Answer]) -> tuple[Integers, Floats]:
        return self._read(task, self.plan_rounds(task)[len(answers) - 1], answers[-1])

    def _read(self, task: Task, planned: Round, answer: Answer) -> tuple[Integers, Floats]:
        """Move centroids by noisy sums: shapes ``(k, 2 m)``, integers, and ``(k,)``.

        As :func:`sfumato.learning.clustering.methods.sums.read_sums`, with ``v = A^2 / 2``.
        """
        noise = self._make_noise(task, planned)
        around = answer.asked["centroids"].astype(np.float64)
        sums = answer.values[:-1, :-1].astype(np.float64)
        counts = answer.values[:, -1] / noise.sums.count_unit
        if task.is_counted:
            counts = counts + (task.n_records - counts.sum()) / len(counts)
        masses = counts[:-1]
        divisor = np.maximum(masses, 2.0 * noise.count_deviation)[:, None]
        spread = AMPLITUDE**2 / 2.0
        kept = spread / (spread + (noise.deviation / divisor) ** 2)
        moved = around + (sums - masses[:, None] * around) / divisor * kept
        return np.rint(np.clip(moved, -AMPLITUDE, AMPLITUDE)).astype(np.int64), masses


def _find_scale(task: Task) -> float:
    return task.scale or guess_scale(task.n_clusters, task.n_dimensions)


def compute_rows(steps: NDArray[np.integer], frequencies: FrequencyMatrix) -> NDArray[np.int16]:
    """Return the integer features of records, cosines before sines: shape ``(n, 2 m)``."""
    turns = frequencies.turns.astype(np.float64)
    product = (steps.astype(np.float64) @ turns).astype(np.int64)
    phases = (product >> (frequencies.bits - _PHASE_BITS)) & ((1 << _PHASE_BITS) - 1)
    table = feature_table()
    return np.concatenate([table[:, i].take(phases) for i in range(2)], axis=1)


def _assign(
    steps: NDArray[np.integer], frequencies: FrequencyMatrix, around: Integers
) -> Iterator[tuple[NDArray[np.intp], Floats]]:
    """Yield the nearest of integer centroids, and the features, of some records at a time.

    Exact, as :func:`sfumato.learning.clustering.methods.sums.find_nearest`.
    """
    centroids = around.astype(np.float64)
    squares = np.sum(centroids**2, axis=1)
    for first in range(0, len(steps), _BATCH):
        rows = compute_rows(steps[first : first + _BATCH], frequencies).astype(np.float64)
        yield np.argmin(squares - 2.0 * (rows @ centroids.T), axis=1), rows


def _find_point(
    task: Task, frequencies: FrequencyMatrix, row: Integers, rng: np.random.Generator
) -> Floats:
    """Find the point of the box whose features are nearest to a mean of features, in steps."""
    d, m = task.n_dimensions, frequencies.n_frequencies
    box = Quantiser.from_bounds(np.full(d, -float(STEPS)), np.full(d, float(STEPS)))
    problem = DecodingProblem(
        sketch=np.asarray((row[:m] + 1j * row[m:]) / AMPLITUDE, dtype=np.complex128),
        frequencies=frequencies.to_angular(box),
        lower=np.full(d, -float(STEPS)),
        upper=np.full(d, float(STEPS)),
        centre=np.zeros(d),
        unit=np.full(d, _find_scale(task) * STEPS),
        noise_variance=0.0,
        n_clusters=1,
    )
    point: Floats = ClOmpr(n_replicates=_REPLICATES).solve(problem, rng=rng).centroids[0]
    return point
