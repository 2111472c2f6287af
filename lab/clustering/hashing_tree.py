"""Hashing tree under local privacy: each device reports its leaf and one bit of its record.

A reference to compare with. It simplifies Chang, Ghazi, Kumar and Manurangsi, "Locally Private
k-Means in One Round" (2021), at three points. A public tree of random hyperplanes takes the place
of the net tree. Its depth is fixed by public numbers, so a device reports one leaf, and levels do
not share the budget. The sums of the records of the leaves come from one dithered bit of one random
coordinate of each record, in one unary code with the leaf, in place of bucketed vector sums. The
server estimates counts and sums of the leaves, and runs weighted k-means on their means.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.lab.clustering.local_method import (
    LocalMethod,
    Tally,
    build_quantiser,
    require_sizes,
    require_tally,
    restore_units,
)
from sfumato.lab.clustering.unary import BLANK, Bytes, UnaryLaw, choose_unary_law, require_reports
from sfumato.learning.clustering.weighted_points import cluster_weighted, project_on_simplex
from sfumato.shared.arrays import Floats, Integers
from sfumato.shared.core.quantise import STEPS
from sfumato.shared.core.seeds import WordStream
from sfumato.shared.errors import PlanError
from sfumato.shared.privacy.samplers import RandomSource, draw_below

MOST_LEVELS: Final = 9
"""A report has two bits a leaf: 128 bytes, and two for its coordinate."""
_LEVELS_PER_CLUSTER: Final = 3
_LARGEST_ERROR: Final = 0.15
_COORDINATE_BYTES: Final = 2
_MOST_DIMENSIONS: Final = 1 << 16
_POINTS_PER_LEAF: Final = 16
# Sums of four uniform 16-bit numbers have this mean and, rounded, this standard deviation.
_PARTS_MEAN: Final = 2 * 65535
_PARTS_DEVIATION: Final = 37837
_CHUNK: Final = 1 << 16


@dataclass(frozen=True, kw_only=True, eq=False)
class PublicTree:
    """A complete binary tree of hyperplanes; node i has the children 2 i + 1 and 2 i + 2.

    Parameters
    ----------
    normals
        Shape ``(2^depth - 1, d)``, int64.
    thresholds
        Shape ``(2^depth - 1,)``, int64: a record u goes to the second child where ``a.u`` is more.
    """

    normals: Integers
    thresholds: Integers

    @property
    def depth(self) -> int:
        """The number of levels above the leaves."""
        return (len(self.normals) + 1).bit_length() - 1

    def find_leaves(self, quantised: NDArray[np.integer]) -> Integers:
        """Find the leaf of each record, from 0 to 2^depth - 1.

        Parameters
        ----------
        quantised
            Shape ``(n, d)``, quantisation steps.
        """
        leaves = np.empty(len(quantised), dtype=np.int64)
        for start in range(0, len(quantised), _CHUNK):
            part = quantised[start : start + _CHUNK].astype(np.int64)
            nodes = np.zeros(len(part), dtype=np.int64)
            for _ in range(self.depth):
                dots = np.sum(part * self.normals[nodes], axis=1)
                nodes = 2 * nodes + 1 + (dots > self.thresholds[nodes])
            leaves[start : start + _CHUNK] = nodes - len(self.normals)
        return leaves


def grow_tree(seed: bytes, depth: int, n_dimensions: int) -> PublicTree:
    """Grow the tree of a public seed: integers only, so the same on every machine.

    Normals and a cloud of points are sums of four uniform 16-bit numbers, so nearly Gaussian. The
    cloud has a third of a half width as its standard deviation, a public guess at where records
    lie that affects quality alone. Each node divides the points that reach it at their median.

    Parameters
    ----------
    seed
        32 bytes, public.
    depth, n_dimensions
        Levels above the leaves, and d.

    Raises
    ------
    PlanError
        The seed has another length.
    """
    n_nodes, n_points = (1 << depth) - 1, _POINTS_PER_LEAF << depth
    normals = _draw_bells(seed, "normals", n_nodes, n_dimensions)
    cloud = _draw_bells(seed, "cloud", n_points, n_dimensions) * (STEPS // 3) // _PARTS_DEVIATION
    thresholds = np.zeros(n_nodes, dtype=np.int64)
    nodes = np.zeros(n_points, dtype=np.int64)
    for level in range(depth):
        dots = np.sum(cloud * normals[nodes], axis=1)
        for node in range((1 << level) - 1, (2 << level) - 1):
            here = np.sort(dots[nodes == node])
            if here.size:
                thresholds[node] = here[(here.size - 1) // 2]
        nodes = 2 * nodes + 1 + (dots > thresholds[nodes])
    return PublicTree(normals=normals, thresholds=thresholds)


@dataclass(frozen=True, kw_only=True, eq=False)
class HashingTree(LocalMethod):
    """Reports of leaves of a public tree; see :class:`LocalMethod` for the methods.

    A report states a coordinate j, uniform whatever the record, and a unary code on the symbols
    ``2 leaf + b``. The bit b is one with probability ``(u_j + 32767) / 65534``, so ``2 b - 1`` is
    ``u_j / 32767`` in the mean. The law of a report of a record is a mixture over b of laws of
    symbols, so its odds are those of the symbols.

    Parameters
    ----------
    epsilon, lower, upper
        As of ``LocalMethod``.
    depth
        Levels of the tree above its leaves, 1 to ``MOST_LEVELS``.
    seed
        32 bytes from which the tree grows, public.

    Raises
    ------
    PlanError
        The box, the depth or the seed cannot be used.
    PrivacyError
        epsilon is no rational from ``LEAST_EPSILON`` to ``LARGEST_EPSILON``.
    """

    depth: int
    seed: bytes

    def __post_init__(self) -> None:
        if not 1 <= self.depth <= MOST_LEVELS:
            raise PlanError(
                f"must be from 1 to {MOST_LEVELS} and is {self.depth}",
                field="depth",
                fix="take the depth from choose",
            )
        if self.n_dimensions > _MOST_DIMENSIONS:
            raise PlanError(
                f"must have at most {_MOST_DIMENSIONS} dimensions",
                field="lower, upper",
                fix="use fewer dimensions",
            )
        # What is out of range is refused here rather than at the first report.
        _ = self.law, self.tree

    @classmethod
    def choose(
        cls,
        *,
        n_records: int,
        n_clusters: int,
        epsilon: Fraction,
        lower: ArrayLike,
        upper: ArrayLike,
        seed: bytes,
    ) -> HashingTree:
        """Choose the depth from public numbers.

        The largest depth for which the mean of a leaf with n / L records has a squared error of at
        most 0.15 squared half widths in all dimensions together,
        ``2 d^2 (v L^2 + L) / n <= 0.15``, with v the noise variance of a count for one record; and
        not more than 8 leaves a cluster. The 0.15 was chosen on the mixtures of
        ``benchmarks.phones``, with other seeds.

        Parameters
        ----------
        n_records, n_clusters
            n and k.
        epsilon, lower, upper, seed
            As in the class.

        Raises
        ------
        PlanError, PrivacyError
            A number is out of range.
        """
        require_sizes(n_records, n_clusters)
        d = build_quantiser(lower, upper).n_dimensions
        variance = choose_unary_law(epsilon, 1).compute_noise_variance(1)

        def predict_error(depth: int) -> float:
            error: float = 2 * d**2 * (variance * 4.0**depth + 2.0**depth) / n_records
            return error

        limit = min(MOST_LEVELS, math.ceil(math.log2(n_clusters)) + _LEVELS_PER_CLUSTER)
        depths = [1, *(i for i in range(2, limit + 1) if predict_error(i) <= _LARGEST_ERROR)]
        return cls(epsilon=epsilon, lower=lower, upper=upper, depth=depths[-1], seed=seed)

    @property
    def n_dimensions(self) -> int:
        """The number of dimensions d."""
        return self.quantiser.n_dimensions

    @property
    def n_leaves(self) -> int:
        """The number of leaves L."""
        return 1 << self.depth

    @cached_property
    def law(self) -> UnaryLaw:
        """The law of a report's unary code, on 2 L symbols."""
        return choose_unary_law(self.epsilon, 2 * self.n_leaves)

    @cached_property
    def tree(self) -> PublicTree:
        """The tree of the seed."""
        return grow_tree(self.seed, self.depth, self.n_dimensions)

    @property
    def report_bytes(self) -> int:
        """The length of a report: its coordinate, and two bits a leaf."""
        return _COORDINATE_BYTES + self.law.report_bytes

    def report(self, records: NDArray[np.floating], source: RandomSource) -> Bytes:
        """Draw the reports of records: shape ``(n, report_bytes)``.

        The coordinate, in two bytes with the lower one first, then the unary code.
        """
        quantised, sketchable = self.quantiser.quantise(records)
        n = len(quantised)
        coordinates = draw_below(source, self.n_dimensions, n)
        values = quantised[np.arange(n), coordinates].astype(np.int64)
        bits = draw_below(source, 2 * STEPS, n) < values + STEPS
        symbols = np.where(sketchable, 2 * self.tree.find_leaves(quantised) + bits, BLANK)
        stated = coordinates.astype("<u2").view(np.uint8).reshape(n, _COORDINATE_BYTES)
        return np.concatenate([stated, self.law.draw_reports(symbols, source)], axis=1)

    def tally(self, reports: Bytes) -> Tally:
        """Add up reports; a tally has a group of 2 L symbols for each coordinate."""
        require_reports(reports, self.report_bytes)
        stated, codes = np.split(reports, [_COORDINATE_BYTES], axis=1)
        coordinates = stated[:, 0] + 256 * stated[:, 1].astype(np.int64)
        if np.any(coordinates >= self.n_dimensions):
            raise PlanError(
                f"must state a coordinate below {self.n_dimensions}",
                field="reports",
                fix="drop the reports of devices that do not follow the protocol",
            )
        groups = range(self.n_dimensions)
        return Tally(
            ones=np.stack([self.law.count_ones(codes[coordinates == j]) for j in groups]),
            n_reports=np.bincount(coordinates, minlength=self.n_dimensions).astype(np.int64),
        )

    def estimate_leaves(self, tally: Tally) -> tuple[Floats, Floats]:
        """Estimate the counts of the leaves, and the sums of their records; both are unbiased.

        A coordinate with ``n_j`` of n reports stands for ``n / n_j`` times its reports; the sum of
        one without a report is zero.

        Returns
        -------
        counts, sums
            Shapes ``(L,)``, and ``(L, d)`` in half widths from the centre of the box.
        """
        require_tally(tally, self.n_dimensions, 2 * self.n_leaves)
        estimates = np.stack(
            [
                self.law.estimate_counts(ones, int(n_reports))
                for ones, n_reports in zip(tally.ones, tally.n_reports, strict=True)
            ]
        ).reshape(self.n_dimensions, self.n_leaves, 2)
        scale = tally.total / np.maximum(tally.n_reports, 1)
        sums = scale[:, None] * (estimates[:, :, 1] - estimates[:, :, 0])
        return estimates.sum(axis=(0, 2)), sums.T

    def recover(self, tally: Tally, *, n_clusters: int, rng: np.random.Generator) -> Floats:
        """Cluster the means of the leaves, weighted by counts projected on the simplex.

        A sum is divided by the unbiased count, which blanks leave unbiased, or by two standard
        deviations of it if that is more, so that a leaf of noise alone stays near the centre.
        """
        counts, sums = self.estimate_leaves(tally)
        weights = project_on_simplex(counts, tally.total)
        deviation = math.sqrt(2 * self.law.compute_noise_variance(tally.total))
        means = sums / np.maximum(counts, 2 * deviation)[:, None]
        points = restore_units(self.quantiser, STEPS * np.clip(means, -1.0, 1.0))
        return cluster_weighted(points, weights, n_clusters, rng)


def _draw_bells(seed: bytes, label: str, n_rows: int, n_columns: int) -> Integers:
    """Draw centred sums of four uniform 16-bit numbers, one word each: int64."""
    words = WordStream(seed, f"reference/hashing-tree/{label}").take(n_rows * n_columns)
    parts = words.view(np.uint16).reshape(n_rows, n_columns, 4)
    bells: Integers = parts.sum(axis=2, dtype=np.int64) - _PARTS_MEAN
    return bells
