"""One stream in the daemon: read what comes, checkpoint often, retry after an error."""

from __future__ import annotations

from collections.abc import Callable

from sfumato.device_agent.agent.device import Clock, Device
from sfumato.device_agent.agent.monitoring import LOG, describe_defect, warn_of_values
from sfumato.device_agent.agent.reading.windows import OUTBOX_IS_FULL, ReadCounts, WindowReader
from sfumato.device_agent.sources.settings import StreamSettings
from sfumato.device_agent.windows import Clocks
from sfumato.shared.errors import BudgetExceededError, RecordError, SketchError, StoreError

_TICK_S = 1.0
_FULL_S = 10.0
_FIRST_RETRY_S = 5.0
_LONGEST_RETRY_S = 600.0
# After a crash records behind the last checkpoint are read again, or lost where that cannot be.
_SAVE_S, _SAVE_RECORDS = 10.0, 1_000_000
_SAVE_S_ONCE, _SAVE_RECORDS_ONCE = 1.0, 10_000


class StreamWorker:
    """Reads one stream in turns with others; no error of one ends another.

    Parameters
    ----------
    clocks, clock
        As ``WindowReader`` takes them.
    timer
        Monotonic seconds.
    """

    def __init__(
        self,
        device: Device,
        settings: StreamSettings,
        *,
        clocks: Callable[[], Clocks],
        clock: Clock,
        timer: Callable[[], float],
    ) -> None:
        self.settings = settings
        self.counts = ReadCounts()
        """Counts of readers that were closed."""
        self.n_released = 0
        self.problem: str | None = None
        """The problem that keeps the stream from being read now."""
        self._device = device
        self._clocks = clocks
        self._clock = clock
        self._timer = timer
        self._reader: WindowReader | None = None
        self._is_over = self._is_held_up = False
        self._has_caught_up = self._is_settled = self._is_spent = False
        self._retry_s = _FIRST_RETRY_S
        self._reads_at = self._tends_at = self._saved_at = timer()
        self._n_notes = self._n_unusable = 0

    @property
    def name(self) -> str:
        """The stream's name."""
        return self.settings.name

    @property
    def due_at(self) -> float:
        """Time of the next turn that is worth it, by the timer."""
        if self._is_over and self._reader is None:
            return float("inf")
        return min(self._reads_at, self._tends_at) if self._reader else self._reads_at

    @property
    def consumes(self) -> bool:
        """True if records that were read cannot be read again."""
        return self._reader is not None and self._reader.source.guarantee.consumes

    @property
    def is_settled(self) -> bool:
        """True if the plan's times are over and all that the source holds of them was released.

        So it is too where the budget or the plan allows no further release, or the stream was
        stopped. A source that cannot be read now is not settled, nor is a full outbox.
        """
        is_stopped = self._is_over and self._reader is None
        return is_stopped or self._is_spent or self._is_settled

    def use(self, device: Device) -> None:
        """Apply other settings of the same device, and read soon."""
        self._device = device
        if self._reader is not None:
            self._reader.use(device)
        self._reads_at = self._timer()

    def turn(self) -> None:
        """Read one batch if there is one, close windows that are over, checkpoint if it is time.

        After any error the half-done sum is dropped and never saved: records whose position was not
        noted yet would be counted twice.
        """
        try:
            reader = self._reader or self._open()
            if self._timer() >= self._reads_at:
                self._read(reader)
            if self._timer() >= self._tends_at:
                self._tend(reader)
        except SketchError as error:
            self._fail(str(error))
        except Exception as error:
            # Sources are many, and some are not ours: the other streams go on.
            self._fail(describe_defect(error))
        except BaseException:
            self._drop()
            raise

    def close(self) -> None:
        """Save the open window and close the source."""
        try:
            self._save()
        except SketchError as error:
            LOG.error(str(error), extra={"stream": self.name})
        self._drop()

    def discard(self) -> None:
        """Close the source, and forget what is open: it was erased with its phase."""
        self._drop()
        self._is_over = True

    def stop(self, reason: str) -> None:
        """Save, and read no more."""
        self.close()
        self._is_over, self.problem = True, reason

    def total(self) -> ReadCounts:
        """Return what was read since the start."""
        return self.counts + self._reader.counts if self._reader else self.counts

    def _open(self) -> WindowReader:
        reader = WindowReader(self._device, self.settings, clocks=self._clocks, clock=self._clock)
        self._n_notes = self._n_unusable = 0
        reader.open()
        self._reader = reader
        self._saved_at = self._timer()
        return reader

    def _read(self, reader: WindowReader) -> None:
        source = reader.source
        if reader.is_outbox_full():
            self._report_problem(OUTBOX_IS_FULL)
            self._reads_at = self._timer() + _FULL_S
            return
        try:
            # Asked first: what is taken from a source that cannot be read again would be lost.
            reader.require_affordable()
        except BudgetExceededError as error:
            self._is_spent = True
            self._wait(str(error))
            return
        try:
            batch = source.read_batch()
        except RecordError:
            self._save()
            raise
        self._has_caught_up = batch is None
        if batch is not None:
            reader.add(batch)
        else:
            self._reads_at = self._timer() + source.pause_s
            if source.ended and not self._is_over:
                self._is_over = True
                LOG.info("the source has ended", extra={"stream": self.name})
        if self.problem is not None:
            LOG.info("the source can be read again", extra={"stream": self.name})
        self.problem, self._retry_s = None, _FIRST_RETRY_S
        if self._is_over:
            self._reads_at = float("inf")

    def _tend(self, reader: WindowReader) -> None:
        self._tends_at = self._timer() + _TICK_S
        try:
            has_closed = reader.close_over()
            self._is_settled = self._has_caught_up and not has_closed and reader.is_settled()
        except (BudgetExceededError, StoreError) as error:
            self._is_spent = isinstance(error, BudgetExceededError)
            # What was added is still in memory, whole.
            self._wait(str(error))
        difference = reader.describe_held_up()
        if difference and not self._is_held_up:
            LOG.error(difference, extra={"stream": self.name})
        self._is_held_up = difference is not None
        most_s, most = (_SAVE_S, _SAVE_RECORDS)
        if self.consumes:
            most_s, most = (_SAVE_S_ONCE, _SAVE_RECORDS_ONCE)
        if reader.n_unsaved >= most or self._timer() - self._saved_at >= most_s:
            try:
                self._save()
            except StoreError as error:
                # The same: a source that cannot be read again must not be closed for a full disk.
                self._wait(str(error))
        self._report(reader)

    def _save(self) -> None:
        if self._reader is not None and self._reader.n_unsaved:
            self._reader.checkpoint()
        self._saved_at = self._timer()

    def _report(self, reader: WindowReader) -> None:
        """Log what is new: releases, notes of the source, and what could not be sketched."""
        where, found = {"stream": self.name}, reader.source.report
        for note in found.notes[self._n_notes :]:
            LOG.warning(note, extra=where)
        self._n_notes = len(found.notes)
        released, reader.summary.released = reader.summary.released, 0
        if not released:
            return
        self.n_released += released
        LOG.info("%d window(s) released", released, extra=where)
        if self._device.plan.hides_counts and not self._device.settings.log.value_counts:
            return
        for warning in reader.take_warnings():
            warn_of_values(warning, self.name)
        if found.n_unusable > self._n_unusable:
            self._n_unusable = found.n_unusable
            warn_of_values(
                f"{self._n_unusable} record(s) since the start have a value that is missing or "
                "cannot be read",
                self.name,
            )

    def _fail(self, problem: str) -> None:
        """Close the reader, whose sum may be incomplete, and begin at what is stored later."""
        was_open = self._reader is not None
        self._drop()
        self._wait(problem)
        # What is left of standard input has lost its header, and perhaps the half of a line.
        self._is_over = was_open and self.settings.source.kind == "stdin"

    def _wait(self, problem: str) -> None:
        """Report a problem once, and retry with growing pauses."""
        self._report_problem(problem)
        self._reads_at = self._timer() + self._retry_s
        self._retry_s = min(2 * self._retry_s, _LONGEST_RETRY_S)

    def _report_problem(self, problem: str) -> None:
        if problem != self.problem:
            LOG.error(problem, extra={"stream": self.name})
        self.problem = problem

    def _drop(self) -> None:
        if self._reader is None:
            return
        self.counts = self.total()
        self.n_released += self._reader.summary.released
        self._reader.close()
        self._reader = None
        self._has_caught_up = self._is_settled = False
