"""The agent against a model, with faults at every write: what it must keep, whatever happens.

What is released is compared with the records themselves: the plan spends so much that its noise
is next to nothing, so each sketch shows exactly which records are in it.
"""

import functools
import itertools
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from fractions import Fraction
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from device_agent.agent import device
from device_agent.agent.exchange import sender
from device_agent.agent.maintenance import lift_suspension
from device_agent.agent.once import OnceReport
from device_agent.server.messages import UploadOutcome
from device_agent.server.transport import ServerClient
from device_agent.store import streams
from device_agent.store.journal import Journal, read_journal
from device_agent.store.outbox import offer_sketch
from shared.core import SketchAccumulator
from shared.errors import DuplicateUploadError, SketchError
from shared.plan import WindowRule
from shared.wire import PayloadForm, SketchMessage, decode_message, problem_types
from tests.device_agent.conftest import make_plan
from tests.device_agent.daemons import query
from tests.device_agent.driver import BASE, HOUR, Driver
from tests.device_agent.faults import Crash, Faults, injecting
from tests.device_agent.serving import Server
from tests.soak import small_and_soak

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
SPLIT = make_plan(least_records=3, most_records=20, frequencies_per_sketch=2, **LOUD)
OF_DEVICES = make_plan(unit="device", most_records=4, **LOUD)
REPORTS = make_plan(
    release="phase.v1",
    least_records=None,
    most_records=None,
    most_sketches_per_device=MOST_RELEASES + 1,
    window=LOUD["window"],
)
# The clocks of the machine jump by up to 5000 hours, and it knows no study that has not begun.
BOUNDS = WindowRule(kind="time", origin=BASE - 9000 * HOUR, length_s=HOUR, end=BASE + 1000 * HOUR)
BOUNDED = make_plan(
    least_records=3,
    most_records=20,
    **(LOUD | {"window": BOUNDS, "late_rule": "leave-out-outside"}),
)
PROBLEMS = [problem.error for problem in problem_types()]


class ClockedServer(Server):
    """A server with a clock of its own."""

    def now(self) -> float:
        return NOW + self.clock_offset


