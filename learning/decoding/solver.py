"""Interface of the solvers: progress and cancellation, checks of settings, and threads."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

import numpy as np
from threadpoolctl import threadpool_limits

from sfumato.learning.decoding.problem import DecodingProblem
from sfumato.learning.decoding.solution import Solution
from sfumato.shared.errors import DecodingCancelledError, DecodingError

__all__ = ["Monitor", "Solver", "check_count", "check_flag", "check_fraction"]


def check_count(field: str, value: object, limit: int) -> None:
    """Refuse a value that is not a whole number from 1 to `limit`.

    Raises
    ------
    DecodingError
        The value is refused; the error names the field.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= limit:
        rule = f"must be an integer from 1 to {limit}, not {value!r}"
        raise DecodingError(rule, field=field, fix="give a whole number")


def check_fraction(field: str, value: object) -> None:
    """Refuse a value that does not lie strictly between 0 and 1.

    Raises
    ------
    DecodingError
        The value is refused; the error names the field.
    """
    if not (isinstance(value, float) and 0.0 < value < 1.0):
        rule = f"lies strictly between 0 and 1, not {value!r}"
        raise DecodingError(rule, field=field, fix="leave it out to use the default")


def check_flag(field: str, value: object) -> None:
    """Refuse a value that is neither true nor false.

    Raises
    ------
    DecodingError
        The value is refused; the error names the field.
    """
    if not isinstance(value, bool):
        rule = f"must be true or false, not {value!r}"
        raise DecodingError(rule, field=field, fix="leave it out to use the default")


def use_one_thread() -> AbstractContextManager[object]:
    """Keep all linear algebra of the process on one thread for a while.

    The matrices of a decoder are small: to share one out takes longer than to multiply it.
    """
    # SciPy has a BLAS of its own, which must be loaded to be found.
    import scipy.linalg  # noqa: F401, PLC0415 - a server never needs it

    limited: AbstractContextManager[object] = threadpool_limits(limits=1, user_api="blas")
    return limited


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
