"""The agent against a model, with faults at every write.

What is released is compared with the records themselves: the plan spends so much that its noise
is next to nothing, so each sketch shows exactly which records are in it.
"""

import os
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from sfumato.device_agent.agent.maintenance import lift_suspension
from sfumato.device_agent.agent.once import OnceReport
from sfumato.device_agent.store.journal import read_journal
from sfumato.shared.core import SketchAccumulator
from sfumato.shared.errors import BudgetExceededError, DuplicateUploadError, SketchError
from sfumato.shared.plan import WindowRule
from sfumato.shared.wire import PayloadForm, decode_message, problem_types
from tests.device_agent.conftest import BASE, HOUR, make_plan
from tests.device_agent.daemons import query
from tests.device_agent.driver import Driver
from tests.device_agent.faults import Crash, Faults
from tests.device_agent.serving import Server

NOW = BASE + 1000 * HOUR
EPSILON = 10**9
MOST_RELEASES = 7
NOISE = 60
"""No coordinate's noise is larger, but once in more releases than all tests draw."""
LOUD: dict[str, Any] = {
    "epsilon": Fraction(EPSILON),
    "mechanism": "discrete-laplace",
    "window": WindowRule(kind="time", origin=0, length_s=HOUR),
}
PLAN = make_plan(least_records=3, most_records=20, **LOUD)
PROBLEMS = [problem.error for problem in problem_types()]


