"""Moves that enlarge a mixture, with closed-form gains: split an atom, or add one.

A gain is the fall of |r|^2 with the best weights of the new atoms and everything else fixed.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from sfumato.learning.decoding.equations import compute_quantile
from sfumato.learning.decoding.mixture.gaussians import (
    Atoms,
    Single,
    Target,
    compute_envelopes,
    compute_gaussians,
    compute_phases,
)
from sfumato.learning.decoding.mixture.round_descent import Fitted
from sfumato.learning.decoding.problem import Vector

__all__ = ["Adds", "Splits", "propose_adds", "propose_splits"]

# Share of an atom's variance that a split turns into distance between its children.
_SHARES: Final = (0.08, 0.2, 0.35, 0.55, 0.75)
_N_CURVATURE_DIRECTIONS: Final = 2
# Neither child may have less than a twentieth of the parent's weight.
_LARGEST_SKEW: Final = 0.9
_N_NEAR: Final = 24
_N_ANYWHERE: Final = 24
_N_ASCENT_STEPS: Final = 16
_N_WIDE_STEPS: Final = 10
# Starts for a search box this many atoms (or wavelengths / 2 pi) wide. A wider one has more, in
# proportion to its width in up to three dimensions, up to these numbers of starts and of features
# of them.
_USUAL_WIDTH: Final = 30.0
_MOST_ANYWHERE: Final = 1000
_MOST_FEATURES: Final = 100_000
_MOST_DIMENSIONS: Final = 3
# The widest start is sensitive to this share of the frequencies.
_SEEN: Final = 0.1


@dataclass(frozen=True, kw_only=True, eq=False)
class Splits:
    """The best split of each atom.

    Parameters
    ----------
    gains : float64 (K,)
        Fall of |r|^2, negative where a split does not help.
    first, second : Atoms
        The children, K each.
    """

    gains: Vector
    first: Atoms
    second: Atoms


@dataclass(frozen=True, kw_only=True, eq=False)
class Adds:
    """New atoms at distinct places: gains float64 (q,), and q atoms with their weights."""

    gains: Vector
    atoms: Atoms


def propose_splits(target: Target, fitted: Fitted, rng: np.random.Generator) -> Splits:
    """Find the best split of every atom over directions and widths.

    Children lie at c +- delta u with variance s' = (1 - t) s, delta^2 = t d s. With

        S = E' cos(delta w.u),  A = i E' sin(delta w.u),  E' the parent with variance s',

    they are S + A and S - A, and S and A are orthogonal over the reals; so the weights (x + y) / 2
    and (x - y) / 2 have x = <S, q> / |S|^2, y = <A, q> / |A|^2 with q = r + a E.
    """
    atoms, d = fitted.atoms, target.n_dimensions
    directions = _find_directions(target, fitted, rng)
    turned, base = _turn_back(target, fitted)
    variances = atoms.variances
    best = np.full(len(atoms), -np.inf)
    shifts = np.zeros((len(atoms), d))
    shares = np.zeros(len(atoms))
    pairs = np.zeros((len(atoms), 2))
    for t in _SHARES:
        delta = np.sqrt(t * d * variances)
        envelope = compute_envelopes(target, (1.0 - t) * variances)
        for i in range(directions.shape[1]):
            moved = delta[:, None] * directions[:, i]
            angles = moved.astype(np.float32) @ target.frequencies
            gains, weights = _gain_of(envelope * np.cos(angles), envelope * np.sin(angles), turned)
            gains -= base
            better = gains > best
            best[better], shares[better] = gains[better], t
            shifts[better], pairs[better] = moved[better], weights[better]
    logs = np.maximum(atoms.log_variances + np.log1p(-shares), target.log_variance_bounds[0])
    first, second = (
        Atoms(
            centres=np.clip(atoms.centres + sign * shifts, target.lower, target.upper),
            log_variances=logs,
            weights=np.maximum((pairs[:, 0] + sign * pairs[:, 1]) / 2.0, 0.0),
        )
        for sign in (1.0, -1.0)
    )
    return Splits(gains=best, first=first, second=second)


def _find_directions(target: Target, fitted: Fitted, rng: np.random.Generator) -> Vector:
    """Return unit directions (K, n, d): those where spreading an atom helps most, and a random one.

    To second order, splitting along u changes <E, r> by -delta^2 / 2 u' H u with
    H = sum_j Re(conj(E) r)_j w_j w_j'.
    """
    m, d = target.n_frequencies, target.n_dimensions
    real, imaginary = fitted.residual[:m], fitted.residual[m:]
    products = fitted.rows[:, :m] * real + fitted.rows[:, m:] * imaginary
    curvatures = np.stack(
        [(target.frequencies * row) @ target.frequencies.T for row in products]
    ).astype(np.float64)
    _, vectors = np.linalg.eigh(curvatures)  # ascending
    n_curved = min(_N_CURVATURE_DIRECTIONS, d)
    chance = rng.normal(size=(len(products), 1, d))
    chance /= np.linalg.norm(chance, axis=2, keepdims=True)
    curved = np.swapaxes(vectors[:, :, :n_curved], 1, 2)
    return np.concatenate([curved, chance], axis=1)


def _turn_back(target: Target, fitted: Fitted) -> tuple[tuple[Single, Single], Vector]:
    """Return q = r + a E rotated by minus each atom's phase, and the energy each atom explains.

    Without the atom |r|^2 would be higher by 2 a <E, r> + a^2 |E|^2.
    """
    m = target.n_frequencies
    phases = compute_phases(target, fitted.atoms.centres)
    cosines: Single = np.cos(phases)
    sines: Single = np.sin(phases)
    real, imaginary = fitted.residual[:m], fitted.residual[m:]
    weights = fitted.atoms.weights
    envelope = compute_envelopes(target, fitted.atoms.variances)
    turned_real: Single = cosines * real + sines * imaginary
    turned_real += weights.astype(np.float32)[:, None] * envelope
    turned_imaginary: Single = cosines * imaginary - sines * real
    explained = 2.0 * weights * (fitted.rows @ fitted.residual) + weights**2 * np.einsum(
        "km,km->k", envelope, envelope
    )
    return (turned_real, turned_imaginary), explained


def _gain_of(even: Single, odd: Single, turned: tuple[Single, Single]) -> tuple[Vector, Vector]:
    """Return 2 x <S, q> - x^2 |S|^2 + 2 y <A, q> - y^2 |A|^2 and (x, y), one row an atom."""
    along_even = _dot(even, turned[0])
    along_odd = _dot(odd, turned[1])
    even_energy = np.maximum(_dot(even, even), np.finfo(np.float32).tiny)
    odd_energy = np.maximum(_dot(odd, odd), np.finfo(np.float32).tiny)
    x = np.maximum(along_even / even_energy, 0.0)
    y = along_odd / odd_energy
    # Where one child would have too little weight, use the best split with just enough.
    skew = _LARGEST_SKEW * np.sign(along_odd)
    skewed = np.abs(y) > _LARGEST_SKEW * x
    limited = (along_even + skew * along_odd) / (even_energy + skew**2 * odd_energy)
    x = np.where(skewed, np.maximum(limited, 0.0), x)
    y = np.where(skewed, skew * x, y)
    gains = 2.0 * x * along_even - x**2 * even_energy + 2.0 * y * along_odd - y**2 * odd_energy
    return gains, np.stack([x, y], axis=1)


def _dot(left: Single, right: Single) -> Vector:
    products: Vector = np.einsum("km,km->k", left, right).astype(np.float64)
    return products


def propose_adds(
    target: Target,
    fitted: Fitted,
    n_wanted: int,
    rng: np.random.Generator,
    *,
    thorough: bool = False,
) -> Adds:
    """Find new atoms for the residual, by ascent from points near atoms and anywhere.

    The gain of an atom is <E, r>+^2 / |E|^2, at the weight <E, r>+ / |E|^2. Starts anywhere are
    wide at first, so that only low frequencies attract them, and shrink as they move; narrow ones
    would detect nothing beyond the next few wavelengths. A thorough search has as many starts as
    point masses would need.
    """
    centres, first, last = _draw_starts(target, fitted.atoms, rng, thorough=thorough)
    m, d = target.n_frequencies, target.n_dimensions
    real, imaginary = fitted.residual[:m], fitted.residual[m:]
    sizes = np.hypot(real, imaginary) * target.squares
    for i in range(_N_ASCENT_STEPS):
        logs = first + min(1.0, i / _N_WIDE_STEPS) * (last - first)
        envelope = compute_envelopes(target, np.exp(logs))
        # An upper bound of the curvature of Re <E, r>, averaged over directions.
        steps = d / np.maximum(envelope @ sizes, np.finfo(np.float32).tiny)
        phases = compute_phases(target, centres)
        slopes = envelope * (np.cos(phases) * imaginary - np.sin(phases) * real)
        gradient = slopes @ target.frequencies.T
        centres = np.clip(
            centres + (steps[:, None] * gradient).astype(np.float64), target.lower, target.upper
        )
    rows = compute_gaussians(target, centres, last)
    energies = np.maximum(_dot(rows, rows), np.finfo(np.float32).tiny)
    weights = np.maximum((rows @ fitted.residual).astype(np.float64) / energies, 0.0)
    found = Atoms(centres=centres, log_variances=last, weights=weights)
    return _keep_apart(found, weights**2 * energies, n_wanted)


def _draw_starts(
    target: Target, atoms: Atoms, rng: np.random.Generator, *, thorough: bool
) -> tuple[Vector, Vector, Vector]:
    """Draw points near atoms and in the search box, with initial and final log-variances."""
    usual = float(np.median(atoms.log_variances))
    n_anywhere, d = _count_anywhere(target, 0.0 if thorough else usual), target.n_dimensions
    near = rng.integers(len(atoms), size=_N_NEAR)
    spread = 1.5 * np.sqrt(atoms.variances[near])[:, None]
    beside = atoms.centres[near] + spread * rng.normal(size=(_N_NEAR, d))
    box = target.search_box
    anywhere = rng.uniform(box.lower, box.upper, size=(n_anywhere, d))
    centres = np.clip(np.concatenate([beside, anywhere]), target.lower, target.upper)
    least, largest = target.log_variance_bounds
    last = usual + rng.uniform(np.log(0.3), np.log(3.0), size=len(centres))
    last = np.clip(last, least, largest)
    widest = min(-float(np.log(compute_quantile(target.squares, _SEEN, target.factors))), largest)
    first = last.copy()
    wider = np.maximum(widest - last[_N_NEAR:], 0.0)
    # Every other one; otherwise all would end in the same few places.
    first[_N_NEAR:] += rng.uniform(0.0, 1.0, size=n_anywhere) * wider * (np.arange(n_anywhere) % 2)
    return centres, first, last


def _count_anywhere(target: Target, log_variance: float) -> int:
    """Compute the number of starts that the search needs, for atoms of a typical log-variance."""
    length = max(1.0, float(np.exp(log_variance / 2.0)))
    box = target.search_box
    widths = np.maximum((box.upper - box.lower) / length, 1.0)
    width = float(np.exp(np.mean(np.log(widths))))
    wanted = _N_ANYWHERE * (width / _USUAL_WIDTH) ** min(target.n_dimensions, _MOST_DIMENSIONS)
    most = min(_MOST_ANYWHERE, _MOST_FEATURES // target.n_frequencies)
    return max(_N_ANYWHERE, round(min(most, wanted)))


def _keep_apart(found: Atoms, gains: Vector, n_wanted: int) -> Adds:
    """Keep the best ones with squared distances above d s / 2."""
    kept: list[int] = []
    d = found.centres.shape[1]
    for i in np.argsort(-gains, kind="stable"):
        if len(kept) == n_wanted or gains[i] <= 0.0:
            break
        squares = np.sum((found.centres[kept] - found.centres[i]) ** 2, axis=1)
        if np.all(squares > d * found.variances[i] / 2.0):
            kept.append(int(i))
    chosen = np.array(kept, dtype=np.intp)
    return Adds(gains=gains[chosen], atoms=found.take(chosen))
