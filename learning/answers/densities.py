"""Shares, quantiles, densities and means of a posterior, one value for each of its draws.

All are linear in the density, so each draw's value is a weighted sum over its atoms. The share of a
box and the mean inside it go through its dimensions one by one: given the dimensions before, each
is a Gaussian with known mean and deviation, cut off at the range. Atoms along the axes need no
point for that, and others a fixed set of points, the same for every atom and every draw.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.decoding.density import Posterior

# SciPy is imported inside functions: a server needs it only once somebody asks.
Floats = NDArray[np.float64]
Transform = Callable[[Floats], Floats]

_N_POINTS = 128
_N_HALVINGS = 48
_TINY = 1e-300
_LEAST_MASS = 1e-9
_N_NODES = 24


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A range of one coordinate; its ends are infinite where they reach a bound of the box."""

    axis: int
    low: float
    high: float

    @property
    def is_empty(self) -> bool:
        """Whether no record can lie in it."""
        return not self.low <= self.high


def clip_interval(posterior: Posterior, axis: int, low: float, high: float) -> Interval:
    """Return a range as an interval of the mixture, which knows no bounds.

    Records beyond a bound stand on it, so a range that reaches the bound holds all of them.
    """
    lower, upper = float(posterior.lower[axis]), float(posterior.upper[axis])
    if low > upper or high < lower:
        return Interval(axis=axis, low=np.inf, high=-np.inf)
    return Interval(
        axis=axis,
        low=-np.inf if low <= lower else low,
        high=np.inf if high >= upper else high,
    )


def compute_shares(posterior: Posterior, box: Sequence[Interval]) -> Floats:
    """Compute the share of the records in a box under each draw: shape ``(n,)``."""
    if any(each.is_empty for each in box):
        return np.zeros(posterior.n_draws)
    if not box:
        return np.ones(posterior.n_draws)
    return compute_own_shares(posterior, *_find_ends(posterior, box))


def compute_own_shares(posterior: Posterior, axes: Sequence[int], ends: Floats) -> Floats:
    """Compute the share in a box that each draw has its own ends of: shape ``(n,)``.

    Parameters
    ----------
    posterior, axes
        The densities, and the coordinates that the box limits, at least one.
    ends
        Shape ``(len(axes), 2, n)``: lower and upper ends, infinite at a bound of the box.
    """
    found = _walk(posterior, axes, ends)
    return np.clip(found.sum_draws(posterior, found.mass), 0.0, 1.0)


def compute_means(
    posterior: Posterior, box: Sequence[Interval], axis: int, transform: Transform | None
) -> tuple[Floats, Floats, Floats]:
    """Compute mean and variance of one coordinate over the records in a box, under each draw.

    Parameters
    ----------
    posterior, box
        The densities, and a range for each of some coordinates.
    axis
        The coordinate.
    transform
        From the coordinate to data units, increasing; None for a coordinate in data units.

    Returns
    -------
    shares, means, variances
        Shape ``(n,)`` each; means are 0 where the share is.
    """
    if any(each.is_empty for each in box):
        return (np.zeros(posterior.n_draws),) * 3
    axes, ends = _find_ends(posterior, box)
    return compute_own_means(posterior, axes, ends, axis, transform)


def compute_own_means(
    posterior: Posterior,
    axes: Sequence[int],
    ends: Floats,
    axis: int,
    transform: Transform | None,
) -> tuple[Floats, Floats, Floats]:
    """Compute means as :func:`compute_means`, in a box that each draw has its own ends of.

    Parameters
    ----------
    axes, ends
        As of :func:`compute_own_shares`; perhaps none.
    """
    # The coordinate itself comes last, so that its law given the others is Gaussian.
    order = [i for i, each in enumerate(axes) if each != axis]
    own = [i for i, each in enumerate(axes) if each == axis]
    no_end = np.repeat(np.array([[[-np.inf], [np.inf]]]), posterior.n_draws, axis=2)
    last = ends[own] if own else no_end
    others = ends[order] if order else no_end[:0]
    found = _walk(posterior, [*(axes[i] for i in order), axis], np.concatenate([others, last]))
    low, high = last[0][:, posterior.draw_of[found.atoms], None]
    lower, upper = float(posterior.lower[axis]), float(posterior.upper[axis])
    span = _Span(low=low, high=high, lower=lower, upper=upper)
    centre, deviation = found.centre, found.deviation[:, None]
    if transform is None:
        first, second = _integrate_linear(centre, deviation, found.before, span)
    else:
        first, second = _integrate(centre, deviation, found.before, span, transform)
    shares = found.sum_draws(posterior, found.mass)
    sums = found.sum_draws(posterior, first)
    squares = found.sum_draws(posterior, second)
    held = np.maximum(shares, _TINY)
    means = sums / held
    return shares, means, np.maximum(squares / held - means**2, 0.0)


