"""Several round fits of one sketch: the first rung of the ladder, and its stopping rule."""

from typing import Final

import numpy as np

from sfumato.learning.decoding.mixture.ellipsoids import count_parameters
from sfumato.learning.decoding.mixture.gaussians import Target
from sfumato.learning.decoding.mixture.growth import cycle, grow
from sfumato.learning.decoding.mixture.ladder import leaves_only_noise
from sfumato.learning.decoding.mixture.round_descent import Fitted, evaluate, refine
from sfumato.learning.decoding.solver import Monitor

__all__ = ["count_agreeing", "fit_clusters"]

# Share of the signal's energy that a fit may leave without noise.
_EXACT: Final = 1e-6
_N_CYCLES: Final = 12
_N_PARTS: Final = 4
_GROWN_ON: Final = 2
_JITTER: Final = 0.5
_ENOUGH_AGREEMENT: Final = 3
_SOME_PARAMETERS: Final = 450
_MANY_PARAMETERS: Final = 900
# At weak noise, enough tries to repair every mixture tested; fewer where each takes seconds.
_MOST_TRIES: Final = 6
_SOME_TRIES: Final = 4
_FEW_TRIES: Final = 3
_N_LAST_STEPS: Final = 15
# Steps end at a gain below this share; where a step takes a second, smaller gains do not matter.
_LEAST_GAIN: Final = 1e-5
_LEAST_GAIN_OF_MANY: Final = 1e-3
# Every third try searches the whole box, which may be wide, for narrow atoms.
_THOROUGH: Final = 3


def fit_clusters(
    target: Target,
    n_clusters: int,
    *,
    n_replicates: int,
    rng: np.random.Generator,
    monitor: Monitor,
) -> list[Fitted]:
    """Fit k atoms up to `n_replicates` times; return the fits in order.

    The lowest optimum has to be found twice at weak noise, and three times under noise, where a
    lower one may be chance. Where each fit takes seconds, one whose residual is at the noise floor
    is enough.
    """
    weak = target.has_weak_noise
    n_parameters = count_parameters(n_clusters, target.n_dimensions, kind="round")
    few = n_parameters > _MANY_PARAMETERS
    most = min(n_replicates, _FEW_TRIES if few else _MOST_TRIES if weak else n_replicates)
    if n_parameters > _SOME_PARAMETERS:
        most = min(most, _SOME_TRIES)
    enough = 2 if weak or few else _ENOUGH_AGREEMENT
    fits: list[Fitted] = []
    for i, child in enumerate(rng.spawn(most)):
        part = monitor.part(i / most, (i + 1) / most)
        jitter = 0.0 if i == 0 else _JITTER
        fitted, is_explained = _fit_once(
            target,
            n_clusters,
            jitter,
            child,
            part,
            may_stop=few,
            thorough=i % _THOROUGH == _THOROUGH - 1,
        )
        fits.append(fitted)
        if is_explained or count_agreeing(target, fits) >= enough:
            break
    return fits


def count_agreeing(target: Target, fits: list[Fitted]) -> int:
    """Count the fits that reached the lowest objective."""
    objectives = np.array([fit.objective for fit in fits])
    best = float(np.min(objectives))
    allowance = 1e-3 * best + 0.05 * target.noise_variance + _EXACT * target.signal_energy
    return int(np.sum(objectives <= best + allowance))


def _fit_once(
    target: Target,
    n_clusters: int,
    jitter: float,
    rng: np.random.Generator,
    monitor: Monitor,
    *,
    may_stop: bool,
    thorough: bool,
) -> tuple[Fitted, bool]:
    """Grow, cycle and refine; also return whether only noise was seen to be left.

    The residual is compared with noise between cycles if each cycle takes seconds.
    """
    # The first equations alone suffice for a start; their order is random.
    n_enough = _GROWN_ON * count_parameters(n_clusters, target.n_dimensions, kind="round")
    part_of = target.shorten(n_enough) if may_stop and n_enough < target.n_frequencies else target
    fitted = grow(
        part_of,
        n_clusters,
        share=0.34,
        n_iterations=5,
        jitter=jitter,
        rng=rng,
        monitor=monitor.part(0.0, 0.3),
        thorough=thorough,
    )
    n_parts = _N_PARTS if may_stop else 1
    is_explained = False
    for i in range(n_parts):
        if may_stop:
            fitted = evaluate(target, fitted.atoms)
            fitted = refine(target, fitted, n_iterations=5, tolerance=1e-3, monitor=monitor)
            is_explained = leaves_only_noise(target, fitted, rng)
            if is_explained:
                break
        part = monitor.part(0.3 + 0.6 * i / n_parts, 0.3 + 0.6 * (i + 1) / n_parts)
        # Find the missing atoms on the same equations, and on all of them after a failure.
        asked = part_of if i == 0 else target
        fitted = evaluate(asked, fitted.atoms)
        fitted = cycle(
            asked, fitted, _N_CYCLES // n_parts, rng=rng, monitor=part, thorough=thorough
        )
    fitted = evaluate(target, fitted.atoms)
    tolerance = _LEAST_GAIN_OF_MANY if may_stop else _LEAST_GAIN
    fitted = refine(
        target, fitted, n_iterations=_N_LAST_STEPS, tolerance=tolerance, monitor=monitor
    )
    # Descent leaves no more than before.
    return fitted, is_explained or (may_stop and leaves_only_noise(target, fitted, rng))
