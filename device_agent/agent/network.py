"""One thread that speaks with the server, so that reading never waits for it.

It knows nothing of the state: the main thread hands it bytes, and gets answers as calls to make.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import TypeVar

from device_agent.server.transport import ServerClient
from shared.errors import SketchError

T = TypeVar("T")
Call = Callable[[], None]


class Network:
    """Runs one request at a time.

    Parameters
    ----------
    connect
        Makes the client; called in the thread.
    calls
        Where answers go, as calls that the main thread makes.
    """

    def __init__(self, connect: Callable[[], ServerClient], calls: SimpleQueue[Call]) -> None:
        self._connect = connect
        self._calls = calls
        self._jobs: SimpleQueue[Callable[[ServerClient], Call] | None] = SimpleQueue()
        self._closed = False
        self.is_busy = False
        """True if an answer is outstanding."""
        # A daemon thread: a request that hangs must not keep the process from ending.
        threading.Thread(target=self._work, name="network", daemon=True).start()

    def submit(self, request: Callable[[ServerClient], T], then: Callable[[T], None]) -> None:
        """Make a request, and call ``then`` with its answer in the main thread.

        A request must turn what can go wrong into its answer; what it raises ends the agent.
        """
        assert not self.is_busy
        self.is_busy = True

        def work(client: ServerClient) -> Call:
            answer = request(client)
            return lambda: then(answer)

        self._jobs.put(work)

    def close(self) -> None:
        """End the thread behind the request it is at, whose answer is not heard any more."""
        self._closed = True
        self._jobs.put(None)

    def _work(self) -> None:
        try:
            with self._connect() as client:
                while (job := self._jobs.get()) is not None:
                    self._answer(job(client))
        except Exception as error:
            self._answer(_raising(error))

    def _answer(self, call: Call) -> None:
        def make() -> None:
            if not self._closed:
                self.is_busy = False
                call()

        self._calls.put(make)


def catch(request: Callable[[ServerClient], T]) -> Callable[[ServerClient], T | SketchError]:
    """Return a request whose answer may be an error of ours."""

    def caught(client: ServerClient) -> T | SketchError:
        try:
            return request(client)
        except SketchError as error:
            return error

    return caught


def _raising(error: Exception) -> Call:
    def call() -> None:
        raise error

    return call
