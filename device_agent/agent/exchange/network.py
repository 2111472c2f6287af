"""The connection to the server: in a thread of its own for the daemon, so that reading never waits.

It knows nothing of the state: it gets requests, and hands their answers to the main thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TypeVar

from sfumato.device_agent.agent.device import Clock, Device
from sfumato.device_agent.server.transport import ServerClient
from sfumato.shared.errors import SketchError

T = TypeVar("T")
Call = Callable[[], None]


class Network:
    """Runs each request at once, and waits for its answer.

    Parameters
    ----------
    connect
        Makes the client.
    """

    is_busy = False
    """True if an answer is outstanding."""

    def __init__(self, connect: Callable[[], ServerClient]) -> None:
        self._closing = ExitStack()
        self._client = self._closing.enter_context(connect())

    def submit(self, request: Callable[[ServerClient], T], then: Callable[[T], None]) -> None:
        """Make a request, and call ``then`` with its answer in the main thread.

        A request must turn what can go wrong into its answer; what it raises ends the agent.
        """
        then(request(self._client))

    def close(self) -> None:
        """Close the connection; no more answers arrive."""
        self._closing.close()


class BackgroundNetwork(Network):
    """Runs one request at a time in a thread.

    Parameters
    ----------
    connect
        Makes the client; called in the thread.
    calls
        Queue of answers, as calls that the main thread makes.
    """

    def __init__(self, connect: Callable[[], ServerClient], calls: SimpleQueue[Call]) -> None:
        self._connect = connect
        self._calls = calls
        self._jobs: SimpleQueue[Callable[[ServerClient], Call] | None] = SimpleQueue()
        self._closed = False
        # A daemon thread: a request that hangs must not keep the process from ending.
        threading.Thread(target=self._work, name="network", daemon=True).start()

    def submit(self, request: Callable[[ServerClient], T], then: Callable[[T], None]) -> None:
        """Make a request; ``then`` is called from the queue."""
        assert not self.is_busy
        self.is_busy = True

        def work(client: ServerClient) -> Call:
            answer = request(client)
            return lambda: then(answer)

        self._jobs.put(work)

    def close(self) -> None:
        """End the thread after the current request, and drop its answer."""
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


@dataclass(kw_only=True)
class Link:
    """Shared parts of polling, sending and changing the key.

    Parameters
    ----------
    device, network
        Replaced when settings or key change.
    clock, timer
        The device's clock, and monotonic seconds.
    report
        Takes a log level, a message, and the stream that it is about or "".
    is_patient
        Whether to wait and retry when the server refuses or the state cannot be written; otherwise
        the error is raised.
    """

    device: Device
    network: Network
    clock: Clock
    timer: Callable[[], float]
    report: Callable[[int, str, str], None]
    is_patient: bool


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