class Agents(RuleBasedStateMachine):
    """Records arrive, windows close, and everything goes wrong that can."""

    folders: Iterator[Path]
    faults: Faults
    plan = PLAN

    def __init__(self) -> None:
        super().__init__()
        self.server = Server(self.plan, clock=lambda: NOW)
        self.server.start()
        folder = next(self.folders)
        folder.mkdir()
        self.offset = 0.0
        self.driver = Driver(
            folder,
            self.server,
            per_record=str(self.plan.release.epsilon),
            lifetime=str(MOST_RELEASES * self.plan.release.epsilon),
            source='replaced = "join_successors"',
            clock=lambda: NOW + self.offset,
        )
        self.faults.disarm()
        self.driver.enrol()
        self.values: list[tuple[float, float]] = []
        self.n_untimed = 0
        self.slot = 0
        self.n_rotated = self.n_writes = self.n_restored = 0
        self.is_up = True
        self.has_lost = False  # the server, restored from a backup
        self.bodies: dict[int, bytes] = {}
        self.refused: set[int] = set()
        """Numbers under which the server may say that it holds another sketch."""
        self.append(n=3, slots=0)
        self.once()

    @rule(n=st.integers(1, 6), slots=st.integers(0, 2))
    def append(self, n: int, slots: int) -> None:
        self.slot += slots
        with self.driver.records.open("a") as file:
            for _ in range(n):
                i = len(self.values)
                x, y = f"{(i * 0.37) % 15 - 7:.3f}", f"{(i * 0.71) % 13 - 6:.3f}"
                fields = self._note_values(i, x, y)
                file.write(f"{BASE + self.slot * HOUR},{','.join(fields)}\n")
        self._touch()

    def _note_values(self, i: int, x: str, y: str) -> tuple[str, str]:
        """Note the values of a record, and return its fields."""
        self.values.append((float(x), float(y)))
        return x, y

    @rule(
        line=st.sampled_from(["garbage", "1,x", ",y,z,1", "1700000000,nan,1", '"', "", "time,x,y"])
    )
    def append_garbage(self, line: str) -> None:
        with self.driver.records.open("a") as file:
            file.write(f"{line}\n")
        self._touch()
        self._note_garbage(has_time=line.startswith("1700000000"))

    def _note_garbage(self, *, has_time: bool) -> None:
        # Its second value is one, where only the first cannot be read.
        self.values.append((np.nan, 1.0 if has_time else np.nan))
        self.n_untimed += not has_time

    @rule()
    def rotate(self) -> None:
        self.n_rotated += 1
        path = self.driver.records
        path.rename(path.with_name(f"records.csv.{self.n_rotated}"))
        path.write_text("time,x,y\n")
        self._touch()

    def _touch(self) -> None:
        # Files are ordered by when they were written; clocks of file systems are coarse.
        self.n_writes += 1
        written = (NOW * 1000 + self.n_writes) * 1_000_000
        os.utime(self.driver.records, ns=(written, written))

    @rule(hours=st.sampled_from([0, 1, 5000, -5000, -1000]), whose=st.sampled_from("dsb"))
    def jump(self, hours: int, whose: str) -> None:
        if whose in "db":
            self.offset = hours * HOUR
        if whose in "sb":
            self.server.clock_offset = hours * HOUR

    @rule(answer=st.sampled_from([*PROBLEMS, 500, 429, 200, None, "up"]), ahead=st.integers(0, 1))
    def answer(self, answer: Any, ahead: int) -> None:
        """Let the server answer one of the next sketches in another way; None is a lost answer."""
        sequence = len(self._events()) - 1 + ahead
        if answer == "up":
            self.server.answers.clear()
        elif isinstance(answer, type):
            self.refused |= {sequence} if answer is DuplicateUploadError else set()
            self.server.answers[sequence] = answer("is refused by this test", field="sketch")
        else:
            self.server.answers[sequence] = answer

    @rule()
    def switch(self) -> None:
        """Take the server away, or bring it back."""
        self.server.stop() if self.is_up else self.server.start()
        self.is_up = not self.is_up

    @rule(n_kept=st.integers(0, 3))
    def restore_server(self, n_kept: int) -> None:
        kept = list(self.server.stored.items())[:n_kept]
        self.server.stored = dict(kept)
        # Another one each time, as a server draws it.
        self.n_restored += 1
        self.server.generation = f"{self.n_restored:031x}r"
        self.has_lost = True

    @rule()
    def resume(self) -> None:
        if self._is_suspended():
            lift_suspension(self.driver.settings, stream="meter")

    @rule()
    def once(self) -> None:
        report = self.driver.once()
        self._note(report)

    @rule(kind=st.sampled_from(["before", "after", "full"]), at=st.integers(1, 40))
    def once_with_a_fault(self, kind: str, at: int) -> None:
        self.faults.arm(kind, at)
        try:
            self._note(self.driver.once())
        except Crash:
            pass
        except SketchError:
            assert kind == "full"
        finally:
            self.faults.disarm()

    def _note(self, report: OnceReport) -> None:
        ((generation,),) = query(
            self.driver.state, "SELECT value FROM meta WHERE key = 'generation'"
        )
        if generation == self.server.generation and not report.outbox.waiting:
            self.has_lost = False

    def _events(self) -> list[tuple[Any, ...]]:
        statement = "SELECT stream, sequence FROM events WHERE copy = 0 ORDER BY id"
        return query(self.driver.state, statement)

    def _n_spent(self) -> int:
        """Count releases, also those that another copy has made as far as the server says."""
        ((n_spent,),) = query(self.driver.state, "SELECT COALESCE(SUM(count), 0) FROM events")
        return int(n_spent)

    def _is_copied(self) -> bool:
        """Return whether the server said that it holds another sketch of the same number."""
        return len(self._events()) < self._n_spent()

    def _is_suspended(self) -> bool:
        found = query(self.driver.state, "SELECT suspended FROM streams")
        return bool(found and found[0][0])

    @invariant()
    def one_sketch_has_one_form(self) -> None:
        seen: dict[bytes, bytes] = {}
        for sketch_id, body in self.server.received:
            assert seen.setdefault(sketch_id, body) == body

    @invariant()
    def the_ledger_is_what_was_released_and_within_the_budget(self) -> None:
        events = self._events()
        assert events == query(
            self.driver.state, "SELECT stream, sequence FROM outbox ORDER BY sequence"
        )
        assert [sequence for _, sequence in events] == list(range(len(events)))
        assert len(events) <= MOST_RELEASES
        # Of a copy it may hear when all is spent.
        assert self._n_spent() - len(events) <= len(self.refused)
        # Each record may be in a sketch of the copy, and one sketch is all that its budget allows.
        copies = query(self.driver.state, "SELECT copy FROM events ORDER BY id")
        assert copies == sorted(copies)

    @invariant()
    def what_was_sent_is_in_the_journal(self) -> None:
        releases = read_journal(self.driver.state).iterate_releases()
        noted = {release["sketch_id"] for release in releases}
        assert {sketch_id.hex() for sketch_id, _ in self.server.received} <= noted

    @invariant()
    def what_is_acknowledged_is_stored(self) -> None:
        # Bytes are dropped thirty days after they were sent, and cannot be sent again then.
        sent = query(
            self.driver.state,
            "SELECT sketch_id FROM outbox WHERE state = 'sent' AND message IS NOT NULL",
        )
        if not self.has_lost:
            assert {row[0] for row in sent} <= set(self.server.stored)

    @invariant()
    def each_sketch_holds_the_next_records_and_no_other(self) -> None:
        first = 0
        rows = query(self.driver.state, "SELECT sequence, message FROM outbox ORDER BY sequence")
        for sequence, body in rows:
            if sequence not in self.bodies:
                self.bodies[sequence] = body
                self._require_sum(body, first)
            # By a clock that jumped, sent bytes are old enough to be dropped.
            assert body in (self.bodies[sequence], None)
            first += decode_message(self.bodies[sequence]).header.n_records or 0
        rows = query(self.driver.state, "SELECT first_record FROM streams")
        assert not rows or rows == [(first,)]
        ((n_open,),) = query(
            self.driver.state, "SELECT COALESCE(SUM(n_records), 0) FROM open_windows"
        )
        assert first + n_open <= len(self.values)

    def _require_sum(self, body: bytes, first: int) -> None:
        message = decode_message(body)
        n_records = message.header.n_records
        assert n_records is not None
        device_id = next(iter(self.server.devices))
        block = message.header.block or 0
        statistic = self.plan.statistic_of(device_id + b"/meter", block=block)
        exact = SketchAccumulator(statistic, first_record=first)
        exact.add(np.array(self.values[first : first + n_records]))
        (released,) = PayloadForm.of(self.plan).decode(message.payload)
        assert np.abs(released - exact.sums).max() <= self.noise

    @property
    def noise(self) -> int:
        """The largest noise of a coordinate; counts have none at all."""
        return NOISE if self.plan.value_range[0] else 0

    def teardown(self) -> None:
        """When all is well again everything is read and sent, without anybody's help."""
        try:
            self.offset = self.server.clock_offset = 0.0
            self.server.answers.clear()
            if not self.is_up:
                self.switch()
            if self._is_suspended():
                lift_suspension(self.driver.settings, stream="meter")
            for _ in range(3):
                report = self.driver.once()
            assert report.outbox.waiting == 0
            if self._is_copied():
                # What another copy may have released too is beyond the budget of a record.
                assert all(isinstance(error, BudgetExceededError) for error in report.errors)
            elif self._n_spent() < MOST_RELEASES:
                assert report.errors == []
                self._require_all_counted()
            self.each_sketch_holds_the_next_records_and_no_other()
            self.one_sketch_has_one_form()
        finally:
            self.server.stop()

    def _require_all_counted(self) -> None:
        rows = query(
            self.driver.state,
            "SELECT (SELECT COALESCE(SUM(n_records), 0) FROM outbox)"
            " + (SELECT COALESCE(SUM(n_records), 0) FROM open_windows)",
        )
        assert rows == [(len(self.values),)]