class Agents(RuleBasedStateMachine):
    """Records arrive, windows close, and everything goes wrong that can."""

    folders: Iterator[Path]
    faults: Faults
    plan = PLAN

    def __init__(self) -> None:
        super().__init__()
        self.server = ClockedServer(self.plan)
        self.server.start()
        folder = next(self.folders)
        folder.mkdir()
        self.offset = 0.0
        self.driver = Driver(
            folder,
            self.server,
            budget=f'per_record = "{self.plan.release.epsilon}"\n'
            f'lifetime = "{MOST_RELEASES * self.plan.release.epsilon}"',
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
        self.has_jumped = False  # a clock, to an hour that is past
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
                x, y = (i * 0.37) % 15 - 7, (i * 0.71) % 13 - 6
                self.values.append((float(f"{x:.3f}"), float(f"{y:.3f}")))
                file.write(f"{BASE + self.slot * HOUR},{x:.3f},{y:.3f}\n")
        self._touch()

    @rule(
        line=st.sampled_from(["garbage", "1,x", ",y,z,1", "1700000000,nan,1", '"', "", "time,x,y"])
    )
    def append_garbage(self, line: str) -> None:
        with self.driver.records.open("a") as file:
            file.write(f"{line}\n")
        self._touch()
        self._note_garbage(has_time=line.startswith("1700000000"))

    def _note_garbage(self, *, has_time: bool) -> None:
        self.values.append((np.nan, np.nan))
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
        self.has_jumped |= hours < 0
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

    def _events(self) -> list[tuple[object, ...]]:
        statement = "SELECT stream, sequence FROM events WHERE copy = 0 ORDER BY id"
        return query(self.driver.state, statement)

    def _n_spent(self) -> int:
        """Count releases, also those that another copy has made as far as the server says."""
        ((n_spent,),) = query(self.driver.state, "SELECT COALESCE(SUM(count), 0) FROM events")
        return int(str(n_spent))

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
            assert isinstance(sequence, int)
            if sequence not in self.bodies:
                assert isinstance(body, bytes)
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
        assert first + int(str(n_open)) <= len(self.values)

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
        assert np.abs(released - exact.sums).max() <= NOISE

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
            if self._n_spent() < MOST_RELEASES:
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


class SplitAgents(Agents):
    """A sketch carries some of the features."""

    plan = SPLIT


class BoundedAgents(Agents):
    """Records of other times, and those without a readable one, are as if they were not there."""

    plan = BOUNDED

    def _note_garbage(self, *, has_time: bool) -> None:
        if has_time:
            super()._note_garbage(has_time=True)

    @rule(n=st.integers(1, 6), time=st.sampled_from([BOUNDS.origin - 1, BOUNDS.end, 0, 1e12]))
    def append_outside(self, n: int, time: float) -> None:
        with self.driver.records.open("a") as file:
            file.write(f"{time},3.0,3.0\n" * n)
        self._touch()


class PersonalAgents(Agents):
    """A slot has one sketch: the mean of its first records."""

    plan = OF_DEVICES

    def _note_garbage(self, *, has_time: bool) -> None:
        # What has no time joins no window.
        if has_time:
            super()._note_garbage(has_time=True)

    @invariant()
    def each_sketch_holds_the_next_records_and_no_other(self) -> None:
        """Each is the mean of a run of records behind those of the sketch before it."""
        first, last_slot = 0, -1
        rows = query(self.driver.state, "SELECT sequence, message FROM outbox ORDER BY sequence")
        for sequence, body in rows:
            assert isinstance(sequence, int)
            if sequence not in self.bodies:
                assert isinstance(body, bytes)
                self.bodies[sequence] = body
            assert body in (self.bodies[sequence], None)
            message = decode_message(self.bodies[sequence])
            assert message.header.n_records == 1
            slots = message.header.slots
            assert slots is not None
            assert slots[0] == slots[1] > last_slot
            last_slot = slots[1]
            first = self._find_end(message, first)

    def _find_end(self, message: SketchMessage, first: int) -> int:
        """Return the place behind the first run of records that a sketch is the mean of."""
        (released,) = PayloadForm.of(self.plan).decode(message.payload)
        statistic = self.plan.statistic_of(b"")
        for stop, joined in self._find_runs(first):
            exact = SketchAccumulator(statistic)
            exact.add(np.array(joined))
            mean = self.plan.finish_sum(exact.sums, len(joined))
            if np.abs(released - mean).max() <= NOISE:
                return stop
        raise AssertionError(f"sketch {message.header.sequence} is the mean of no records")

    def _find_runs(self, first: int) -> Iterator[tuple[int, list[tuple[float, float]]]]:
        """Yield the end of each run of records, and those that join one window.

        Garbage may come late, and is then left out from between the others. So are records read
        while all clocks are behind, for no record is believed to be from the future.
        """
        for start in range(first, len(self.values)):
            for stop in range(start + 1, len(self.values) + 1):
                run = self.values[start:stop]
                whole = [record for record in run if not np.isnan(record[0])]
                if len(whole) > self.plan.most_records:
                    break
                for n_garbage in range(len(run) - len(whole) + 1):
                    joined = [*whole, *[(np.nan, np.nan)] * n_garbage]
                    if 0 < len(joined) <= self.plan.most_records:
                        yield stop, joined
        if self.has_jumped:
            yield from self._find_runs_with_holes(first)

    def _find_runs_with_holes(self, first: int) -> Iterator[tuple[int, list[tuple[float, float]]]]:
        for start in range(first, len(self.values)):
            later = range(start + 1, min(start + 10, len(self.values)))
            for n_later in range(self.plan.most_records):
                for chosen in itertools.combinations(later, n_later):
                    joined = (start, *chosen)
                    yield joined[-1] + 1, [self.values[i] for i in joined]

    def _require_all_counted(self) -> None:
        """Nothing is left to be read; what was left out is nowhere."""


class Phones(PersonalAgents):
    """A slot has one report, and its noise hides which record it is of."""

    plan = REPORTS

    def _find_end(self, message: SketchMessage, first: int) -> int:
        assert len(message.payload) == self.plan.payload_bytes
        return first


KINDS = {"bounded": BoundedAgents, "split": SplitAgents, "means": PersonalAgents, "reports": Phones}


def explore(
    root: Path,
    *,
    n_examples: int,
    n_steps: int,
    first: int | None = None,
    of: Any = Agents,
    **choices: Any,
) -> None:
    with injecting() as injected, pytest.MonkeyPatch.context() as patch:
        # Reading the system's certificates takes longer than all the rest of a run.
        patch.setattr(httpx, "Client", functools.partial(httpx.Client, verify=False))

        class Machine(of):  # type: ignore[misc]
            folders = (root / str(i) for i in itertools.count())
            faults = injected

        run_state_machine_as_test(
            Machine if first is None else seed(first)(Machine),
            settings=settings(
                max_examples=n_examples,
                stateful_step_count=n_steps,
                deadline=None,
                suppress_health_check=list(HealthCheck),
                **choices,
            ),
        )


def search(root: Path, *, soon: int) -> None:
    """Make many short explorations, for each long one begins with its smallest examples.

    The one of the seed ``soon`` is made before all others.
    """
    for number, first in enumerate([soon, *range(40)]):
        folder = root / str(number)
        folder.mkdir()
        explore(folder, n_examples=12, n_steps=40, first=first, phases=[Phase.generate])


@small_and_soak(
    "choices",
    {"n_examples": 12, "n_steps": 22, "derandomize": True},
    {"n_examples": 1000, "n_steps": 50},
)
def test_whatever_goes_wrong_each_record_is_released_once_or_still_waits(
    choices: dict[str, Any], tmp_path: Path
) -> None:
    explore(tmp_path, **choices)


@small_and_soak(
    "choices",
    {"n_examples": 5, "n_steps": 20, "derandomize": True},
    {"n_examples": 300, "n_steps": 50},
)
@pytest.mark.parametrize("kind", list(KINDS))
def test_so_it_is_for_bounded_studies_sketches_of_some_features_means_and_reports(
    kind: str, choices: dict[str, Any], tmp_path: Path
) -> None:
    explore(tmp_path, of=KINDS[kind], **choices)


def _forget_position(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(streams, "write_positions", lambda *_: None)


def _forget_event(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(streams, "append_event", lambda *_: None)


def _commit_bit_by_bit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(streams, "transaction", lambda _: nullcontext())


def _believe_every_answer(patch: pytest.MonkeyPatch) -> None:
    def put(self: ServerClient, **options: Any) -> UploadOutcome:
        real(self, **options)
        return UploadOutcome(action=None)

    real = ServerClient.put_sketch
    patch.setattr(ServerClient, "put_sketch", put)


def _draw_again_before_sending(patch: pytest.MonkeyPatch) -> None:
    count = itertools.count()

    def offer(connection: sqlite3.Connection, sketch_id: bytes, *, now: float) -> bytes:
        return offer_sketch(connection, sketch_id, now=now)[:-1] + bytes([next(count) % 256])

    patch.setattr(sender, "offer_sketch", offer)


def _ignore_the_budget(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(globals(), "MOST_RELEASES", 3)  # few steps spend so much
    patch.setattr(device, "require_within_budget", lambda *_, **__: None)


def _send_before_noting(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Journal, "catch_up", lambda *_: None)


@small_and_soak("is_helped", True, False)
@pytest.mark.parametrize(
    ("plant", "soon"),
    [
        (_forget_position, 2),
        (_forget_event, 0),
        (_send_before_noting, 0),
        # These take many steps from any seed.
        pytest.param(_commit_bit_by_bit, 0, marks=pytest.mark.soak),
        pytest.param(_believe_every_answer, 3, marks=pytest.mark.soak),
        pytest.param(_draw_again_before_sending, 0, marks=pytest.mark.soak),
        pytest.param(_ignore_the_budget, 0, marks=pytest.mark.soak),
    ],
)
def test_a_planted_mistake_is_found(
    plant: Callable[[pytest.MonkeyPatch], None],
    soon: int,
    is_helped: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plant(monkeypatch)
    with pytest.raises(BaseException) as caught:  # noqa: PT011
        search(tmp_path, soon=soon if is_helped else 0)
    # One that breaks by itself proves nothing.
    assert not isinstance(caught.value, TypeError | AttributeError | NameError)
