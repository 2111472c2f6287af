"""Interface of the solvers, with progress and cancellation."""

from collections.abc import Callable
from typing import Protocol

import numpy as np

from sfumato.learning.decoding.problem import DecodingProblem
from sfumato.learning.decoding.solution import Solution
from sfumato.shared.errors import DecodingCancelledError

__all__ = ["Monitor", "Solver"]


class Solver(Protocol):
    """A frozen set of hyperparameters that turns a problem into a solution.

    Guarantees
    ----------
    `solve` is a function of its arguments and the state of `rng` alone. It reads only the problem,
    so it is post-processing of the sketch and costs no privacy. It never returns NaN, and converts
    every foreign error.
    """

    @property
    def name(self) -> str:
        """Stable identity, e.g. "cl-ompr/1"; any change of results changes the version."""

    def solve(
        self,
        problem: DecodingProblem,
        *,
        rng: np.random.Generator,
        progress: Callable[[float], None] | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> Solution:
        """Recover centroids.

        Parameters
        ----------
        problem : DecodingProblem
            The problem to solve.
        rng : numpy.random.Generator
            Source of the random starts; it must be able to `spawn`.
        progress : callable, optional
            Receives a nondecreasing fraction in [0, 1] that ends at 1.
        cancelled : callable, optional
            Polled between steps.

        Returns
        -------
        Solution
            Always complete; read `succeeded` and `warnings`.

        Raises
        ------
        DecodingCancelledError
            `cancelled` returned true.
        """


class Monitor:
    """Report the progress of one solve as a fraction, and stop it on request.

    A solver with a known number of steps counts them with `advance`; another reports the fraction
    reached with `reach`, and assigns intervals of it with `part`.

    Parameters
    ----------
    n_steps : int
        Steps until the fraction is 1, if they are counted.
    progress, cancelled : callable, optional
        As in `Solver.solve`.
    """

    def __init__(
        self,
        n_steps: int = 1,
        progress: Callable[[float], None] | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> None:
        self._n_steps = n_steps
        self._n_done = 0
        self._reached = 0.0
        self._progress = progress
        self._cancelled = cancelled
        self._report()

    def check(self) -> None:
        """Raise DecodingCancelledError if the caller wants to stop."""
        if self._cancelled is not None and self._cancelled():
            raise DecodingCancelledError(f"cancelled after {self._reached:.0%}")

    def advance(self) -> None:
        """Count one step as done."""
        self.check()
        self._n_done += 1
        self._reached = min(1.0, self._n_done / self._n_steps)
        self._report()

    def reach(self, fraction: float) -> None:
        """Report the completed fraction; it never falls."""
        self.check()
        if fraction > self._reached:
            self._reached = min(1.0, fraction)
            self._report()

    def part(self, first: float, last: float) -> "Monitor":
        """Return a monitor whose fraction from 0 to 1 is this one's from `first` to `last`."""
        return Monitor(
            self._n_steps,
            lambda fraction: self.reach(first + (last - first) * fraction),
            self._cancelled,
        )

    def _report(self) -> None:
        if self._progress is not None:
            self._progress(self._reached)
