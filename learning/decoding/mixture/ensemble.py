"""Several round fits of one sketch: the first rung of the ladder, and its stopping rule."""

import math
from dataclasses import dataclass
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
# Where a fit takes seconds: rounds of fewer exchanges. Under noise that hides a misplaced cluster,
# other searches show more than further rounds.
_N_ROUNDS: Final = 4
_N_CYCLES_OF_ROUND: Final = 3
_N_CYCLES_OF_LARGE: Final = 2
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
# The energy of one cluster, in chances of the noise's energy, from which a residual that is only
# noise shows that none is misplaced. Below 130 single such fits had 1.1 to 2.2 times the SSE of
# k-means, and none to disagree with; from 260 on 1.01 to 1.05.
_SEEN_CLUSTER: Final = 200.0
_OF_CHANCE: Final = 3.0
# Every third try searches the whole box, which may be wide, for narrow atoms.
_THOROUGH: Final = 3


@dataclass(frozen=True, kw_only=True)
class _Effort:
    """How long to search.

    Parameters
    ----------
    n_tries, n_agreeing
        Most fits, and how many have to agree.
    n_rounds, n_cycles
        Rounds of a fit, and exchanges in each.
    is_large
        Whether a fit takes seconds.
    may_stop
        Whether a residual that is only noise ends the search: a misplaced cluster would show.
    """

    n_tries: int
    n_agreeing: int
    n_rounds: int
    n_cycles: int
    is_large: bool
    may_stop: bool


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
    is enough, provided that a misplaced cluster would show there; else several show how far apart
    equally good fits are.
    """
    effort = _choose_effort(target, n_clusters, n_replicates)
    fits: list[Fitted] = []
    for i, child in enumerate(rng.spawn(effort.n_tries)):
        part = monitor.part(i / effort.n_tries, (i + 1) / effort.n_tries)
        fitted, is_explained = _fit_once(
            target,
            n_clusters,
            0.0 if i == 0 else _JITTER,
            child,
            part,
            effort=effort,
            thorough=i % _THOROUGH == _THOROUGH - 1,
        )
        fits.append(fitted)
        if is_explained or count_agreeing(target, fits) >= effort.n_agreeing:
            break
    return fits


def _choose_effort(target: Target, n_clusters: int, n_replicates: int) -> _Effort:
    """Choose by the size of a fit, and by what noise lets one see."""
    n_parameters = count_parameters(n_clusters, target.n_dimensions, kind="round")
    weak, is_large = target.has_weak_noise, n_parameters > _MANY_PARAMETERS
    chance = _OF_CHANCE * target.noise_variance * math.sqrt(target.n_frequencies)
    may_stop = is_large and target.signal_energy > _SEEN_CLUSTER * n_clusters * chance
    n_tries, n_agreeing, n_cycles = n_replicates, _ENOUGH_AGREEMENT, _N_CYCLES
    if may_stop:
        n_tries, n_agreeing, n_cycles = _FEW_TRIES, 2, _N_CYCLES_OF_ROUND
    elif is_large:
        # In a large sketch equal residuals are no agreement: all fits are needed.
        n_tries = _MOST_TRIES if n_parameters < 2 * _MANY_PARAMETERS else _SOME_TRIES
        n_agreeing, n_cycles = n_tries, _N_CYCLES_OF_LARGE
    elif weak:
        n_tries, n_agreeing = _MOST_TRIES, 2
    if n_parameters > _SOME_PARAMETERS and not is_large:
        n_tries = min(n_tries, _SOME_TRIES)
    return _Effort(
        n_tries=min(n_replicates, n_tries),
        n_agreeing=n_agreeing,
        n_rounds=_N_ROUNDS if may_stop else 1,
        n_cycles=n_cycles,
        is_large=is_large,
        may_stop=may_stop,
    )


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
    effort: _Effort,
    thorough: bool,
) -> tuple[Fitted, bool]:
    """Grow, cycle and refine; also return whether only noise was seen to be left.

    The residual is compared with noise between cycles if each cycle takes seconds.
    """
    # The first equations alone suffice for a start; their order is random.
    n_enough = _GROWN_ON * count_parameters(n_clusters, target.n_dimensions, kind="round")
    is_enough = effort.is_large and n_enough < target.n_frequencies
    part_of = target.shorten(n_enough) if is_enough else target
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
    is_explained = False
    for i in range(effort.n_rounds):
        if effort.may_stop:
            fitted = evaluate(target, fitted.atoms)
            fitted = refine(target, fitted, n_iterations=5, tolerance=1e-3, monitor=monitor)
            is_explained = leaves_only_noise(target, fitted, rng)
            if is_explained:
                break
        part = monitor.part(0.3 + 0.6 * i / effort.n_rounds, 0.3 + 0.6 * (i + 1) / effort.n_rounds)
        # Find the missing atoms on the same equations, and on all of them after a failure.
        asked = part_of if effort.may_stop and i == 0 else target
        fitted = evaluate(asked, fitted.atoms)
        fitted = cycle(asked, fitted, effort.n_cycles, rng=rng, monitor=part, thorough=thorough)
    fitted = evaluate(target, fitted.atoms)
    tolerance = _LEAST_GAIN_OF_MANY if effort.is_large else _LEAST_GAIN
    fitted = refine(
        target, fitted, n_iterations=_N_LAST_STEPS, tolerance=tolerance, monitor=monitor
    )
    # Descent leaves no more than before.
    return fitted, is_explained or (effort.may_stop and leaves_only_noise(target, fitted, rng))
