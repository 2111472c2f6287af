"""Growth and shrinkage of a mixture: start, expand, grow, and cycles of expansion and pruning.

Growth adds atoms where the residual needs them; pruning drops an atom, or merges it with its
nearest neighbour. The cycles exchange several atoms at once (batched split-and-merge moves), which
escapes wrong local optima.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.decoding.descent import fit_nonnegative
from sfumato.learning.decoding.mixture.gaussians import (
    Atoms,
    Single,
    Target,
    compute_gaussians,
    compute_unit_atoms,
)
from sfumato.learning.decoding.mixture.moves import propose_adds, propose_splits
from sfumato.learning.decoding.mixture.round_descent import Fitted, evaluate, refine
from sfumato.learning.decoding.problem import Vector
from sfumato.learning.decoding.solver import Monitor

__all__ = [
    "Merges",
    "compute_drop_costs",
    "cycle",
    "expand",
    "find_first_atom",
    "grow",
    "propose_merges",
    "prune",
]

_RIDGE = 1e-7
_ROUNDS = 4


@dataclass(frozen=True, kw_only=True, eq=False)
class Merges:
    """Each atom merged with its nearest neighbour.

    Parameters
    ----------
    costs : float64 (K,)
        Rise of |r|^2.
    partners : intp (K,)
        The neighbours.
    merged : Atoms
        The atom that would replace both.
    """

    costs: Vector
    partners: NDArray[np.intp]
    merged: Atoms


def prune(
    target: Target, fitted: Fitted, n_atoms: int, *, jitter: float, rng: np.random.Generator
) -> Fitted:
    """Apply the cheapest drops and merges until `n_atoms` are left, a quarter at a time.

    Parameters
    ----------
    target : Target
        The sketch to explain.
    fitted : Fitted
        The mixture.
    n_atoms : int
        At least one.
    jitter : float
        Standard deviation of the noise on the logarithm of each cost.
    rng : numpy.random.Generator
        Source of that noise.
    """
    while len(fitted.atoms) > n_atoms:
        drops = compute_drop_costs(fitted.rows, fitted.atoms.weights)
        merges = propose_merges(target, fitted)
        costs = np.concatenate([drops, np.maximum(merges.costs, 0.0)])
        costs = costs * np.exp(jitter * rng.normal(size=len(costs)))
        n_wanted = max(1, (len(drops) - n_atoms) // _ROUNDS)
        dropped, merged = _choose_moves(costs, merges.partners, n_wanted)
        fitted = _apply(target, fitted, merges, dropped, merged)
    return fitted


def _choose_moves(
    costs: Vector, partners: NDArray[np.intp], n_wanted: int
) -> tuple[list[int], list[int]]:
    """Choose the cheapest moves that touch different atoms: atoms to drop, and to merge."""
    n_atoms = len(partners)
    dropped: list[int] = []
    merged: list[int] = []
    touched: set[int] = set()
    for move in np.argsort(costs, kind="stable"):
        i, is_drop = int(move) % n_atoms, move < n_atoms
        involved = {i} if is_drop else {i, int(partners[i])}
        if touched & involved:
            continue
        touched |= involved
        (dropped if is_drop else merged).append(i)
        if len(dropped) + len(merged) == n_wanted:
            break
    return dropped, merged


def compute_drop_costs(rows: Single, weights: Vector) -> Vector:
    """Compute the rise of |r|^2 when an atom is dropped and the other weights adapt freely.

        a_k^2 / (G^-1)_kk,   G = E E' over the reals,

    exact where the weights are optimal: float64 (K,).
    """
    gram = (rows @ rows.T).astype(np.float64)
    gram[np.diag_indices(len(gram))] += _RIDGE * np.trace(gram) / len(gram) + 1e-30
    try:
        inverse = np.diagonal(np.linalg.inv(gram))
    except np.linalg.LinAlgError:
        inverse = 1.0 / np.diagonal(gram)
    return weights**2 / np.maximum(inverse, np.finfo(np.float64).tiny)


def propose_merges(target: Target, fitted: Fitted) -> Merges:
    """Merge each atom with its nearest neighbour, keeping mass, mean and spread.

    Nearest is by |c_i - c_j|^2 / (s_i + s_j). The weight of the merged atom is refitted alone
    against q = r + a_i E_i + a_j E_j.
    """
    atoms, rows = fitted.atoms, fitted.rows
    partners = _find_partners(atoms)
    merged = _match_moments(target, atoms, partners)
    pairs = atoms.weights[:, None].astype(np.float32) * rows
    q = fitted.residual + pairs + pairs[partners]
    unit = compute_unit_atoms(target, merged)
    energies = np.einsum("km,km->k", unit, unit).astype(np.float64)
    along = np.einsum("km,km->k", unit, q).astype(np.float64)
    weights = np.maximum(along / np.maximum(energies, np.finfo(np.float32).tiny), 0.0)
    before = np.einsum("km,km->k", q, q).astype(np.float64)
    costs = before - 2.0 * weights * along + weights**2 * energies - fitted.misfit
    return Merges(costs=costs, partners=partners, merged=merged.weigh(weights))


def _find_partners(atoms: Atoms) -> NDArray[np.intp]:
    squares = np.sum((atoms.centres[:, None] - atoms.centres[None]) ** 2, axis=2)
    distances = squares / (atoms.variances[:, None] + atoms.variances[None])
    np.fill_diagonal(distances, np.inf)
    partners: NDArray[np.intp] = np.argmin(distances, axis=1)
    return partners


def _match_moments(target: Target, atoms: Atoms, partners: NDArray[np.intp]) -> Atoms:
    """Return the round Gaussians with mass, mean and total variance of each pair."""
    other = atoms.take(partners)
    total = np.maximum(atoms.weights + other.weights, 1e-30)
    share = np.where(total > 1e-30, atoms.weights / total, 0.5)[:, None]
    centres = share * atoms.centres + (1.0 - share) * other.centres
    d = centres.shape[1]
    ours = atoms.variances + np.sum((atoms.centres - centres) ** 2, axis=1) / d
    theirs = other.variances + np.sum((other.centres - centres) ** 2, axis=1) / d
    variances = share[:, 0] * ours + (1.0 - share[:, 0]) * theirs
    logs = np.clip(np.log(variances), *target.log_variance_bounds)
    return Atoms(centres=centres, log_variances=logs, weights=total)


def fit_weights(target: Target, rows: Single) -> Vector:
    """Solve min |z - a E|^2 over a >= 0 through the K x K Gram matrix: float64 (K,)."""
    gram = (rows @ rows.T).astype(np.float64)
    gram[np.diag_indices(len(gram))] += _RIDGE * np.trace(gram) / len(gram) + 1e-30
    along = (rows @ target.sketch).astype(np.float64)
    try:
        factor = np.linalg.cholesky(gram)
        reduced = np.linalg.solve(factor, along)
    except np.linalg.LinAlgError:
        return fit_nonnegative(rows.astype(np.float64), target.sketch.astype(np.float64)).weights
    return fit_nonnegative(factor.astype(np.float64), reduced).weights


def _apply(
    target: Target, fitted: Fitted, merges: Merges, dropped: list[int], merged: list[int]
) -> Fitted:
    """Replace pairs by their merged atoms; if atoms are dropped, refit all weights."""
    gone = [*dropped, *merged, *(int(merges.partners[i]) for i in merged)]
    left = np.delete(np.arange(len(fitted.atoms)), gone)
    atoms = fitted.atoms.take(left).join(merges.merged.take(np.array(merged, dtype=np.intp)))
    if dropped:
        rows = compute_unit_atoms(target, atoms)
        atoms = atoms.weigh(fit_weights(target, rows))
    return evaluate(target, atoms)


_N_FIRST_POINTS: Final = 256
_FIRST_SHARES: Final = (1.0, 0.3, 0.1, 0.03, 0.01)
_LEAST_GAIN: Final = 1e-4
_RESTLESS: Final = 0.5


def find_first_atom(target: Target, rng: np.random.Generator, monitor: Monitor) -> Fitted:
    """Find the atom that explains most: the best of many points and variances, refined.

    The centre of the search box is always a candidate; the objective is <E, z>+^2 / |E|^2,
    maximised.
    """
    box = target.search_box
    points = rng.uniform(box.lower, box.upper, size=(_N_FIRST_POINTS, target.n_dimensions))
    points[0] = (box.lower + box.upper) / 2.0
    best, gain = evaluate(target, _single(points[0], target.log_variance_bounds[1], 0.0)), 0.0
    for share in _FIRST_SHARES:
        monitor.check()
        log_variance = target.log_variance_bounds[1] + math.log(share)
        rows = compute_gaussians(target, points, np.full(len(points), log_variance))
        energies = np.einsum("km,km->k", rows, rows).astype(np.float64)
        along = np.maximum((rows @ target.sketch).astype(np.float64), 0.0)
        weights = along / np.maximum(energies, np.finfo(np.float32).tiny)
        i = int(np.argmax(weights * along))
        if weights[i] * along[i] > gain:
            gain = float(weights[i] * along[i])
            best = evaluate(target, _single(points[i], log_variance, float(weights[i])))
    return refine(target, best, n_iterations=40, tolerance=1e-4, monitor=monitor)


def _single(centre: Vector, log_variance: float, weight: float) -> Atoms:
    return Atoms(
        centres=centre[None, :].copy(),
        log_variances=np.array([log_variance]),
        weights=np.array([weight]),
    )


def expand(
    target: Target,
    fitted: Fitted,
    n_more: int,
    *,
    jitter: float,
    rng: np.random.Generator,
    thorough: bool = False,
) -> tuple[Fitted, NDArray[np.intp]]:
    """Apply the `n_more` best splits and adds.

    Parameters
    ----------
    target : Target
        The sketch to explain.
    fitted : Fitted
        The mixture.
    n_more : int
        Atoms to gain; fewer if there are fewer candidates.
    jitter : float
        Standard deviation of the noise on the logarithm of each gain.
    rng : numpy.random.Generator
        Source of directions, starts and that noise.
    thorough : bool
        Whether to search the whole box for narrow atoms.

    Returns
    -------
    tuple of Fitted and intp (q,)
        The larger mixture, and the indices of its new or changed atoms.
    """
    splits = propose_splits(target, fitted, rng)
    adds = propose_adds(target, fitted, n_more, rng, thorough=thorough)
    gains = np.concatenate([splits.gains, adds.gains])
    gains = gains * np.exp(jitter * rng.normal(size=len(gains)))
    chosen = np.argsort(-gains, kind="stable")[:n_more]
    n_atoms = len(fitted.atoms)
    split, added = chosen[chosen < n_atoms], chosen[chosen >= n_atoms] - n_atoms
    kept = np.setdiff1d(np.arange(n_atoms), split)
    larger = (
        fitted.atoms.take(kept)
        .join(splits.first.take(split))
        .join(splits.second.take(split))
        .join(adds.atoms.take(added))
    )
    return evaluate(target, larger), np.arange(len(kept), len(larger))


def grow(
    target: Target,
    n_atoms: int,
    *,
    share: float,
    n_iterations: int,
    jitter: float,
    rng: np.random.Generator,
    monitor: Monitor,
    thorough: bool = False,
) -> Fitted:
    """Grow a mixture from one atom to `n_atoms`.

    Parameters
    ----------
    target : Target
        The sketch to explain.
    n_atoms : int
        At least one.
    share : float
        Atoms gained in a round, as a share of the existing ones.
    n_iterations : int
        Steps of descent after each round.
    jitter, rng, thorough
        As in `expand`.
    monitor : Monitor
        Receives the share of the atoms reached so far.
    """
    fitted = find_first_atom(target, rng, monitor)
    while len(fitted.atoms) < n_atoms:
        wanted = math.ceil(share * len(fitted.atoms))
        fitted, touched = expand(
            target,
            fitted,
            min(n_atoms - len(fitted.atoms), wanted),
            jitter=jitter,
            rng=rng,
            thorough=thorough,
        )
        fitted = refine(
            target, fitted, n_iterations=2, tolerance=1e-2, monitor=monitor, chosen=touched
        )
        fitted = refine(target, fitted, n_iterations=n_iterations, tolerance=1e-2, monitor=monitor)
        monitor.reach(len(fitted.atoms) / n_atoms)
    return fitted


def cycle(
    target: Target,
    fitted: Fitted,
    n_cycles: int,
    *,
    rng: np.random.Generator,
    monitor: Monitor,
    thorough: bool = False,
) -> Fitted:
    """Exchange atoms: expand, refine, prune back, and keep a result with a lower objective.

    Starts with a quarter of the atoms at once, and halves that, with jittered choices, after every
    cycle without a gain.
    """
    n_atoms = len(fitted.atoms)
    n_more, jitter = max(1, n_atoms // 4), 0.0
    for i in range(n_cycles):
        trial, touched = expand(target, fitted, n_more, jitter=jitter, rng=rng, thorough=thorough)
        trial = refine(
            target, trial, n_iterations=2, tolerance=1e-3, monitor=monitor, chosen=touched
        )
        trial = refine(target, trial, n_iterations=3, tolerance=1e-3, monitor=monitor)
        trial = prune(target, trial, n_atoms, jitter=jitter, rng=rng)
        trial = refine(target, trial, n_iterations=6, tolerance=3e-3, monitor=monitor)
        if trial.objective < fitted.objective * (1.0 - _LEAST_GAIN):
            fitted = trial
        else:
            n_more, jitter = max(1, n_more // 2), _RESTLESS
        monitor.reach((i + 1) / n_cycles)
    return fitted
