"""Centroids of single densities of the posterior, each reached from the answer's own centroids.

Where densities that agree with the sketch equally well would move a centroid, it is uncertain. All
densities are sampled with the same points, and each atom's points have exactly its mean and
covariance, so that hardly any chance of the samples is left in the differences.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from sfumato.learning.decoding.density import Posterior
from sfumato.learning.decoding.mixture.ellipsoids import Ellipsoids
from sfumato.learning.decoding.mixture.pool import Clusters, Member
from sfumato.learning.decoding.problem import DecodingProblem, Vector
from sfumato.learning.decoding.solver import Monitor

__all__ = [
    "MOST_NUMBERS",
    "Responses",
    "choose_evenly",
    "describe_posterior",
    "measure_spreads",
    "respond",
]

_N_MEMBERS: Final = 32
_FEW_MEMBERS: Final = 12
_N_POINTS: Final = 6_000
_POINTS_PER_CLUSTER: Final = 300
_LEAST_OF_ATOM: Final = 32
_N_STEPS: Final = 12
# Steps end where no centroid moves by more than this share of its cluster's spread.
_STILL: Final = 1e-3
# Floating-point operations of all steps together: about half a second.
_MOST_WORK: Final = 6e9


@dataclass(frozen=True, kw_only=True, eq=False)
class Responses:
    """Centroids and shares that single densities would give, matched to those of the answer.

    Parameters
    ----------
    centroids : float64 (n, k, d)
        Unit lengths.
    shares : float64 (n, k)
        Rows sum to 1.
    chances : float64 (n,)
        Share of each density, summing to 1.
    """

    centroids: Vector
    shares: Vector
    chances: Vector


def choose_evenly(members: Sequence[Member], n_chosen: int) -> list[Member]:
    """Choose members by their shares, so that the chosen ones count alike; all if there are few."""
    if len(members) <= n_chosen:
        return list(members)
    ends = np.cumsum([member.share for member in members])
    places = (np.arange(n_chosen) + 0.5) / n_chosen * ends[-1]
    found = np.unique(np.minimum(np.searchsorted(ends, places), len(members) - 1))
    return [replace(members[int(i)], share=1.0 / len(found)) for i in found]


def respond(
    members: Sequence[Member],
    clusters: Clusters,
    *,
    lower: Vector,
    upper: Vector,
    rng: np.random.Generator,
    monitor: Monitor,
) -> Responses:
    """Run a descent of k-means on each of some members, from the answer's centroids.

    Parameters
    ----------
    members
        The pool, at least one.
    clusters
        The answer; the responses keep its order.
    lower, upper : float64 (d,)
        The box, unit lengths; records beyond it lie on it.
    rng
        Source of the common points.
    monitor
        Polled for cancellation before every member.
    """
    n_clusters, d = clusters.centroids.shape
    n_points = max(_N_POINTS, _POINTS_PER_CLUSTER * n_clusters)
    most = int(_MOST_WORK / (6.0 * _N_STEPS * n_points * n_clusters * (d + 4)))
    chosen = choose_evenly(members, min(_N_MEMBERS, max(_FEW_MEMBERS, most)))
    largest = max(len(member.atoms) for member in chosen)
    of_atom = max(_LEAST_OF_ATOM, n_points // largest // 2 * 2)
    normals = draw_balanced(of_atom, d, rng)
    centroids, shares = [], []
    for member in chosen:
        monitor.check()
        points, masses = _place(member.atoms, normals)
        np.clip(points, lower, upper, out=points)
        found = _descend(points, masses, clusters)
        centroids.append(found[0])
        shares.append(found[1])
    chances = np.array([member.share for member in chosen])
    return Responses(
        centroids=np.array(centroids),
        shares=np.array(shares),
        chances=chances / np.sum(chances),
    )


def draw_balanced(n_points: int, n_dimensions: int, rng: np.random.Generator) -> Vector:
    """Draw normal points whose mean is exactly 0, and whose covariance is exactly the identity.

    The covariance only where there are more points than twice the dimensions.
    """
    half = rng.normal(size=(max(1, n_points // 2), n_dimensions))
    if len(half) > n_dimensions:
        factor = np.linalg.cholesky(half.T @ half / len(half))
        half = np.linalg.solve(factor, half.T).T
    return np.concatenate([half, -half])


def _place(atoms: Ellipsoids, normals: Vector) -> tuple[Vector, Vector]:
    """Return points (n, d) and their masses (n,), which sum to 1: the same number for each atom."""
    points = atoms.centres[:, None] + np.einsum("kij,nj->kni", atoms.roots, normals)
    total = float(np.sum(atoms.weights))
    weights = atoms.weights / total if total > 0.0 else np.full(len(atoms), 1.0 / len(atoms))
    masses = np.repeat(weights / len(normals), len(normals))
    return points.reshape(-1, points.shape[2]), masses


def _descend(points: Vector, masses: Vector, clusters: Clusters) -> tuple[Vector, Vector]:
    """Run Lloyd's iteration on points with masses; an empty cluster keeps its centroid."""
    n_clusters = len(clusters.centroids)
    centroids = clusters.centroids.copy()
    still = _STILL * np.sqrt(np.mean(clusters.spreads**2, axis=1))
    moving = points.astype(np.float32)
    held: Vector = np.zeros(n_clusters)
    for _ in range(_N_STEPS):
        scores = moving @ (-2.0 * centroids.T).astype(np.float32)
        scores += np.sum(centroids**2, axis=1).astype(np.float32)
        labels = np.argmin(scores, axis=1)
        held = np.bincount(labels, weights=masses, minlength=n_clusters).astype(np.float64)
        sums = np.stack(
            [
                np.bincount(labels, weights=masses * column, minlength=n_clusters)
                for column in points.T
            ],
            axis=1,
        )
        full = held > 0.0
        moved = centroids.copy()
        moved[full] = sums[full] / held[full, None]
        steps = np.max(np.abs(moved - centroids), axis=1)
        centroids = moved
        if np.all(steps <= still):
            break
    return centroids, held / max(float(np.sum(held)), 1e-300)


def measure_spreads(clusters: Clusters, responses: Responses) -> tuple[Vector, Vector]:
    """Return the root mean square difference of the responses from the answer.

    About the answer rather than about their own mean, so that the chance of the answer's samples
    is included.

    Returns
    -------
    centroids : float64 (k, d)
        Unit lengths.
    shares : float64 (k,)
    """
    moved = (responses.centroids - clusters.centroids) ** 2
    changed = (responses.shares - clusters.shares) ** 2
    return (
        np.sqrt(np.einsum("n,nkd->kd", responses.chances, moved)),
        np.sqrt(responses.chances @ changed),
    )


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