def compute_distribution(posterior: Posterior, axis: int, points: Floats) -> Floats:
    """Compute the distribution function of a coordinate inside the box: shape ``(n, len(points))``.

    Points may be one row for all draws, or a row for each.
    """
    from scipy.special import ndtr  # noqa: PLC0415

    deviations = compute_deviations(posterior, axis)
    points = np.broadcast_to(points, (posterior.n_draws, points.shape[-1]))
    standard = (points[posterior.draw_of] - posterior.means[:, axis, None]) / deviations[:, None]
    return _sum_rows(posterior, ndtr(standard))


def compute_density(posterior: Posterior, axis: int, points: Floats) -> Floats:
    """Compute the density of a coordinate: shape ``(n, len(points))``."""
    deviations = compute_deviations(posterior, axis)[:, None]
    standard = (points - posterior.means[:, axis, None]) / deviations
    heights = np.exp(-0.5 * standard**2) / (np.sqrt(2.0 * np.pi) * deviations)
    return _sum_rows(posterior, heights)


def compute_quantiles(posterior: Posterior, axis: int, share: float) -> Floats:
    """Compute a quantile of a coordinate under each draw, inside the box: shape ``(n,)``."""
    return compute_all_quantiles(posterior, axis, np.array([share]))[:, 0]


def compute_all_quantiles(
    posterior: Posterior, axis: int, shares: Floats, *, reach: float = 0.0
) -> Floats:
    """Compute quantiles of a coordinate under each draw: shape ``(n, p)``.

    Parameters
    ----------
    shares
        Shape ``(p,)``, or ``(n, p)`` where each draw has its own.
    reach
        How far beyond the box they may lie, in its widths.
    """
    shape = posterior.n_draws, shares.shape[-1]
    width = posterior.upper[axis] - posterior.lower[axis]
    low = np.full(shape, posterior.lower[axis] - reach * width)
    high = np.full(shape, posterior.upper[axis] + reach * width)
    for _ in range(_N_HALVINGS):
        middle = 0.5 * (low + high)
        is_below = compute_distribution(posterior, axis, middle) < shares
        low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
    found: Floats = 0.5 * (low + high)
    return found


def spread_points(posterior: Posterior, draw: int) -> tuple[Floats, Floats]:
    """Spread points over the density of a draw: shapes ``(p, d)`` and ``(p,)``, with their shares.

    The same ones for every atom, with exactly its mean and covariance before they are clipped.
    """
    atoms, d = np.flatnonzero(posterior.draw_of == draw), posterior.n_dimensions
    half = np.random.default_rng(0).normal(size=(max(_N_POINTS, 2 * d), d))
    normal = np.concatenate([half, -half])
    normal = np.linalg.solve(np.linalg.cholesky(normal.T @ normal / len(normal)), normal.T).T
    points = posterior.means[atoms, None] + np.einsum("kij,pj->kpi", posterior.roots[atoms], normal)
    inside = np.clip(points, posterior.lower, posterior.upper)
    shares = np.repeat(posterior.weights[atoms] / len(normal), len(normal))
    return inside.reshape(-1, posterior.n_dimensions), shares / np.sum(shares)


def compute_correlations(points: Floats, shares: Floats) -> tuple[Floats, Floats]:
    """Compute correlations of points with shares, 0 for a constant column, and deviations.

    Returns
    -------
    correlations, deviations
        Shapes ``(d, d)`` and ``(d,)``.
    """
    centred = points - shares @ points
    covariance = (shares[:, None] * centred).T @ centred
    deviations = np.sqrt(np.maximum(np.diagonal(covariance), _TINY))
    found = np.clip(covariance / np.outer(deviations, deviations), -1.0, 1.0)
    return found, deviations


def compute_blur(correlations: Floats, deviations: Floats, scales: Floats) -> Floats:
    """Compute by how much correlations shrink if each column is blurred by half of its scale.

        |r| (s_i / 2) (s_j / 2) / (sigma_i sigma_j), at most |r|

    Parameters
    ----------
    correlations, deviations
        Shapes ``(d, d)`` and ``(d,)``.
    scales
        Shape ``(d,)``: the plan's, in the same units.
    """
    ratios = 0.5 * scales / deviations
    return np.abs(correlations) * np.minimum(np.outer(ratios, ratios), 1.0)


