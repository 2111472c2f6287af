"""Work on the server that is followed until it ends: from a stream of events, or by polling."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from contextlib import aclosing
from typing import Generic, Protocol, TypeVar

from sfumato.analyst.client.calls import AsyncCalls
from sfumato.analyst.requests import AsyncStream
from sfumato.analyst.results import FINAL_STATES
from sfumato.shared.errors import SketchError, TransportError
from sfumato.shared.wire.calls.call import Call, Events
from sfumato.shared.wire.objects.results import ProgressBody

_LONGEST_STREAM_S = 600
_POLL_S = 0.2


class State(Protocol):
    """The state of a job."""

    @property
    def state(self) -> str:
        """One of queued, running, succeeded, failed and cancelled."""

    @property
    def progress(self) -> float:
        """The completed share."""

    @property
    def n_workers(self) -> int | None:
        """While it is queued, the number of workers that are there."""


S = TypeVar("S", bound=State)


class AsyncJob(Generic[S]):
    """A job on the server, of a kind that names it and says how its state is read.

    Parameters
    ----------
    read, stop, follow
        The calls that read its state, cancel it, and follow it.
    """

    kind = "job"
    watch = ""
    """The command that waits for it, before its id."""

    def __init__(
        self,
        client: AsyncCalls,
        job_id: str,
        *,
        read: Call[[], S],
        stop: Call[[], S],
        follow: Events[S],
    ) -> None:
        self._calls, self._job_id = client, job_id
        self._read, self._stop, self._events = read, stop, follow

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._job_id!r})"

    async def state(self) -> S:
        """Return the state, the progress, and the result or problem."""
        return await self._calls._call(self._read, self._job_id)

    async def cancel(self) -> S:
        """Cancel it; if it has ended, it stays as it is."""
        return await self._calls._call(self._stop, self._job_id)

    async def end(
        self,
        *,
        progress: Callable[[float], None] | None = None,
        timeout: float | None = None,
        note: Callable[[str], object] = warnings.warn,
    ) -> S:
        """Wait until it has ended, well or not, and return its last state.

        Parameters
        ----------
        progress
            Function that is called with the completed share, 0 to 1.
        timeout
            Seconds after which to stop waiting; the job goes on.
        note
            Function that is told, once, that no worker is there to solve it.

        Raises
        ------
        TransportError
            It has not ended in time.
        """
        is_noted = False
        async with aclosing(self._follow(timeout)) as states:
            async for each in states:
                if progress:
                    progress(each.progress)
                if not isinstance(each, ProgressBody) and each.state in FINAL_STATES:
                    return each
                if each.n_workers == 0 and not is_noted:
                    note(
                        f"no worker is there: the {self.kind} waits until somebody starts "
                        "`sfumato worker`"
                    )
                    is_noted = True
        raise TransportError(
            f"did not end within {timeout:g} s; it goes on",
            field=self.kind,
            fix=f"wait longer with `{self.watch} {self._job_id}`",
        )

    async def _follow(self, timeout: float | None) -> AsyncStream[S | ProgressBody]:
        """Yield states until the last, or the time is up: from the stream, or by polling."""
        is_streamed = True
        last = None if timeout is None else time.monotonic() + timeout
        while last is None or time.monotonic() < last:
            if is_streamed:
                try:
                    async with aclosing(self._listen(last)) as events:
                        async for each in events:
                            yield each
                            if not isinstance(each, ProgressBody):
                                return
                except SketchError:
                    # Too many streams, or a proxy without streams. A refusal of the job itself is
                    # raised again below.
                    is_streamed = False
            state = await self.state()
            yield state
            if state.state in FINAL_STATES:
                return
            await self._calls._server.sleep(_POLL_S)

    def _listen(self, last: float | None) -> AsyncStream[S | ProgressBody]:
        """Yield the states as they change until a time, and last the ended job."""
        left = None if last is None else max(0, math.ceil(last - time.monotonic()))
        seconds = left and min(_LONGEST_STREAM_S, left)
        return self._calls._events(self._events, self._job_id, seconds)
