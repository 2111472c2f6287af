"""One round of Lloyd's algorithm under noise: sums and counts of clusters, then new centroids.

After Blum, Dwork, McSherry and Nissim (2005), McSherry (2009) and Su et al. (2016). Three laws of
noise have the same question: cube noise, the Laplace noise of Su et al. with their division between
sums and counts, and Gaussian noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.clustering.methods.contract import (
    Answer,
    Curator,
    Floats,
    Integers,
    QuantisedRecords,
    Round,
    Task,
)
from sfumato.shared.core.quantise import STEPS
from sfumato.shared.errors import ConfigError
from sfumato.shared.privacy.cluster_sums import CellMoments, ClusterSums
from sfumato.shared.privacy.mechanism import PrivacyGuarantee
from sfumato.shared.privacy.mechanisms.cube import LEAST_SCALE, DiscreteCube
from sfumato.shared.privacy.mechanisms.gaussian import (
    LEAST_JOINT_SIGMA,
    DiscreteGaussian,
    sigma_for_rho,
)
from sfumato.shared.privacy.mechanisms.laplace import DiscreteLaplace
from sfumato.shared.privacy.samplers import RandomSource

Law = Literal["cube", "laplace", "gaussian"]
LAWS: Final = ("cube", "laplace", "gaussian")

_SPREAD: Final = 0.225
"""Su et al. (2016), section 4: root mean square of a normalised coordinate."""
_FREE_COUNT: Final = 0.3
"""Weight of a Gaussian count over sqrt(d) R where it is not free; it costs 9 % of the variance."""
_BATCH: Final = 1 << 14
_ROUNDS: Final = ((10_000.0, 5), (3000.0, 3), (1000.0, 2))
"""Least ``n epsilon / k``, and the rounds of sums after a start from there on."""
_WIDTHS: Final = 4.0
"""Standard deviations inside a cluster from its centroid to where residuals are clipped."""


@dataclass(frozen=True, kw_only=True)
class SumsNoise:
    """Noise of the sums of one round.

    Parameters
    ----------
    sums
        What is summed, and its sensitivities.
    mechanism
        The noise.
    """

    sums: ClusterSums | CellMoments
    mechanism: DiscreteCube | DiscreteLaplace | DiscreteGaussian

    @property
    def guarantee(self) -> PrivacyGuarantee:
        """The proved bound for one release."""
        return self.mechanism.guarantee

    def add_noise(self, sums: Integers, source: RandomSource) -> Integers:
        """Return the sums of bodies, shape ``(B, d + 1)``, with fresh noise."""
        if isinstance(self.mechanism, DiscreteCube):
            return self.mechanism.add_noise(sums, source)
        return self.mechanism.add_noise(sums.ravel(), source).reshape(sums.shape)

    @property
    def deviation(self) -> float:
        """Standard deviation of a coordinate of a sum, steps."""
        return math.sqrt(self.mechanism.variance)

    @property
    def count_deviation(self) -> float:
        """Standard deviation of a count, records."""
        return self.deviation / self.sums.count_unit


def choose_rounds(task: Task) -> int:
    """Choose the rounds of sums that follow a start, by ``n epsilon / k``, a public number.

    Each takes its part of epsilon. Where noise is strong, one round is all that it leaves room for;
    where it is weak, a start from wide cells lies in the wrong place by more than noise moves it.
    """
    found = task.strength / task.n_clusters
    return next((n_rounds for least, n_rounds in _ROUNDS if found >= least), 1)


def make_noise(law: str, planned: Round, task: Task, radius: int) -> SumsNoise:
    """Make the noise that a planned round pays for.

    Parameters
    ----------
    law
        ``cube``, ``laplace`` or ``gaussian``.
    radius
        R: no coordinate that is summed is larger.

    Raises
    ------
    PrivacyError
        The noise would not fit, or the radius is so small that its grid is too coarse.
    """
    d, relation = task.n_dimensions, task.relation
    mechanism: DiscreteCube | DiscreteLaplace | DiscreteGaussian
    if law == "cube":
        sums = ClusterSums(n_dimensions=d, radius=radius, count_unit=radius)
        mechanism = DiscreteCube.calibrate(
            n_coordinates=d + 1,
            norm_sensitivity=sums.measure_cubes(relation),
            epsilon=planned.epsilon,
            neighbouring=relation,
        )
    elif law == "laplace":
        unit = max(1, math.floor((4.0 * d * _SPREAD**2) ** (1.0 / 3.0) * radius))
        sums = ClusterSums(n_dimensions=d, radius=radius, count_unit=unit)
        mechanism = DiscreteLaplace.calibrate(
            sensitivity_l1=sums.measure_l1(relation),
            epsilon=planned.epsilon,
            neighbouring=relation,
        )
    else:
        share = 1.0 if task.is_counted else _FREE_COUNT
        unit = max(1, math.isqrt(math.floor(d * (share * radius) ** 2)))
        sums = ClusterSums(n_dimensions=d, radius=radius, count_unit=unit)
        squared = sums.measure_l2_squared(relation)
        mechanism = make_gaussian(planned, relation, squared, d + 1)
    return SumsNoise(sums=sums, mechanism=mechanism)


def make_gaussian(
    planned: Round, relation: str, sensitivity_l2_squared: int, n_coordinates: int
) -> DiscreteGaussian:
    """Make the Gaussian noise of a round that is bounded jointly with others.

    Raises
    ------
    PrivacyError
        The noise would not fit.
    """
    assert planned.rho is not None
    sigma = sigma_for_rho(sensitivity_l2_squared, planned.rho)
    return DiscreteGaussian(
        n_coordinates=n_coordinates,
        sensitivity_l2_squared=sensitivity_l2_squared,
        sigma=max(sigma, LEAST_JOINT_SIGMA),
        epsilon=planned.epsilon,
        delta=planned.delta,
        neighbouring=relation,
    )


def require_law(law: str) -> None:
    """Refuse a law of noise that there is not.

    Raises
    ------
    ConfigError
        It is none of ``LAWS``.
    """
    if law not in LAWS:
        raise ConfigError(
            f"must be one of {', '.join(LAWS)}", field="noise", fix='write "cube", the least noise'
        )


def choose_radius(scale: float | None, planned: Round) -> int:
    """Return where residuals are clipped: four spreads inside a cluster, at most half the box.

    Parameters
    ----------
    scale
        Spread over half a width of the box; None for no clipping.
    planned
        The round that pays: below ten epsilon the grid of its noise would be too coarse.
    """
    if scale is None:
        return STEPS
    least = math.ceil(LEAST_SCALE * planned.epsilon)
    return min(STEPS, max(least, math.floor(_WIDTHS * scale * STEPS)))


def find_nearest(steps: NDArray[np.int16], centroids: Integers) -> NDArray[np.intp]:
    """Return the nearest of integer centroids for each record: shape ``(n,)``.

    Exact: all numbers are integers below 2^53, so the order of additions changes nothing, and the
    label of a record depends on no other record. Ties go to the first.
    """
    around = centroids.astype(np.float64)
    squares = np.sum(around**2, axis=1)
    labels = np.empty(len(steps), dtype=np.intp)
    for first in range(0, len(steps), _BATCH):
        part = steps[first : first + _BATCH].astype(np.float64)
        labels[first : first + _BATCH] = np.argmin(squares - 2.0 * (part @ around.T), axis=1)
    return labels


def sum_bodies(
    vectors: NDArray[np.integer], labels: NDArray[np.intp], n_bodies: int, count_unit: int
) -> Integers:
    """Sum vectors and counts by label: shape ``(n_bodies, d + 1)``, int64, exact."""
    found = np.empty((n_bodies, vectors.shape[1] + 1), dtype=np.int64)
    for i, column in enumerate(vectors.T):
        found[:, i] = np.bincount(labels, column, minlength=n_bodies).astype(np.int64)
    found[:, -1] = np.bincount(labels, minlength=n_bodies) * count_unit
    return found


def ask_sums(
    records: QuantisedRecords,
    task: Task,
    curator: Curator,
    centroids: Floats,
    law: str,
    radius: int,
) -> Answer:
    """Ask for the sums of the clusters around centroids, and their counts.

    A last body counts records with a missing value. What is summed are records if the radius is
    that of the box, and otherwise their residuals, clipped to the radius.
    """
    around = np.rint(np.clip(centroids, -STEPS, STEPS)).astype(np.int64)
    noise = make_noise(law, curator.next_round, task, radius)
    labels = find_nearest(records.steps, around)
    vectors: NDArray[np.integer] = records.steps
    if radius < STEPS:
        vectors = np.clip(records.steps.astype(np.int64) - around[labels], -radius, radius)
    k, unit = len(around), noise.sums.count_unit
    found = np.zeros((k + 1, task.n_dimensions + 1), dtype=np.int64)
    found[:k] = sum_bodies(vectors, labels, k, unit)
    found[k, -1] = unit * records.n_missing
    return curator.ask(noise, found, centroids=around, radius=np.array([radius]))


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyClusters:
    """An answer about sums, read.

    Parameters
    ----------
    centroids
        Shape ``(k, d)``, steps, moved.
    masses
        Shape ``(k,)``, noisy numbers of records, of any sign.
    """

    centroids: Floats
    masses: Floats


def read_sums(
    task: Task, planned: Round, answer: Answer, law: str, *, is_shrunk: bool
) -> NoisyClusters:
    """Move centroids by noisy sums; a function of the answer and public numbers.

        D = max(N_c, 2 s),    c + (S_c - N_c c) / D v / (v + (s' / D)^2),    v = (R / 3)^2

    with s the deviation of a count and s' that of a sum; S_c alone where residuals were summed. As
    published, without ``is_shrunk``, the centroid is ``S_c / N_c`` where N_c is at least 1, and
    stays otherwise. Where n is public, the counts are corrected to sum to n.
    """
    around = answer.asked["centroids"].astype(np.float64)
    radius = int(answer.asked["radius"][0])
    noise = make_noise(law, planned, task, radius)
    sums = answer.values[:-1, :-1].astype(np.float64)
    counts = answer.values[:, -1] / noise.sums.count_unit
    if task.is_counted:
        counts = counts + (task.n_records - counts.sum()) / len(counts)
    counts = counts[:-1]
    is_residual = radius < STEPS
    if not is_shrunk:
        divisor = np.maximum(counts, 1.0)[:, None]
        moved = around * is_residual + sums / divisor
        moved = np.where(counts[:, None] >= 1.0, moved, around)
    else:
        divisor = np.maximum(counts, 2.0 * noise.count_deviation)[:, None]
        offsets = sums if is_residual else sums - counts[:, None] * around
        spread = (radius / 3.0) ** 2
        kept = spread / (spread + (noise.deviation / divisor) ** 2)
        moved = around + offsets / divisor * kept
    return NoisyClusters(centroids=np.clip(moved, -STEPS, STEPS), masses=counts)
