"""K-norm noise on the lattice 24-gon: the same pure epsilon for a quarter of Laplace's variance.

Noise is spread over the body that contains every change of one record (Hardt and Talwar 2010): a
common radius T for all features, and each feature uniform on the lattice points of T P. The law
of T is a shifted sum of geometrics, so T needs no rejection; ``proofs.md`` proves the sampled law
private.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from sfumato.shared.arrays import Integers
from sfumato.shared.errors import PrivacyError
from sfumato.shared.privacy.mechanism import (
    NoiseTail,
    PrivacyGuarantee,
    bound_pure_delta,
    require_epsilon,
)
from sfumato.shared.privacy.mechanisms.kind import MechanismKind
from sfumato.shared.privacy.noise_radius import NoiseRadius
from sfumato.shared.privacy.polygon import GON24, LatticePolygon
from sfumato.shared.privacy.samplers import (
    UNIT,
    RandomSource,
    collect_accepted,
    draw_below,
    draw_below_wide,
)
from sfumato.shared.privacy.target import PrivacyTarget

_LEAST_RATE = 1 << 10
_LARGEST_RATE = (1 << 62) - 1
_WIDEST = 1 << 58
"""Coordinates up to here, times those of a facet, fit 64 bits. Others need Python integers."""


@dataclass(frozen=True, kw_only=True)
class DiscreteKNorm:
    """Noise on m complex features, all used by every record (r = m).

    Guarantees
    ----------
    If the change of every feature between neighbouring data sets has norm at most
    ``norm_sensitivity``, and an appended count changes by no more, one release is
    ``(norm_sensitivity rate / 2^52, 0)`` differentially private (``proofs.md``, section 3).

    Parameters
    ----------
    n_frequencies
        m.
    norm_sensitivity
        Delta, enumerated by ``compute_norm_sensitivity``.
    rate
        Integer in units of 2^-52: radii fall off as ``exp(-t rate / 2^52)``.
    neighbouring
        The relation that the sensitivity was computed for.
    n_counts
        1 if the sum ends with the number of records times ``norm_sensitivity``; otherwise 0.
    """

    polygon: ClassVar[LatticePolygon] = GON24

    n_frequencies: int
    norm_sensitivity: int
    rate: int
    neighbouring: str
    n_counts: int = 0

    @classmethod
    def calibrate(
        cls,
        *,
        n_frequencies: int,
        norm_sensitivity: int,
        epsilon: Fraction,
        neighbouring: str,
        n_counts: int = 0,
    ) -> DiscreteKNorm:
        """Find the least noise that guarantees epsilon; the rate is rounded down.

        Raises
        ------
        PrivacyError
            epsilon is not a positive rational, or so small that noise would not fit 64-bit sums, or
            so large that the fixed shift of the radius would waste epsilon.
        """
        rate = math.floor(require_epsilon(epsilon) * UNIT / norm_sensitivity)
        mechanism = cls(
            n_frequencies=n_frequencies,
            norm_sensitivity=norm_sensitivity,
            rate=min(rate, _LARGEST_RATE),
            neighbouring=neighbouring,
            n_counts=n_counts,
        )
        if rate < _LEAST_RATE or mechanism.noise_bound >= 1 << 52:
            raise PrivacyError(
                "is so small that the noise would not fit 64-bit sums",
                field="epsilon",
                fix="use a larger epsilon or fewer frequencies",
            )
        if 10 * epsilon > norm_sensitivity:
            raise PrivacyError(
                f"is above {norm_sensitivity // 10}, where the grid of this noise is too coarse",
                field="epsilon",
                fix="use a smaller epsilon, or discrete-laplace",
            )
        return mechanism

    @property
    def n_coordinates(self) -> int:
        """D, the real coordinates of a sum: 2 m, plus the count if there is one."""
        return 2 * self.n_frequencies + self.n_counts

    @cached_property
    def shift(self) -> int:
        """s, the least radius: ``ceil((D + 1) / 2 - b)``."""
        return math.ceil(Fraction(self.n_coordinates + 1, 2) - self.polygon.linear_share)

    @property
    def gain(self) -> float:
        """1: noise is added."""
        return 1.0

    @property
    def radius(self) -> NoiseRadius:
        """The law of T."""
        return NoiseRadius(shift=self.shift, n_geometrics=self.n_coordinates + 1, rate=self.rate)

    @property
    def scale(self) -> Fraction:
        """``2^52 / rate``: radii fall by a factor e over this many steps; exact."""
        return self.radius.scale

    @cached_property
    def variance(self) -> float:
        """Variance of one real coordinate of a feature: mean of x^2 over T P, over the law of T.

        The lattice points of t P have mean square ``second_moment t^2`` up to a relative error of
        order 1 / t^2, and t is at least m Delta / epsilon.
        """
        return float(self.polygon.second_moment) * self.radius.mean_square

    def compute_count_variance(self, count_scale: int) -> float:
        """Compute the variance of a released number of records: uniform on -T .. T, scaled."""
        return self.radius.mean_square / 3 / count_scale**2

    @cached_property
    def noise_bound(self) -> int:
        """A magnitude that one coordinate exceeds with probability below 2^-60."""
        return self.polygon.inradius * self.radius.bound

    @property
    def guarantee(self) -> PrivacyGuarantee:
        """The proved bound for one release."""
        return PrivacyGuarantee(
            epsilon=Fraction(self.norm_sensitivity * self.rate, UNIT),
            delta=Fraction(0),
            neighbouring=self.neighbouring,
        )

    def bound_delta(self, epsilon: Fraction, *, n_records: int = 1, n_windows: int = 1) -> Fraction:
        """Bound delta at an epsilon for q records in each of w windows: 0 from q w epsilon on."""
        return bound_pure_delta(self.guarantee, epsilon, n_records=n_records, n_windows=n_windows)

    def bound_tail(self, n_coordinates: int, *, exponent: float) -> NoiseTail:
        """Bound the Gamma radius; given it, the features are independent on one bounded body."""
        m, x, n = n_coordinates // 2, exponent, self.n_coordinates + 1
        gamma = n + math.sqrt(2 * n * x) + x
        margin = _compute_margin(self.polygon)
        radius = self.shift + float(self.scale) * gamma + margin
        corner, mean, fourth = _describe_polygon(self.polygon)
        # Lattice points stand for unit squares, which fill a body larger by the margin.
        paid = x + 2 * m * margin / self.shift
        spread = math.sqrt(2 * m * (fourth - mean**2) * paid) + (corner - mean) * paid / 3
        return NoiseTail(
            exponent=paid,
            squared_norm=radius**2 * min(m * mean + spread, m * corner),
            spread=radius**2 * mean / 4,
            reach=radius * math.sqrt(corner / 12),
        )

    def add_noise(self, sums: Integers, source: RandomSource) -> Integers:
        """Return ``sums`` plus fresh noise, shape ``(D,)``; arithmetic modulo 2^64.

        A second call is a second release.
        """
        # Drawn in full before the sums are read. The radius must never leave this call: given it,
        # the noise is uniform on a bounded body, and an output outside would exclude a data set.
        noise = self.draw_noise(source)
        return sums + noise

    def draw_noise(self, source: RandomSource) -> Integers:
        """Draw one noise vector: shape ``(D,)``, real parts, imaginary parts, then any count."""
        (radius,) = self.radius.draw(source, 1)
        x, y = draw_in_polygon(source, self.polygon, radius, self.n_frequencies)
        counts = _draw_centred(source, radius, self.n_counts)
        return np.concatenate([_wrap(x), _wrap(y), _wrap(counts)])


def draw_in_polygon(
    source: RandomSource, polygon: LatticePolygon, radius: int, count: int
) -> tuple[Integers, Integers]:
    """Draw points uniform on the lattice points of ``radius * P``: two arrays, ``(count,)``.

    Drawn uniformly from the surrounding square and kept when inside. The share kept, and so the
    time, depends on the radius only through rounding. The arrays are int64, and Python integers
    where the test of membership needs more than 64 bits.
    """
    reach = polygon.inradius * radius

    def draw_batch(size: int) -> Integers:
        square = _draw_centred(source, reach, 2 * size).reshape(2, size)
        return square[:, polygon.contains(square[0], square[1], radius)]

    x, y = collect_accepted(draw_batch, count=count, share=0.79)
    return x, y


def _draw_centred(source: RandomSource, reach: int, count: int) -> NDArray[Any]:
    """Draw integers uniform on ``-reach .. reach``: int64 up to ``_WIDEST``, else Python's."""
    if reach <= _WIDEST:
        return draw_below(source, 2 * reach + 1, count) - reach
    drawn = [draw_below_wide(source, 2 * reach + 1) - reach for _ in range(count)]
    return np.array(drawn, dtype=object)


