"""Growth of a mixture to k atoms: start, expand, grow, and cycles of expansion and pruning.

Growth adds atoms where the residual needs them. The cycles then exchange several atoms at once
(batched split-and-merge moves), which escapes wrong local optima.
"""

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.decoding.gaussians import Atoms, Target, compute_gaussians
from sfumato.learning.decoding.levenberg import Fitted, evaluate, refine
from sfumato.learning.decoding.moves import propose_adds, propose_splits
from sfumato.learning.decoding.problem import Vector
from sfumato.learning.decoding.pruning import prune
from sfumato.learning.decoding.solver import Monitor

__all__ = ["cycle", "expand", "find_first_atom", "grow"]

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
