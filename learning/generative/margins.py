"""The distribution of a number, from a noised histogram and from a density of the same records.

A histogram of many bins has much noise in a range of them; a density has little, but blurs spikes
and sharp ends. The difference of the two is taken apart into Haar coefficients, and those that
noise cannot explain are kept (the garrote of Gao, "Wavelet shrinkage denoising using the
non-negative garrote", 1998), with thresholds by the tails that the noise has.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.clustering.weighted_points import project_on_simplex
from sfumato.learning.estimate.histogram import Marginal

Floats = NDArray[np.float64]
_SEED: Final = 0
_N_RANGES: Final = 500
_STRICTNESS: Final = 0.4
"""Exponent of the thresholds, over ln B, where the density has records; 1 where it has none.

With 1 noise alone makes a coefficient or two larger than its threshold.
"""
_MEAN_OF_NORMAL: Final = math.sqrt(2.0 / math.pi)


def transform(values: Floats) -> Floats:
    """Compute orthonormal Haar coefficients along the last axis, of 2^b values.

    Returns
    -------
    float64
        Shape of ``values``: the mean, then the coefficients from the widest to the narrowest, as
        :func:`list_widths` has them.
    """
    levels, left = [], np.asarray(values, dtype=np.float64)
    while left.shape[-1] > 1:
        even, odd = left[..., ::2], left[..., 1::2]
        levels.append((even - odd) / math.sqrt(2.0))
        left = (even + odd) / math.sqrt(2.0)
    return np.concatenate([left, *reversed(levels)], axis=-1)


def invert(coefficients: Floats) -> Floats:
    """Compute the values from coefficients of :func:`transform`."""
    left, rest = coefficients[..., :1], coefficients[..., 1:]
    while rest.shape[-1]:
        width = left.shape[-1]
        detail, rest = rest[..., :width], rest[..., width:]
        both = np.stack([left + detail, left - detail], axis=-1) / math.sqrt(2.0)
        left = both.reshape(*left.shape[:-1], 2 * width)
    return left


def list_widths(n_values: int) -> Floats:
    """List how many values each coefficient depends on: shape ``(n,)``."""
    n_levels = n_values.bit_length() - 1
    widths = [np.full(2**level, n_values >> level) for level in range(n_levels)]
    return np.concatenate([[n_values], *widths]).astype(np.float64)


def _sum_blocks(values: Floats) -> Floats:
    """Sum the values that each coefficient of :func:`transform` depends on."""
    levels, left = [], values
    while left.size > 1:
        left = left[::2] + left[1::2]
        levels.append(left)
    return np.concatenate([left, *reversed(levels)])


@dataclass(frozen=True, kw_only=True, eq=False)
class Blend:
    """A distribution on bins, and what its error is made of.

    Parameters
    ----------
    shares
        Shape ``(B + 2,)``: below the bounds, in the bins, and above them: >= 0 with sum 1.
    square
        Unbiased estimate of the mean squared error of a range, so that it may be negative.
    doubt
        Its standard error, at most.
    noise
        The part of it that is noise of what was kept.
    left
        Part of ranges that was left to the density, 0 to 1.
    part
        Mean error of ranges at most because their ends are inside of bins. No histogram tells
        whether the records of a bin have one value; the worst is one at its edge, where the two
        ends of a range are off by half of the bin's share each.
    """

    shares: Floats
    square: float
    doubt: float
    noise: float
    left: float
    part: float

    def estimate_error(self, spread: float) -> float:
        """Estimate the mean absolute error of the share of a range with uniform ends.

        Parameters
        ----------
        spread
            Standard error of such shares by the density alone: where noise hides how far the
            density is off, the parts that were left to it are off by as much.
        """
        expected = self.noise + self.left * spread**2
        most, least = self.square + self.doubt, max(self.square, self.noise)
        error = _MEAN_OF_NORMAL * math.sqrt(max(least, min(expected, most)))
        return min(1.0, math.hypot(error, self.part))


def blend(found: Marginal, density: Floats) -> Blend:
    """Blend a noised histogram with what a density says of its bins.

    Parameters
    ----------
    found
        The histogram, of 2^b inner bins.
    density
        Shape ``(B,)``: shares of the bins, >= 0 with sum 1. Errors are of ranges between the first
        and the last bin of either.
    """
    n_bins, n = found.bins.size, found.n_present
    # A coefficient is a difference of sums of so many bins, over the root of their number.
    widths, strict = list_widths(n_bins), math.log(n_bins)
    exponents = np.where(_sum_blocks(density) > 0.0, _STRICTNESS * strict, strict)
    most = np.empty(n_bins)
    for exponent in np.unique(exponents):
        chosen = exponents == exponent
        most[chosen] = found.noise.bound(widths[chosen], exponent)
    most /= np.sqrt(widths) * n
    missed = transform(found.bins / n - density)
    # Of a coefficient, what noise of the size of its threshold may be: all of a small one, and of
    # one that no two distributions differ by.
    ratio = np.minimum(1.0, most / np.maximum(np.abs(missed), 1e-300))
    ratio[most > 2.0 / np.sqrt(widths)] = 1.0
    kept = missed * (1.0 - ratio**2)
    end = float(found.noise.bound(np.ones(1), strict)[0])
    below, above = (each / n if each > end else 0.0 for each in (found.below, found.above))
    shares = project_on_simplex(np.array([below, *(density + invert(kept)), above]), 1.0)
    held = np.flatnonzero((density > 0.0) | (shares[1:-1] > 0.0))
    first, stop = (int(held[0]), int(held[-1]) + 1) if held.size else (0, n_bins)
    ranges = transform(_draw_ranges(n_bins, first, stop))
    slopes, variance = np.where(ratio < 1.0, 1.0 + ratio**2, 0.0), found.deviation**2
    squares = ranges**2
    # Stein's estimate: with d the coefficients, t(d) what is kept of them, v the noise and w those
    # of a range, (w.(t - d))^2 + v sum w^2 (2 t' - 1).
    estimates = (ranges @ (kept - missed)) ** 2 + variance * (squares @ (2.0 * slopes - 1.0))
    return Blend(
        shares=shares,
        square=float(np.mean(estimates)),
        # Those of one range; other ranges agree with it more or less.
        doubt=math.sqrt(2.0) * variance * float(np.mean(np.sum(squares[:, slopes == 0.0], axis=1))),
        noise=variance * float(np.mean(np.sum(squares[:, slopes > 0.0], axis=1))),
        left=float(np.sum(squares[:, slopes == 0.0]) / np.sum(squares)),
        part=float(np.sum(shares[1:-1])) / (stop - first),
    )


def _draw_ranges(n_bins: int, first: int, stop: int) -> Floats:
    """Draw ranges with uniform ends, as the part of each bin inside: shape ``(R, B)``."""
    rng = np.random.default_rng(_SEED)
    low, high = np.sort(rng.uniform(first, stop, size=(2, _N_RANGES)), axis=0)[:, :, None]
    places = np.arange(n_bins)
    inside: Floats = np.clip(np.minimum(high, places + 1) - np.maximum(low, places), 0.0, 1.0)
    return inside