def _wrap(values: NDArray[Any]) -> Integers:
    """Reduce integers modulo 2^64, as the sums are."""
    if values.dtype != object:
        return values
    residues = [value % (1 << 64) for value in values.tolist()]
    return np.array(residues, dtype=np.uint64).view(np.int64)


def _measure(target: PrivacyTarget) -> int:
    sensitivity = target.shape.measure_polygon(target.neighbouring)
    if sensitivity is None:
        raise PrivacyError(
            "cannot be discrete-knorm: it is made for Fourier features and gains nothing here",
            field="mechanism",
            fix="use discrete-laplace, or discrete-gaussian with a delta",
        )
    return sensitivity


def _calibrate(target: PrivacyTarget) -> DiscreteKNorm:
    return DiscreteKNorm.calibrate(
        n_frequencies=target.shape.n_coordinates // 2,
        norm_sensitivity=_measure(target),
        epsilon=target.epsilon,
        neighbouring=target.neighbouring,
        n_counts=int(target.releases_count),
    )


def _compute_margin(polygon: LatticePolygon) -> float:
    """Return the d for which d P holds the unit square around the origin."""
    return max((p + q) / (2 * c) for p, q, c in polygon.facets)


@lru_cache(maxsize=8)
def _describe_polygon(polygon: LatticePolygon) -> tuple[float, float, float]:
    """Return the largest ``|x|^2`` of P, and the means of ``|x|^2`` and ``|x|^4`` over it.

    Over a triangle from the origin, the integral of a homogeneous function of degree k is the
    doubled area over k + 2 times the integral along the outer edge.
    """
    second = fourth = 0.0
    corners = polygon.vertices
    for (x, y), (u, v) in zip(corners, corners[1:] + corners[:1], strict=True):
        doubled = x * v - y * u
        a, b, c = x * x + y * y, x * (u - x) + y * (v - y), (u - x) ** 2 + (v - y) ** 2
        second += doubled * (a + b + c / 3) / 4
        fourth += (
            doubled * (a * a + 2 * a * b + (4 * b * b + 2 * a * c) / 3 + b * c + c * c / 5) / 6
        )
    largest = max(x * x + y * y for x, y in corners)
    return float(largest), second / polygon.area, fourth / polygon.area


KNORM: Final = MechanismKind(
    name="discrete-knorm",
    label="K-norm",
    norm="gon24",
    needs_delta=False,
    allows_masks=False,
    needs_pairs=True,
    measure=_measure,
    scale_count=_measure,
    calibrate=_calibrate,
)