def pool(posterior: Posterior, values: Floats) -> tuple[Floats, Floats]:
    """Return the mean over the draws, along the first axis, and the standard deviation."""
    mean = np.einsum("n,n...->...", posterior.shares, values)
    # Draws estimate their own spread: the divisor is that of as many equal draws.
    free = max(1e-9, 1.0 - float(np.sum(posterior.shares**2)))
    variance = np.einsum("n,n...->...", posterior.shares, (values - mean) ** 2) / free
    return mean, np.sqrt(variance)


def compute_deviations(posterior: Posterior, axis: int) -> Floats:
    """Compute the standard deviation of each atom along a coordinate: shape ``(K,)``."""
    deviations: Floats = np.sqrt(np.sum(posterior.roots[:, axis] ** 2, axis=1))
    return deviations


def _sum_rows(posterior: Posterior, values: Floats) -> Floats:
    """Sum weighted rows of the atoms over each draw: shape ``(n, p)``."""
    starts = np.searchsorted(posterior.draw_of, np.arange(posterior.n_draws))
    sums: Floats = np.add.reduceat(posterior.weights[:, None] * values, starts, axis=0)
    return sums


@dataclass(frozen=True, kw_only=True, eq=False)
class _Walk:
    """A box, gone through: mass of the atoms in it by point, and the law of the last coordinate.

    ``mass`` and ``before`` have shape ``(len(atoms), points)``: the mass in all ranges, and in all
    but the last; ``centre`` is the mean of the last coordinate given the others, and ``deviation``
    its standard deviation, shape ``(len(atoms),)``.
    """

    atoms: NDArray[np.intp]
    mass: Floats
    before: Floats
    centre: Floats
    deviation: Floats

    def sum_draws(self, posterior: Posterior, values: Floats) -> Floats:
        """Average values over the points, and sum them over the atoms of each draw."""
        weighted = posterior.weights[self.atoms] * values.mean(axis=1)
        draws = posterior.draw_of[self.atoms]
        sums = np.bincount(draws, weights=weighted, minlength=posterior.n_draws)
        return sums.astype(np.float64)


def _find_ends(posterior: Posterior, box: Sequence[Interval]) -> tuple[list[int], Floats]:
    """Return the coordinates and ends of a box, the same for every draw."""
    ends = np.array([[each.low, each.high] for each in box]).reshape(-1, 2)
    return [each.axis for each in box], np.repeat(ends[:, :, None], posterior.n_draws, axis=2)


def _walk(posterior: Posterior, axes: Sequence[int], ends: Floats) -> _Walk:
    """Go through the dimensions of a box: the method of Genz for Gaussian probabilities."""
    from scipy.special import ndtr, ndtri  # noqa: PLC0415

    ends = ends[:, :, posterior.draw_of]
    atoms = _find_near(posterior, axes, ends)
    means, roots = posterior.means[atoms], _take_roots(posterior, atoms, axes)
    is_simple = len(axes) == 1 or not np.any(np.tril(roots, -1))
    points = np.full((1, len(axes)), 0.5) if is_simple else _make_points(len(axes))
    n_atoms = len(roots)
    mass = np.ones((n_atoms, len(points)))
    reached = np.zeros((n_atoms, len(points), len(axes)))
    before, centre, deviation = mass, mass, np.ones(n_atoms)
    for i, axis in enumerate(axes):
        low, high = ends[i][:, atoms, None]
        centre = means[:, axis, None] + np.einsum("kj,kpj->kp", roots[:, i, :i], reached[:, :, :i])
        deviation = roots[:, i, i]
        start = ndtr((low - centre) / deviation[:, None])
        width = _compute_mass(low, high, centre, deviation[:, None])
        before, mass = mass, mass * width
        if i + 1 < len(axes) and not is_simple:
            place = np.clip(start + points[:, i] * width, 1e-12, 1.0 - 1e-12)
            reached[:, :, i] = ndtri(place)
    return _Walk(atoms=atoms, mass=mass, before=before, centre=centre, deviation=deviation)


