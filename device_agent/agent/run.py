"""The daemon: one thread owns the state of all studies; the others carry bytes.

Reading, releasing and every decision happen in the main thread. Signals and answers reach it as
calls in one queue, on which it also sleeps.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from queue import Empty, SimpleQueue
from types import FrameType

from sfumato.device_agent.agent.campaign import find_next, list_active, narrow, reads
from sfumato.device_agent.agent.device import Clock, Device, open_device, require_suitable
from sfumato.device_agent.agent.enrol import join_next
from sfumato.device_agent.agent.exchange.network import BackgroundNetwork, Call
from sfumato.device_agent.agent.exchange.study import Study
from sfumato.device_agent.agent.membership import (
    describe_unseen,
    examine_unjoined,
    note_joined,
    require_fit,
)
from sfumato.device_agent.agent.monitoring import (
    LOG,
    Metric,
    Notifier,
    report_event,
    start_log,
    write_metrics,
)
from sfumato.device_agent.agent.policy import require_plan_allowed, require_server_allowed
from sfumato.device_agent.agent.reading.worker import StreamWorker
from sfumato.device_agent.server.connection import make_context
from sfumato.device_agent.settings.agent_settings import Settings
from sfumato.device_agent.sources.settings import StreamSettings
from sfumato.device_agent.store.database import check_folder
from sfumato.device_agent.store.identity import load_next
from sfumato.device_agent.store.key import key_folder, load_digest_key
from sfumato.device_agent.store.outbox import count_sketches
from sfumato.device_agent.store.positions import load_positions
from sfumato.device_agent.store.repair import holding
from sfumato.shared.core.features import feature_table
from sfumato.shared.errors import ConfigError, DiskError, SketchError, TransportError
from sfumato.shared.system import give_back, share_one_heap

_LONGEST_SLEEP_S = 5.0
_GRACE_S = 4
_METRICS_S = 15.0
_PURGE_S = 3600.0
_JOIN_S, _REFUSED_S = 60.0, 3600.0


class _OutOfTimeError(BaseException):
    """Stopping took too long; the current step is broken off, as by a crash."""


def run_daemon(loads: Sequence[Callable[[], Settings]], *, clock: Clock) -> None:
    """Read, release and send until a signal stops the process.

    SIGTERM and SIGINT end it within five seconds; SIGHUP reloads the configurations.

    Parameters
    ----------
    loads
        Load the settings of one study each; called again at SIGHUP.

    Raises
    ------
    LedgerError
        Another agent is at work, or the server knows more than this ledger.
    SketchError
        The state cannot be opened, or a plan cannot be run.
    """
    every = [load() for load in loads]
    for settings in every:
        start_log(settings.log.level, value_counts=settings.log.value_counts)
        check_folder(settings.state_dir, create=False)
        make_context(settings.tls)
    _require_different_studies(every)
    share_one_heap()
    with ExitStack() as stack:
        for folder in dict.fromkeys(settings.state_dir.resolve() for settings in every):
            for message in stack.enter_context(holding(folder)):
                LOG.warning(message)
        active = [
            (phase, settings, load)
            for settings, load in zip(every, loads, strict=True)
            for phase in list_active(settings)
        ]
        devices = [stack.enter_context(open_device(s, report_clock=clock)) for s, _, _ in active]
        for device in devices:
            _require_runnable(device)
        # To verify a plan takes large arrays, once.
        feature_table.cache_clear()
        give_back()
        calls: SimpleQueue[Call] = SimpleQueue()
        studies = [
            _RunningStudy(device, whole, load, clock, calls)
            for device, (_, whole, load) in zip(devices, active, strict=True)
        ]
        daemon = _Daemon(studies, calls, partial(_go_on, stack))
        with _listening(daemon):
            try:
                daemon.run()
            except _OutOfTimeError:
                LOG.warning(
                    "stopped without saving a slow stream: its unsaved records are read again, or "
                    "lost if the source cannot repeat them"
                )


def _go_on(stack: ExitStack, study: _RunningStudy) -> _RunningStudy | None:
    """Join the next phase of a campaign; return its study, or None if that is to be tried later.

    Other studies, and their sources, go on untouched.
    """
    try:
        if not join_next(study.device, study.whole, clock=study.link.clock):
            study.goes_on_at = study.link.timer() + _JOIN_S
            return None
        study.leave()
        following = load_next(study.device.connection, study.device.identity.study)
        assert following is not None, "it was joined"
        device = stack.enter_context(open_device(replace(study.whole, study=following)))
    except (TransportError, DiskError) as error:
        LOG.warning("the next phase is joined later: %s", error)
        study.goes_on_at = study.link.timer() + _JOIN_S
        return None
    except SketchError as error:
        LOG.error("the next phase was not joined: %s", error)
        study.goes_on_at = study.link.timer() + _REFUSED_S
        return None
    LOG.info("joined the next phase of the campaign")
    feature_table.cache_clear()
    give_back()
    return study.follow_with(device)


def _require_different_studies(every: Sequence[Settings]) -> None:
    places = [(settings.state_dir.resolve(), settings.study) for settings in every]
    if len(set(places)) < len(places):
        raise ConfigError(
            "must differ from the study of every other configuration",
            field="study",
            fix="name each study's configuration once",
        )


def _require_runnable(device: Device) -> None:
    if device.plan.releases_count:
        raise ConfigError(
            "cannot be run by the daemon: it hides how many records there are, and a process that "
            "reads all the time shows when they come",
            field="plan",
            fix="start `sfumato-agent once` by a timer instead, at times that no record decides",
        )


@contextmanager
def _listening(daemon: _Daemon) -> Iterator[None]:
    def stop(_signal: int, _frame: FrameType | None) -> None:
        daemon.is_stopping = True
        # A source that waits for its own server would hold us up.
        signal.alarm(_GRACE_S)
        daemon.calls.put(lambda: None)

    def reload(_signal: int, _frame: FrameType | None) -> None:
        daemon.calls.put(daemon.reload)

    def give_up(_signal: int, _frame: FrameType | None) -> None:
        raise _OutOfTimeError

    handlers = {
        signal.SIGTERM: stop,
        signal.SIGINT: stop,
        signal.SIGHUP: reload,
        signal.SIGALRM: give_up,
    }
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        signal.alarm(0)
        for number, handler in before.items():
            signal.signal(number, handler)


class _Daemon:
    def __init__(
        self,
        studies: Sequence[_RunningStudy],
        calls: SimpleQueue[Call],
        go_on: Callable[[_RunningStudy], _RunningStudy | None],
    ) -> None:
        self.calls = calls
        self.is_stopping = False
        self._studies = [*studies]
        self._go_on = go_on
        self._notifier = Notifier()
        self._fed_at = 0.0

    def run(self) -> None:
        for study in self._studies:
            study.start()
        self._notifier.notify("READY=1")
        try:
            while not self.is_stopping:
                for study in [*self._studies]:
                    study.step()
                    if study.may_go_on and (following := self._go_on(study)) is not None:
                        self._studies.append(following)
                        following.start()
                self._feed_watchdog()
                self._make_calls(self._find_pause())
        finally:
            self._notifier.notify("STOPPING=1")
            for study in self._studies:
                study.close()
        LOG.info("stopped; nothing is lost")

    def reload(self) -> None:
        self._notifier.notify(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")
        for study in self._studies:
            study.reload()
        self._notifier.notify("READY=1")

    def _find_pause(self) -> float:
        pause = min(study.find_pause() for study in self._studies)
        if self._notifier.watchdog_s is not None:
            pause = min(pause, self._notifier.watchdog_s)
        return max(pause, 0.0)

    def _feed_watchdog(self) -> None:
        now = time.monotonic()
        if self._notifier.watchdog_s is not None and now >= self._fed_at:
            self._notifier.notify("WATCHDOG=1")
            self._fed_at = now + self._notifier.watchdog_s

    def _make_calls(self, pause: float) -> None:
        """Make the pending calls, waiting for the first one."""
        try:
            self.calls.get(timeout=pause)() if pause else self.calls.get_nowait()()
            while True:
                self.calls.get_nowait()()
        except Empty:
            pass


class _RunningStudy(Study):
    def __init__(
        self,
        device: Device,
        whole: Settings,
        load: Callable[[], Settings],
        clock: Clock,
        calls: SimpleQueue[Call],
    ) -> None:
        super().__init__(
            device,
            clock=clock,
            make_network=lambda connect: BackgroundNetwork(connect, calls),
            report=report_event,
            is_patient=True,
        )
        self.whole = whole
        """The configuration that was accepted last, with the columns of every phase."""
        self.goes_on_at = 0.0
        """When the next phase may be joined, by the timer."""
        self._load = load
        self._calls = calls
        self._workers: list[StreamWorker] = []
        self._workers = self._replace_workers(device.settings)
        self._metrics_at = self._purges_at = 0.0

    @property
    def may_go_on(self) -> bool:
        """True if the next phase of the campaign is there, and nothing of this one is awaited."""
        device = self.device
        if self.poller.notice.next_study is None or self.link.timer() < self.goes_on_at:
            return False
        if find_next(device.connection, device.identity.study, device.plan) is None:
            return False
        if load_next(device.connection, device.identity.study) is not None:
            return False
        # A phase that is left out is over at once.
        return not device.reads or all(worker.is_settled for worker in self._workers)

    def leave(self) -> None:
        """Read no more for this phase: it has ended, with the window that was open."""
        for worker in self._workers:
            worker.discard()
        self._workers = []
        self.link.device = replace(self.device, reads=False)

    def follow_with(self, device: Device) -> _RunningStudy:
        """Return the study of the next phase, of the same configuration."""
        return _RunningStudy(device, self.whole, self._load, self.link.clock, self._calls)

    def start(self) -> None:
        LOG.info("started with %d stream(s)", len(self._workers))
        self.poller.report_notice()

    def close(self) -> None:
        """Save every open window, and close the connection."""
        super().close()
        for worker in self._workers:
            worker.close()
        self._write_metrics()

    def reload(self) -> None:
        """Reload the configuration; a bad one changes nothing."""
        try:
            whole = replace(self._load(), study=self.device.identity.study)
            settings = narrow(whole, self.device.plan)
            self._require_reloadable(settings)
        except SketchError as error:
            LOG.error("the configuration was not reloaded: %s", error)
        else:
            self.whole = whole
            takes_part = reads(settings, self.device.plan, self.device.connection)
            self.use(replace(self.device, settings=settings, reads=takes_part))
            LOG.info("the configuration was reloaded")

    def step(self) -> None:
        """Let each part do what is due, without waiting for any answer."""
        now = self.link.timer()
        if self._may_read:
            for worker in self._workers:
                if worker.due_at <= now:
                    worker.turn()
        if not self.poll() and self.poller.may_send:
            self.sender.step()
        self.puller.step()
        if now >= self._purges_at:
            self.purge()
            self._purges_at = now + _PURGE_S
        if now >= self._metrics_at:
            self._write_metrics()
            self._metrics_at = now + _METRICS_S

    @property
    def _may_read(self) -> bool:
        return self.poller.may_release and not self.key_changer.is_offering

    def find_pause(self) -> float:
        """Return the seconds until something is due."""
        due = [worker.due_at for worker in self._workers] if self._may_read else []
        pause = min([_LONGEST_SLEEP_S, *(at - self.link.timer() for at in due)])
        return pause if self.link.network.is_busy else min(pause, 1.0)

    def _require_reloadable(self, settings: Settings) -> None:
        old = self.device.settings
        for name, value, now in (
            ("state_dir", settings.state_dir, old.state_dir),
            ("study", settings.study, old.study),
            ("labels", dict(settings.labels), dict(old.labels)),
        ):
            if value != now:
                raise ConfigError(
                    "cannot change while the agent runs", field=name, fix="stop it, and start anew"
                )
        for stream in old.streams:
            if stream.source.kind == "stdin" and stream not in settings.streams:
                raise ConfigError(
                    f"of stream {stream.name} is being read and cannot be opened again",
                    field="standard input",
                    fix="stop the agent, and start anew",
                )
        make_context(settings.tls)
        require_server_allowed(settings)
        require_plan_allowed(settings, self.device.plan)
        require_suitable(settings, self.device.plan)
        self._let_join(settings)

    def _let_join(self, settings: Settings) -> None:
        """Let streams join that were added or changed: to reload is the owner's decision."""
        device, plan = self.device, self.device.plan
        runs = examine_unjoined(
            settings,
            plan,
            known=load_positions(device.connection),
            digest_key=load_digest_key(key_folder(settings.state_dir, settings.study)),
            now=self.read_clocks().latest_believable,
        )
        joining = require_fit(runs, lambda run: None)
        note_joined(settings, joining)
        for run in joining.values():
            if run.unseen:
                LOG.warning(describe_unseen(run, plan), extra={"stream": run.stream})

    def use(self, device: Device) -> None:
        """Go on under other settings or another key; streams as they were keep their place."""
        super().use(device)
        log = device.settings.log
        start_log(log.level, value_counts=log.value_counts)
        self._workers = self._replace_workers(device.settings)
        self._metrics_at = 0.0

    def _replace_workers(self, settings: Settings) -> list[StreamWorker]:
        if not self.device.reads:
            return []
        kept = {w.name: w for w in self._workers if w.settings in settings.streams}
        for worker in self._workers:
            if worker.name in kept:
                worker.use(self.device)
            else:
                worker.close()
        return [kept.get(stream.name) or self._make_worker(stream) for stream in settings.streams]

    def _make_worker(self, stream: StreamSettings) -> StreamWorker:
        return StreamWorker(
            self.device,
            stream,
            clocks=self.read_clocks,
            clock=self.link.clock,
            timer=self.link.timer,
        )

    def stop_stream(self, name: str) -> None:
        """Stop reading a stream that an answer has suspended."""
        for worker in self._workers:
            if worker.name == name:
                worker.stop("is suspended")

    def _write_metrics(self) -> None:
        path = self.device.settings.metrics.path
        if path is None or load_next(self.device.connection, self.device.identity.study):
            return  # of two phases the present one writes it
        try:
            write_metrics(path, self._gather())
        except OSError as error:
            LOG.error("metrics: %s cannot be written (%s)", path, error.strerror)

    def _gather(self) -> Iterator[Metric]:
        counts = count_sketches(self.device.connection)
        for state in ("waiting", "sent", "shelved"):
            name, text = f"sketches_{state}", f"Sketches that are {state}."
            yield Metric(name, "gauge", text, [(None, getattr(counts, state))])
        text = "Time of the server's last answer about this device; 0 for never."
        answered_at = self.poller.answered_at or 0.0
        yield Metric("server_answered_timestamp_seconds", "gauge", text, [(None, answered_at)])
        text = "Whether the study is open, as far as known; otherwise nothing is released."
        is_open = float(self.poller.notice.may_release)
        yield Metric("study_open", "gauge", text, [(None, is_open)])
        samples = [(w.name, float(w.problem is None)) for w in self._workers]
        yield Metric("stream_ok", "gauge", "Whether the stream can be read.", samples)
        samples = [(w.name, w.n_released) for w in self._workers]
        text = "Windows released since the start."
        yield Metric("windows_released_total", "counter", text, samples)
        counted = [] if self.device.plan.hides_counts else ["records_read"]
        # The latter depend on values, are exact, and the file is there to be sent on.
        if counted and self.device.settings.metrics.value_counts:
            counted += ["unsketchable", "out_of_bounds"]
        for name in counted:
            text = f"Records since the start: {name.replace('_', ' ')}."
            samples = [(w.name, getattr(w.total(), name)) for w in self._workers]
            yield Metric(f"{name}_total", "counter", text, samples)
