"""Moves that shrink a mixture: drop an atom, or merge it with its nearest neighbour."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.decoding.descent import fit_nonnegative
from sfumato.learning.decoding.gaussians import Atoms, Single, Target, compute_unit_atoms
from sfumato.learning.decoding.levenberg import Fitted, evaluate
from sfumato.learning.decoding.problem import Vector

__all__ = ["Merges", "compute_drop_costs", "propose_merges", "prune"]

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
