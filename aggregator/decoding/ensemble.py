"""Several fits of one sketch, and how much each counts.

Stage A fits k atoms several times. Where even the best fit leaves more than noise, clusters are not
round Gaussians, and stage B fits several over-complete mixtures instead. Each is one of many
densities that agree with the sketch; their average is what `aggregator.decoding.pooling` clusters.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from aggregator.decoding.gaussians import Atoms, Target
from aggregator.decoding.growth import cycle, grow
from aggregator.decoding.levenberg import Fitted, evaluate, refine
from aggregator.decoding.solver import Monitor

__all__ = [
    "Member",
    "compute_floor",
    "count_agreeing",
    "fit_clusters",
    "fit_over_complete",
    "perturb_members",
    "weigh_members",
]

# What a fit may leave of the signal's energy without noise.
_EXACT: Final = 1e-5
# A residual this many times the floor, at weak noise, will not be mended by another try.
_HOPELESS: Final = 30.0
_N_CYCLES: Final = 12
_JITTER: Final = 0.5
_ENOUGH_AGREEMENT: Final = 3
_MOST_PARAMETERS: Final = 1800
_MANY_PARAMETERS: Final = 900
_KEPT_SHARE: Final = 0.6
# Of over-complete mixtures; that 1 serves better was measured for fits of k atoms alone.
_TEMPER: Final = 10.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Member:
    """A fit and the share of the pool that it gets."""

    fitted: Fitted
    share: float


def compute_floor(target: Target, n_clusters: int) -> float:
    """Compute the |r|^2 below which a fit of k atoms is as good as the noise allows.

    nv (m - k (d + 2) / 2 + sqrt(m)) and a little of the signal: what Gaussian noise leaves after
    k (d + 2) real parameters have absorbed their part, and one standard deviation more.
    """
    m = target.n_frequencies
    absorbed = min(float(m), n_clusters * (target.n_dimensions + 2) / 2.0)
    return _EXACT * target.signal_energy + target.noise_variance * (m - absorbed + math.sqrt(m))


def fit_clusters(
    target: Target,
    n_clusters: int,
    *,
    n_replicates: int,
    rng: np.random.Generator,
    monitor: Monitor,
) -> list[Fitted]:
    """Fit k atoms up to `n_replicates` times (stage A); the fits in the order made.

    At weak noise one fit that reaches the floor is enough, and so is one that is far above it: more
    of the same would not help. Under noise the same optimum has to be found three times.
    """
    weak = target.has_weak_noise
    floor = compute_floor(target, n_clusters)
    few = n_clusters * (target.n_dimensions + 2) <= _MANY_PARAMETERS
    most = min(n_replicates, 3) if weak else n_replicates
    fits: list[Fitted] = []
    for i, child in enumerate(rng.spawn(most)):
        part = monitor.part(i / most, (i + 1) / most)
        fits.append(_fit_once(target, n_clusters, 0.0 if i == 0 else _JITTER, child, part))
        misfit = min(fit.misfit for fit in fits)
        if weak and (misfit <= floor or (few and misfit > _HOPELESS * floor)):
            break
        if not weak and count_agreeing(target, fits) >= _ENOUGH_AGREEMENT:
            break
    return fits


def count_agreeing(target: Target, fits: list[Fitted]) -> int:
    """Count the fits that reached the lowest objective."""
    objectives = np.array([fit.objective for fit in fits])
    best = float(np.min(objectives))
    allowance = 1e-3 * best + 0.05 * target.noise_variance + _EXACT * target.signal_energy
    return int(np.sum(objectives <= best + allowance))


def _fit_once(
    target: Target, n_clusters: int, jitter: float, rng: np.random.Generator, monitor: Monitor
) -> Fitted:
    """Grow, cycle and refine."""
    fitted = grow(
        target,
        n_clusters,
        share=0.34,
        n_iterations=5,
        jitter=jitter,
        rng=rng,
        monitor=monitor.part(0.0, 0.3),
    )
    fitted = cycle(target, fitted, _N_CYCLES, rng=rng, monitor=monitor.part(0.3, 0.9))
    return refine(target, fitted, n_iterations=15, tolerance=1e-5, monitor=monitor)


def fit_over_complete(
    target: Target, n_clusters: int, *, rng: np.random.Generator, monitor: Monitor
) -> list[Member]:
    """Fit several mixtures of about four atoms a cluster (stage B); the better ones, with shares.

    They differ because growth is jittered.
    """
    per_atom = target.n_dimensions + 2
    n_atoms = max(math.ceil(1.3 * n_clusters), min(4 * n_clusters, _MOST_PARAMETERS // per_atom))
    n_members = 8 if n_atoms * per_atom > _MANY_PARAMETERS else 16
    fits = [
        grow(
            target,
            n_atoms,
            share=0.5,
            n_iterations=3,
            jitter=_JITTER,
            rng=child,
            monitor=monitor.part(i / n_members, (i + 1) / n_members),
        )
        for i, child in enumerate(rng.spawn(n_members))
    ]
    fits.sort(key=lambda fit: fit.objective)
    return weigh_members(target, fits[: math.ceil(_KEPT_SHARE * n_members)], temper=_TEMPER)


def weigh_members(target: Target, fits: list[Fitted], *, temper: float = 1.0) -> list[Member]:
    """Give every fit its share of the pool.

    Under noise exp(-(f - least f) / (temper nv)): with 1, the posterior density at its optimum. At
    weak noise all count alike: what then tells them apart is by how little each misses a model that
    none of them holds.
    """
    if target.has_weak_noise:
        return [Member(fitted=fit, share=1.0 / len(fits)) for fit in fits]
    objectives = np.array([fit.objective for fit in fits])
    weights = np.exp(-(objectives - np.min(objectives)) / (temper * target.noise_variance))
    weights /= np.sum(weights)
    return [
        Member(fitted=fit, share=float(weight)) for fit, weight in zip(fits, weights, strict=True)
    ]


def perturb_members(
    target: Target,
    members: list[Member],
    *,
    n_draws: int,
    rng: np.random.Generator,
    monitor: Monitor,
) -> list[Member]:
    """Replace members by draws around them: refit the sketch with fresh noise of the same variance.

    Randomised maximum a posteriori: each draw is about as far from the member as the truth may be.
    """
    drawn: list[Member] = []
    for i, member in enumerate(members):
        n_own = max(1, round(n_draws * member.share))
        part = monitor.part(i / len(members), (i + 1) / len(members))
        for j in range(n_own):
            moved = _draw_around(target, member.fitted.atoms, rng, part)
            drawn.append(Member(fitted=moved, share=member.share / n_own))
            part.reach((j + 1) / n_own)
    return drawn


def _draw_around(
    target: Target, atoms: Atoms, rng: np.random.Generator, monitor: Monitor
) -> Fitted:
    deviation = math.sqrt(target.noise_variance / 2.0)
    noisy = target.with_sketch(
        (target.sketch + deviation * rng.normal(size=len(target.sketch))).astype(np.float32)
    )
    return refine(noisy, evaluate(noisy, atoms), n_iterations=5, tolerance=1e-3, monitor=monitor)
