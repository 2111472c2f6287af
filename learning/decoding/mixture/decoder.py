"""The default decoder: Gaussian mixtures fitted to the sketch, then k-means on their samples.

``docs/explanation/decoding.md`` describes it step by step.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from sfumato.learning.decoding.density import GaussianMixture
from sfumato.learning.decoding.mixture.assembly import assemble_pooled_solution
from sfumato.learning.decoding.mixture.choice import (
    choose_counts,
    choose_n_clusters,
    compute_caution,
)
from sfumato.learning.decoding.mixture.ensemble import fit_clusters
from sfumato.learning.decoding.mixture.gaussians import measure_in_wavelengths, prepare_target
from sfumato.learning.decoding.mixture.ladder import climb
from sfumato.learning.decoding.mixture.pool import choose_members, pool_clusters
from sfumato.learning.decoding.mixture.responses import respond
from sfumato.learning.decoding.mixture.round_descent import Fitted, descend_round
from sfumato.learning.decoding.problem import DecodingProblem
from sfumato.learning.decoding.solution import ClusterChoice, Solution
from sfumato.learning.decoding.solver import Monitor, check_count, check_flag, use_one_thread

__all__ = ["MixtureDecoder"]


@dataclass(frozen=True, kw_only=True)
class MixtureDecoder:
    """The mixture solver.

    Parameters
    ----------
    n_replicates : int
        Largest number of round fits under noise, at most six at weak noise; fits end early once the
        same best one was found three times.
    choose : bool
        Treat the problem's number of clusters as the maximum, and choose the number that the sketch
        supports, or fewer if its verdict is worse than rough. `choice` in the solution gives the
        reason.

    Raises
    ------
    DecodingError
        A setting is out of range.

    Guarantees
    ----------
    The result is a function of problem, settings and the state of `rng`: the same bits with the
    same numerical libraries, and up to rounding with others. Linear algebra uses one thread.
    Rounding may lead to another local optimum where noise leaves several equally good ones.
    """

    name: ClassVar[str] = "mixture/2"

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
        with use_one_thread():
            if not self.choose:
                return self._solve(problem, rng, monitor)
            for_choice, for_fits = rng.spawn(2)
            choice = choose_n_clusters(problem, rng=for_choice, monitor=monitor.part(0.0, 0.5))
            return self._solve_choice(problem, choice, for_fits, monitor.part(0.5, 1.0))

    def follow(
        self,
        problem: DecodingProblem,
        start: GaussianMixture,
        *,
        rng: np.random.Generator,
        cancelled: Callable[[], bool] | None = None,
    ) -> Solution:
        """Recover centroids by descent from round clusters that nearly explain the sketch.

        Such as those of a longer stretch of time. It is several times as fast as a search, and its
        evidence and its verdict are of the same kind, except that no starts agree or disagree.

        Parameters
        ----------
        problem
            Its number of clusters is that of the start.
        start
            k components, data units; a component's variances are averaged in the problem's units.
        rng, cancelled
            As in `Solver.solve`.
        """
        monitor = Monitor(1, None, cancelled)
        with use_one_thread(), np.errstate(all="ignore"):
            standard = measure_in_wavelengths(problem)
            fits = [descend_round(standard, start, monitor)]
            return self._finish(problem, standard, fits, rng.spawn(4), monitor)

    def _solve_choice(
        self,
        problem: DecodingProblem,
        choice: ClusterChoice,
        rng: np.random.Generator,
        monitor: Monitor,
    ) -> Solution:
        """Recover the recommended number of clusters, or fewer if that result is too poor."""
        n_clusters, asked = choice.recommended, choice.recommended
        while True:
            part = monitor.part(0.0, 1.0 - 0.5 * n_clusters / (asked + 1))
            solution = self._solve(replace(problem, n_clusters=n_clusters), rng.spawn(1)[0], part)
            word = "sound" if solution.verdict is None else solution.verdict.word
            if word in ("sound", "rough") or n_clusters == 1:
                break
            n_clusters = max(1, n_clusters * 2 // 3)
        if solution.posterior is not None:
            counts = choose_counts(n_clusters, int(problem.n_clusters))
            caution = compute_caution(
                solution.posterior, counts, unit=problem.unit, rng=rng.spawn(1)[0], monitor=monitor
            )
            solution = replace(solution, caution=caution)
        monitor.reach(1.0)
        if n_clusters == asked:
            return replace(solution, choice=choice)
        lowered = replace(
            choice,
            recommended=n_clusters,
            least=min(choice.least, n_clusters),
            most=n_clusters,
            statement=f"the sketch is too poor for {asked} clusters, which would explain it best: "
            f"{n_clusters} are the most that it supports",
        )
        return replace(solution, choice=lowered)

    def _solve(
        self, problem: DecodingProblem, rng: np.random.Generator, monitor: Monitor
    ) -> Solution:
        # Bad input may overflow single precision; every step checks its results instead.
        with np.errstate(all="ignore"):
            return self._recover(problem, measure_in_wavelengths(problem), rng, monitor)

    def _recover(
        self,
        stated: DecodingProblem,
        problem: DecodingProblem,
        rng: np.random.Generator,
        monitor: Monitor,
    ) -> Solution:
        for_fits, *others = rng.spawn(5)
        fits = fit_clusters(
            prepare_target(problem),
            int(problem.n_clusters),
            n_replicates=self.n_replicates,
            rng=for_fits,
            monitor=monitor.part(0.0, 0.5),
        )
        return self._finish(stated, problem, fits, others, monitor)

    def _finish(
        self,
        stated: DecodingProblem,
        problem: DecodingProblem,
        fits: Sequence[Fitted],
        rngs: Sequence[np.random.Generator],
        monitor: Monitor,
    ) -> Solution:
        """Climb from round fits, pool what explains the sketch, cluster it and judge the answer."""
        for_ladder, for_members, for_pool, for_bars = rngs
        target = prepare_target(problem)
        candidates = climb(target, fits, rng=for_ladder, monitor=monitor.part(0.5, 0.9))
        members = choose_members(target, candidates, for_members)
        best = min(fits, key=lambda fit: fit.objective)
        clusters = pool_clusters(
            target, members, best.atoms.centres, rng=for_pool, monitor=monitor.part(0.9, 1.0)
        ).sort()
        responses = respond(
            members,
            clusters,
            lower=target.lower,
            upper=target.upper,
            rng=for_bars,
            monitor=monitor,
        )
        solution = assemble_pooled_solution(
            problem,
            target,
            fits,
            candidates,
            clusters,
            members=members,
            responses=responses,
            plan_unit=stated.unit,
            solver=self.name,
        )
        monitor.reach(1.0)
        return solution