def _compute_mass(low: Floats, high: Floats, centre: Floats, deviation: Floats) -> Floats:
    """Compute the mass of a Gaussian between two ends, without cancelling in the upper tail."""
    from scipy.special import ndtr  # noqa: PLC0415

    start, stop = (low - centre) / deviation, (high - centre) / deviation
    is_above = start > 0.0
    mass = np.where(is_above, ndtr(-start) - ndtr(-stop), ndtr(stop) - ndtr(start))
    return np.maximum(mass, 0.0)


def _find_near(posterior: Posterior, axes: Sequence[int], ends: Floats) -> NDArray[np.intp]:
    """Find the atoms that may have mass in a box, given its ends for each atom."""
    most = np.ones(len(posterior.weights))
    for axis, (low, high) in zip(axes, ends, strict=True):
        centre, deviation = posterior.means[:, axis], compute_deviations(posterior, axis)
        most = np.minimum(most, _compute_mass(low, high, centre, deviation))
    return np.flatnonzero(most > _LEAST_MASS)


def _take_roots(posterior: Posterior, atoms: NDArray[np.intp], axes: Sequence[int]) -> Floats:
    """Return the Cholesky factors of the marginal covariances of some coordinates, in order."""
    rows = posterior.roots[atoms][:, axes]
    if posterior.is_along_axes:
        deviations = np.sqrt(np.sum(rows**2, axis=2))
        diagonal: Floats = deviations[:, :, None] * np.eye(len(axes))
        return diagonal
    factors: Floats = np.linalg.cholesky(rows @ rows.swapaxes(1, 2)).astype(np.float64)
    return factors


@lru_cache(maxsize=16)
def _make_points(n_dimensions: int) -> Floats:
    """Return points spread evenly over the unit cube: the generalised golden ratio."""
    golden = 2.0
    for _ in range(64):
        golden = (1.0 + golden) ** (1.0 / (n_dimensions + 1))
    steps = golden ** -np.arange(1.0, n_dimensions + 1)
    return (0.5 + np.arange(1, _N_POINTS + 1)[:, None] * steps) % 1.0


@dataclass(frozen=True, kw_only=True, eq=False)
class _Span:
    """A range of a coordinate for each atom, shapes ``(len(atoms), 1)``, and the box around it."""

    low: Floats
    high: Floats
    lower: float
    upper: float


def _integrate_linear(
    centre: Floats, deviation: Floats, before: Floats, span: _Span
) -> tuple[Floats, Floats]:
    """Integrate x and x^2 of a clipped Gaussian over an interval, in closed form."""
    from scipy.special import ndtr  # noqa: PLC0415

    low, high, lower, upper = span.low, span.high, span.lower, span.upper
    inner_low, inner_high = np.maximum(low, lower), np.minimum(high, upper)
    start, stop = (inner_low - centre) / deviation, (inner_high - centre) / deviation
    inside = _compute_mass(inner_low, inner_high, centre, deviation)
    heights = [np.exp(-0.5 * end**2) / np.sqrt(2.0 * np.pi) for end in (start, stop)]
    slope = heights[0] - heights[1]
    curve = start * heights[0] - stop * heights[1]
    first = centre * inside + deviation * slope
    second = (centre**2 + deviation**2) * inside + 2.0 * centre * deviation * slope
    second += deviation**2 * curve
    for is_reached, bound, mass in (
        (low == -np.inf, lower, ndtr((lower - centre) / deviation)),
        (high == np.inf, upper, ndtr((centre - upper) / deviation)),
    ):
        beyond = np.where(is_reached, mass, 0.0)
        first, second = first + bound * beyond, second + bound**2 * beyond
    return before * first, before * second


def _integrate(
    centre: Floats, deviation: Floats, before: Floats, span: _Span, transform: Transform
) -> tuple[Floats, Floats]:
    """Integrate a function of a clipped Gaussian over an interval, at Gauss-Legendre nodes."""
    from scipy.special import ndtr, ndtri  # noqa: PLC0415

    nodes, weights = np.polynomial.legendre.leggauss(_N_NODES)
    start = ndtr((span.low - centre) / deviation)
    width = _compute_mass(span.low, span.high, centre, deviation)
    first, second = np.zeros_like(centre), np.zeros_like(centre)
    for node, weight in zip(nodes, weights, strict=True):
        place = np.clip(start + 0.5 * (1.0 + node) * width, 1e-12, 1.0 - 1e-12)
        values = transform(np.clip(centre + deviation * ndtri(place), span.lower, span.upper))
        first, second = first + weight / 2.0 * values, second + weight / 2.0 * values**2
    return before * width * first, before * width * second
