"""The default decoder: Gaussian mixtures fitted to the sketch, then k-means on what they say.

`README.md` beside this file tells it step by step.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from aggregator.decoding.answer import assemble_pooled_solution
from aggregator.decoding.choosing import choose_n_clusters
from aggregator.decoding.ensemble import (
    Member,
    compute_floor,
    fit_clusters,
    fit_over_complete,
    perturb_members,
    weigh_members,
)
from aggregator.decoding.gaussians import Target, measure_in_wavelengths, prepare_target
from aggregator.decoding.levenberg import Fitted
from aggregator.decoding.pooling import pool_clusters
from aggregator.decoding.problem import DecodingProblem
from aggregator.decoding.settings import check_count, check_flag
from aggregator.decoding.solution import Solution
from aggregator.decoding.solver import Monitor

__all__ = ["MixtureDecoder"]

# With so many the pool's own chance is small against what the noise leaves open.
_N_DRAWS = 48
_UNEXPLAINED = 1e-5
# Where noise is not weak, richer mixtures explain more of the noise than of what was left, unless
# k atoms leave several times its energy.
_CLEARLY = 5.0


@dataclass(frozen=True, kw_only=True)
class MixtureDecoder:
    """The mixture solver.

    Parameters
    ----------
    n_replicates : int
        Most fits of k atoms under noise; fewer are made once the same best one was found three
        times. Three at most where noise is weak.
    choose : bool
        Take the problem's number of clusters as the most there may be, find out how many the sketch
        can tell apart, and recover so many. The solution says why in `choice`.

    Raises
    ------
    DecodingError
        If a setting is out of range.

    Guarantees
    ----------
    The result is a function of problem, settings and the state of `rng`: the same bits with the
    same numerical libraries and number of threads, and up to rounding with others. What rounding
    changes may grow to another local optimum where noise leaves several that are equally good.
    """

    name: ClassVar[str] = "mixture/1"

    n_replicates: int = 12
    choose: bool = False

    def __post_init__(self) -> None:
        """Refuse settings out of range."""
        check_count("n_replicates", self.n_replicates, 1000)
        check_flag("choose", self.choose)

    def solve(
        self,
        problem: DecodingProblem,
        *,
        rng: np.random.Generator,
        progress: Callable[[float], None] | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> Solution:
        """Recover centroids; see `Solver.solve`."""
        monitor = Monitor(1, progress, cancelled)
        if not self.choose:
            return self._solve(problem, rng, monitor)
        for_choice, for_fits = rng.spawn(2)
        choice = choose_n_clusters(problem, rng=for_choice, monitor=monitor.part(0.0, 0.5))
        chosen = replace(problem, n_clusters=choice.recommended)
        solution = self._solve(chosen, for_fits, monitor.part(0.5, 1.0))
        return replace(solution, choice=choice)

    def _solve(
        self, problem: DecodingProblem, rng: np.random.Generator, monitor: Monitor
    ) -> Solution:
        # Bad input may overflow single precision; every step checks what it keeps instead.
        with np.errstate(all="ignore"):
            return self._recover(measure_in_wavelengths(problem), rng, monitor)

    def _recover(
        self, problem: DecodingProblem, rng: np.random.Generator, monitor: Monitor
    ) -> Solution:
        for_fits, for_members, for_pool = rng.spawn(3)
        target = prepare_target(problem)
        fits = fit_clusters(
            target,
            int(problem.n_clusters),
            n_replicates=self.n_replicates,
            rng=for_fits,
            monitor=monitor.part(0.0, 0.5),
        )
        best = min(fits, key=lambda fit: fit.objective)
        members = _find_members(target, fits, best, for_members, monitor.part(0.5, 0.9))
        clusters = pool_clusters(
            target, members, best.atoms, rng=for_pool, monitor=monitor.part(0.9, 1.0)
        )
        densest = max(members, key=lambda member: member.share).fitted
        solution = assemble_pooled_solution(
            problem, fits, clusters, densest.atoms, solver=self.name
        )
        monitor.reach(1.0)
        return solution


def _find_members(
    target: Target, fits: list[Fitted], best: Fitted, rng: np.random.Generator, monitor: Monitor
) -> list[Member]:
    """Choose what is pooled: over-complete fits where k atoms leave more than noise, or the fits.

    Under noise each member is replaced by draws about it.
    """
    weak = target.has_weak_noise
    for_fits, for_draws = rng.spawn(2)
    n_clusters = len(best.atoms)
    excess = best.misfit - compute_floor(target, n_clusters)
    noise = target.n_frequencies * target.noise_variance
    if excess > max((1.0 if weak else _CLEARLY) * noise, _UNEXPLAINED * target.signal_energy):
        members = fit_over_complete(
            target, n_clusters, rng=for_fits, monitor=monitor.part(0.0, 0.8)
        )
    elif weak:
        members = [Member(fitted=best, share=1.0)]
    else:
        members = weigh_members(target, fits)
    if weak:
        return members
    return perturb_members(
        target,
        members,
        n_draws=_N_DRAWS,
        rng=for_draws,
        monitor=monitor.part(0.8, 1.0),
    )
