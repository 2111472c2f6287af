"""Run a relay: sources in threads of their own, forwarding in the main one.

Whatever was acknowledged is on the disk, so that the process may end at any moment.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass
from types import FrameType
from typing import Any

from sfumato.device_agent.agent.monitoring import LOG, Notifier, report_event, start_log
from sfumato.device_agent.relay.answers import Answer
from sfumato.device_agent.relay.forwarding import Forwarder
from sfumato.device_agent.relay.intake import Intake
from sfumato.device_agent.relay.queue import Queue, QueueCounts, Waiting
from sfumato.device_agent.relay.spool import Spool
from sfumato.device_agent.server.connection import make_context
from sfumato.device_agent.settings.relay_settings import RelaySettings
from sfumato.device_agent.store.database import check_folder
from sfumato.device_agent.store.disk import lock_folder
from sfumato.shared.errors import StoreError
from sfumato.shared.hosts import is_loopback

_RETRY_S = 5.0


class _StoppedError(BaseException):
    """A signal asked the process to end."""


@dataclass(frozen=True, kw_only=True)
class RelayReport:
    """The state of a relay's queue; ``most_bytes`` is its limit."""

    counts: QueueCounts
    most_bytes: int

    def to_json(self) -> dict[str, Any]:
        """Return the document of ``--json``."""
        return {**asdict(self.counts), "most_bytes": self.most_bytes}


def report_relay(settings: RelaySettings) -> RelayReport:
    """Report the queue of a relay, which may be running.

    Raises
    ------
    ConfigError, StoreError
        The folder or the queue cannot be used.
    """
    check_folder(settings.state_dir, create=False)
    with closing(Queue(settings.state_dir, most_bytes=settings.most_bytes)) as queue:
        return RelayReport(counts=queue.count(), most_bytes=settings.most_bytes)


def relay_once(settings: RelaySettings, *, clock: Callable[[], float]) -> RelayReport:
    """Take what lies in the spool, send what is due once, write the answers, and end.

    Raises
    ------
    LedgerError
        Another relay is at work in the folder.
    ConfigError, StoreError
        The settings, the folder or the queue cannot be used.
    """
    start_log(settings.log.level)
    with _opened(settings, clock) as (queue, forwarder, intake, _):
        spool = _open_spool(settings, intake, queue)
        if spool is not None:
            spool.step()
        for _ in range(queue.count().waiting):
            if forwarder.step() > 0:
                break
        if spool is not None:
            spool.write_answers()
        return RelayReport(counts=queue.count(), most_bytes=settings.most_bytes)


def run_relay(settings: RelaySettings, *, clock: Callable[[], float]) -> None:
    """Take and forward messages until a signal stops the process.

    Raises
    ------
    LedgerError
        Another relay is at work in the folder.
    ConfigError, RecordError, StoreError
        The settings, the folder, the queue or a source cannot be used.
    """
    start_log(settings.log.level)
    notifier = Notifier()
    with _stopping_by_signal(), _opened(settings, clock) as (queue, forwarder, intake, answered):
        threads = _Threads(queue)
        try:
            _start_sources(settings, intake, queue, threads, answered)
            LOG.info("relay started")
            notifier.notify("READY=1")
            while True:
                threads.require_alive()
                seen = queue.n_changes
                if pause := _step(forwarder):
                    queue.wait_for_change(seen, pause)
        except _StoppedError:
            notifier.notify("STOPPING=1")
            LOG.info("stopped; what waits is kept")
        finally:
            threads.stop()


def _step(forwarder: Forwarder) -> float:
    try:
        return forwarder.step()
    except StoreError as error:
        report_event(logging.ERROR, f"nothing is forwarded now: {error}")
        return _RETRY_S


_Answered = list[Callable[[Waiting, Answer], None]]
_Parts = tuple[Queue, Forwarder, Intake, _Answered]


@contextmanager
def _opened(settings: RelaySettings, clock: Callable[[], float]) -> Iterator[_Parts]:
    context = make_context(settings.tls)
    check_folder(settings.state_dir, create=True)
    listeners: _Answered = []

    def note(waiting: Waiting, answer: Answer) -> None:
        for listener in listeners:
            listener(waiting, answer)

    with ExitStack() as stack:
        stack.enter_context(lock_folder(settings.state_dir))
        queue = stack.enter_context(
            closing(Queue(settings.state_dir, most_bytes=settings.most_bytes))
        )
        forwarder = stack.enter_context(
            closing(Forwarder(queue, settings.server, clock=clock, context=context, on_answer=note))
        )
        yield queue, forwarder, Intake(settings, queue, clock=clock, context=context), listeners


def _open_spool(settings: RelaySettings, intake: Intake, queue: Queue) -> Spool | None:
    if settings.spool is None:
        return None
    return Spool(settings.spool.folder, intake, queue, most_bytes=settings.most_message_bytes)


def _start_sources(
    settings: RelaySettings, intake: Intake, queue: Queue, threads: _Threads, listeners: _Answered
) -> None:
    if settings.mqtt is not None:
        from sfumato.device_agent.relay.mqtt_source import SOURCE, MqttSource

        mqtt = MqttSource(settings.mqtt, intake, queue)

        def publish(waiting: Waiting, answer: Answer) -> None:
            if waiting.source == SOURCE:
                mqtt.publish(waiting.device, answer)

        listeners.append(publish)
        threads.start("mqtt", lambda: mqtt.run(threads.stopping))
    if settings.http is not None:
        from sfumato.device_agent.relay.http_source import HttpSource

        http = HttpSource(settings.http, intake)
        threads.start("http", http.serve_forever, end=http.stop)
        if not (is_loopback(settings.http.host) or settings.devices):
            LOG.warning(
                "http: whoever reaches %s can fill the queue; list the keys of your devices",
                settings.http.listen,
            )
    spool = _open_spool(settings, intake, queue)
    if spool is not None and settings.spool is not None:
        pause = settings.spool.poll_s
        threads.start("spool", lambda: _watch(spool, pause, threads.stopping))


def _watch(spool: Spool, pause: float, stopping: threading.Event) -> None:
    failed = False
    while not stopping.is_set():
        try:
            spool.step()
            failed = False
        except StoreError as error:
            if not failed:
                report_event(logging.ERROR, f"spool: {error}")
            failed = True
        stopping.wait(max(pause, _RETRY_S) if failed else pause)


class _Threads:
    """Threads of the sources; an error that ends one of them ends the relay."""

    def __init__(self, queue: Queue) -> None:
        self.stopping = threading.Event()
        self._queue = queue
        self._threads: list[threading.Thread] = []
        self._ends: list[Callable[[], None]] = []
        self._errors: list[Exception] = []

    def start(
        self, name: str, body: Callable[[], None], end: Callable[[], None] = lambda: None
    ) -> None:
        def run() -> None:
            try:
                body()
            except Exception as error:
                self._errors.append(error)
                self._queue.wake()

        # Daemon threads: a request that hangs must not keep the process from ending.
        thread = threading.Thread(target=run, name=name, daemon=True)
        self._threads.append(thread)
        self._ends.append(end)
        thread.start()

    def require_alive(self) -> None:
        if self._errors:
            raise self._errors[0]

    def stop(self) -> None:
        self.stopping.set()
        for end in self._ends:
            end()
        for thread in self._threads:
            thread.join(_RETRY_S)


@contextmanager
def _stopping_by_signal() -> Iterator[None]:
    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise _StoppedError

    numbers = (signal.SIGTERM, signal.SIGINT)
    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
