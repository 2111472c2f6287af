"""A decode on a server, followed until it ends."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from analyst.results import DecodeResult, read_result
from shared.errors import DecodingError, SketchError, TransportError

_LONGEST_STREAM_S = 600
_POLL_S = 0.2
UNUSABLE = "do not use"
"""The verdict on a result that is withheld unless ``allow_unusable`` is passed."""
FINAL_STATES = ("succeeded", "failed", "cancelled")


class Follower(Protocol):
    """The calls of a client that follow a decode."""

    def decode_events(
        self, decode_id: str, *, seconds: int | None = None
    ) -> Iterator[dict[str, Any]]:
        """Yield its states as they change."""

    def decode_state(self, decode_id: str) -> dict[str, Any]:
        """Return its state."""

    def pause(self, seconds: float) -> None:
        """Wait for a number of seconds."""


class Decode:
    """A decode on the server."""

    def __init__(self, client: Follower, decode_id: str) -> None:
        self.decode_id = decode_id
        self._client = client

    def wait(
        self,
        *,
        progress: Callable[[float], None] | None = None,
        allow_unusable: bool = False,
        timeout: float | None = None,
        note: Callable[[str], object] = warnings.warn,
    ) -> DecodeResult:
        """Wait for the result.

        Parameters
        ----------
        progress
            Function that is called with the completed share, 0 to 1.
        allow_unusable
            Return the result even if its verdict is "do not use".
        timeout
            Seconds after which to stop waiting; the decode goes on.
        note
            Function that is told, once, that no worker is there to solve it.

        Raises
        ------
        DecodingError
            The decode failed or was cancelled, or the verdict on its result is "do not use".
        TransportError
            It has not ended in time.
        """
        is_noted = False
        for state in self._follow(timeout):
            if progress:
                progress(float(state["progress"]))
            if state["state"] in FINAL_STATES:
                return require_usable(read_result(state), allow_unusable=allow_unusable)
            if state.get("n_workers") == 0 and not is_noted:
                note("no worker is there: the decode waits until somebody starts `sfumato worker`")
                is_noted = True
        raise TransportError(
            f"did not end within {timeout:g} s; it goes on",
            field="decode",
            fix=f"wait longer with `sfumato decode watch {self.decode_id}`",
        )

    def _follow(self, timeout: float | None) -> Iterator[dict[str, Any]]:
        """Yield states until the last, or the time is up: from the stream, or by polling."""
        is_streamed = True
        end = None if timeout is None else time.monotonic() + timeout
        while end is None or time.monotonic() < end:
            if is_streamed:
                try:
                    yield from self._client.decode_events(self.decode_id, seconds=_seconds_to(end))
                except SketchError:
                    # Too many streams, or a proxy without streams. A refusal of the decode itself
                    # is raised again below.
                    is_streamed = False
            state = self._client.decode_state(self.decode_id)
            yield state
            if state["state"] in FINAL_STATES:
                return
            self._client.pause(_POLL_S)


def _seconds_to(end: float | None) -> int | None:
    """Return for how long to ask for events, if there is an end."""
    if end is None:
        return None
    return min(_LONGEST_STREAM_S, max(0, math.ceil(end - time.monotonic())))


def require_usable(result: DecodeResult, *, allow_unusable: bool) -> DecodeResult:
    """Return a result whose verdict allows it.

    Raises
    ------
    DecodingError
        The verdict is "do not use", and that is not allowed.
    """
    if result.verdict == UNUSABLE and not allow_unusable:
        raise DecodingError(
            f"gave a result with the verdict {UNUSABLE!r}: {result.reason}",
            field="decode",
            fix="pass allow_unusable=True, or --allow-unusable, to see it",
        )
    return result
