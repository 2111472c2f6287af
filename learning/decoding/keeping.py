"""The members of the pool that are kept: the posterior in data units, bounded in size."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from sfumato.learning.decoding.densities import Posterior
from sfumato.learning.decoding.ellipsoids import Ellipsoids
from sfumato.learning.decoding.pooling import Member
from sfumato.learning.decoding.problem import DecodingProblem, Vector
from sfumato.learning.decoding.responses import choose_evenly

__all__ = ["MOST_NUMBERS", "describe_posterior"]

MOST_NUMBERS: Final = 1 << 16
"""Numbers that a stored posterior has at most: 256 KiB in single precision."""
_N_DRAWS: Final = 32
_FEW_DRAWS: Final = 8
# Atoms below this share of a density are left out.
_LEAST_SHARE: Final = 1e-6


def describe_posterior(
    problem: DecodingProblem,
    members: Sequence[Member],
    *,
    doubt: float,
    held_out: float,
    is_trusted: bool,
) -> Posterior | None:
    """Convert some members of the pool to the problem's units; None where they would be too large.

    Thirty-two members, or as many as ``MOST_NUMBERS`` allows. Correlations inside clusters are
    left out where eight members with them would be too many numbers.

    Parameters
    ----------
    problem
        The solved problem, in the units of the members.
    members
        The pool, at least one.
    doubt, held_out, is_trusted
        As in :class:`Posterior`.
    """
    d = problem.n_dimensions
    largest = max(len(member.atoms) for member in members)
    is_slanted = any(np.any(member.atoms.slants) for member in members)
    n_full = MOST_NUMBERS // (largest * (1 + d + d * (d + 1) // 2))
    n_along = MOST_NUMBERS // (largest * (1 + 2 * d))
    keeps_slants = is_slanted and n_full >= min(_FEW_DRAWS, len(members))
    n_draws = min(_N_DRAWS, n_full if keeps_slants else n_along)
    if n_draws < min(2, len(members)):
        return None
    chosen = choose_evenly(members, n_draws)
    parts = [_convert(problem, member.atoms, keeps_slants=keeps_slants) for member in chosen]
    shares = np.array([member.share for member in chosen])
    return Posterior(
        shares=shares / np.sum(shares),
        draw_of=np.repeat(np.arange(len(parts)), [len(part[0]) for part in parts]),
        weights=np.concatenate([part[0] for part in parts]),
        means=np.concatenate([part[1] for part in parts]),
        roots=np.concatenate([part[2] for part in parts]),
        lower=problem.lower.copy(),
        upper=problem.upper.copy(),
        doubt=doubt,
        held_out=held_out,
        is_trusted=is_trusted,
    )


def _convert(
    problem: DecodingProblem, atoms: Ellipsoids, *, keeps_slants: bool
) -> tuple[Vector, Vector, Vector]:
    """Return weights that sum to 1, means and roots of the atoms that count."""
    total = float(np.sum(atoms.weights))
    weights = atoms.weights / total if total > 0.0 else np.full(len(atoms), 1.0 / len(atoms))
    kept = np.flatnonzero(weights > _LEAST_SHARE)
    weights, atoms = weights[kept] / np.sum(weights[kept]), atoms.take(kept)
    roots = atoms.roots
    if not keeps_slants:
        roots = np.sqrt(atoms.variances)[:, :, None] * np.eye(problem.n_dimensions)
    means = problem.centre + problem.unit * atoms.centres
    return weights, means, problem.unit[:, None] * roots
