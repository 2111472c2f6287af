"""Copies of one state: backups put back, clones, servers that were away or lost their last days.

A model of all that can be copied, over the real agent and a real server: of no sketch do two noises
leave the device once the server could have said that there is another.
"""

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from sfumato.device_agent.agent.enrol import enrol_device
from sfumato.device_agent.agent.exchange import comparison, sender
from sfumato.device_agent.agent.exchange.polling import Poller
from sfumato.device_agent.agent.maintenance import lift_suspension
from sfumato.device_agent.agent.once import OnceReport, run_once
from sfumato.device_agent.settings.agent_settings import Settings, load_settings
from sfumato.shared.errors import LedgerError, SketchError
from sfumato.shared.wire import SketchMessage, decode_message
from tests.device_agent.conftest import BASE, HOUR, make_plan
from tests.device_agent.daemons import query
from tests.device_agent.exploring import explore, require_found
from tests.device_agent.serving import TOKEN, Server
from tests.ledgers import use_new_ledger
from tests.soak import small_and_soak

PLAN = make_plan()
NOW = BASE + 1e5 * HOUR
STREAMS = ("a", "b")
Number = tuple[str, int]


class Watching(Server):
    """A server that notices a second noise of a sketch that it holds."""

    def __init__(self) -> None:
        super().__init__(PLAN, clock=lambda: NOW)
        self.second: list[Number] = []
        self.seen: set[bytes] = set()

    def put(self, sketch_id: bytes, body: bytes) -> tuple[int, dict[str, Any]]:
        held = self.stored.get(sketch_id)
        message = decode_message(body)
        # What had left before the server could know of another is sent again as it is.
        if held is not None and held.payload != message.payload and body not in self.seen:
            self.second.append((message.header.stream, message.header.sequence))
        self.seen.add(body)
        return super().put(sketch_id, body)


class Copies(RuleBasedStateMachine):
    """A device with two streams, whose state folder is copied, put back and cloned."""

    folders: Iterator[Path]
    may_copy = True

    def __init__(self) -> None:
        super().__init__()
        self.folder = next(self.folders)
        self.folder.mkdir()
        self.server = Watching()
        self.server.start()
        self.has_lost = False  # the server, once
        self.slot = 0
        self.n_copies = 1
        self.ledgers = {0: use_new_ledger()}
        for name in STREAMS:
            (self.folder / f"{name}.csv").write_text("time,x,y\n")
        (self.folder / "agent.toml").write_text(
            f'state_dir = "0"\nserver = "{self.server.url}"\nstudy = "{self.server.study.hex()}"\n'
            + "".join(
                f'[[streams]]\nname = "{name}"\n[streams.source]\nkind = "csv"\n'
                f'path = "{name}.csv"\ntimestamp = "time"\ntimestamp_format = "unix"\n'
                for name in STREAMS
            )
        )
        enrol_device(self.settings(0), token=TOKEN, clock=lambda: NOW)

    def settings(self, copy: int) -> Settings:
        found = load_settings(self.folder / "agent.toml", {})
        budget = replace(found.budget, ledger=self.ledgers[copy])
        return replace(found, state_dir=self.folder / str(copy), budget=budget)

    @rule(
        copy=st.integers(0, 2),
        streams=st.sampled_from(["a", "b", "ab", "aa", ""]),
        way=st.sampled_from(["online", "offline", "unsent", "0", "1", "2"]),
        resumes=st.booleans(),
    )
    def work(self, copy: int, streams: str, way: str, resumes: bool) -> None:
        """Let records come, and one of the copies work.

        The server is there, or away, or does not answer any more after so many uploads.
        """
        for stream in streams:
            self.slot += 1
            with (self.folder / f"{stream}.csv").open("a") as file:
                file.write(f"{BASE + self.slot * HOUR},{self.slot % 9},1\n")
        copy %= self.n_copies
        if resumes:
            for stream in STREAMS:
                with suppress(SketchError):  # it is not suspended
                    lift_suspension(self.settings(copy), stream=stream)
        if way == "offline":
            self.server.stop()
        self.server.limit = len(self.server.received) + int(way) if way.isdigit() else None
        try:
            self.run(copy, way)
        finally:
            if way == "offline":
                self.server.start()
            self.server.limit = None

    def run(self, copy: int, way: str = "online") -> OnceReport | None:
        try:
            report = run_once(
                self.settings(copy), send=way != "unsent", send_for_s=0.0, clock=lambda: NOW
            )
        except LedgerError:
            assert self.may_copy
            assert way != "offline"
            self.require_counted(copy)
            return None
        if way == "online":
            self.require_counted(copy)
        return report

    @precondition(lambda self: self.may_copy)
    @rule(source=st.integers(0, 2), over=st.integers(0, 2))
    def copy(self, source: int, over: int) -> None:
        """Clone a copy, or put it back over another, as a backup is."""
        source, target = source % self.n_copies, min(over, self.n_copies)
        if source == target:
            return
        shutil.rmtree(self.folder / str(target), ignore_errors=True)
        shutil.copytree(self.folder / str(source), self.folder / str(target))
        # On another machine: on one, the owner's ledger knows what the state does not.
        self.ledgers[target] = use_new_ledger()
        self.n_copies = max(self.n_copies, target + 1)

    @precondition(lambda self: self.n_copies == 1)
    @rule(n_kept=st.integers(0, 4), is_restored=st.booleans())
    def put_server_back(self, n_kept: int, is_restored: bool) -> None:
        """Put back an older database, by `sfumato restore` or by hand."""
        self.server.stored = dict(list(self.server.stored.items())[:n_kept])
        if is_restored:
            self.server.generation = f"{len(self.server.received):031x}r"
        self.has_lost = True

    @invariant()
    def no_second_noise_is_sent(self) -> None:
        assert not self.server.second

    def held(self) -> dict[Number, SketchMessage]:
        return {(m.header.stream, m.header.sequence): m for m in self.server.stored.values()}

    def require_counted(self, copy: int) -> None:
        """Check that a copy whose run went well has counted each release at the server."""
        state = self.folder / str(copy)
        rows = query(state, "SELECT stream, sequence, message FROM outbox")
        own = {(stream, number): message for stream, number, message in rows}
        others: Any = query(state, "SELECT stream, sequence, count FROM events WHERE copy = 1")
        for (stream, number), message in self.held().items():
            found = own.get((stream, number))
            is_own = isinstance(found, bytes) and decode_message(found).payload == message.payload
            is_counted = any(
                name == stream and last - count < number <= last for name, last, count in others
            )
            # By a server that has lost what it acknowledged nobody can tell.
            assert is_own or is_counted or self.has_lost

    def teardown(self) -> None:
        try:
            for copy in range(self.n_copies):
                self.run(copy)
            self.no_second_noise_is_sent()
            if not self.may_copy:
                report = self.run(0)
                assert report is not None
                assert (report.errors, report.outbox.shelved) == ([], 0)
                rows = query(self.folder / "0", "SELECT COUNT(*) FROM events")
                assert rows == [(len(self.server.stored),)]
        finally:
            self.server.stop()


class Single(Copies):
    """The same without copies."""

    may_copy = False


@small_and_soak(
    "choices",
    {"n_examples": 7, "n_steps": 12, "derandomize": True},
    {"n_examples": 500, "n_steps": 25},
)
def test_no_two_noises_of_a_sketch_leave_once_the_server_could_tell(
    choices: dict[str, Any], tmp_path: Path
) -> None:
    explore(Copies, tmp_path, **choices)


@small_and_soak("choices", {"n_examples": 4, "derandomize": True}, {"n_examples": 300})
def test_a_device_that_was_never_copied_is_never_taken_for_a_copy(
    choices: dict[str, Any], tmp_path: Path
) -> None:
    explore(Single, tmp_path, n_steps=12, **choices)


def _forget_what_was_offered(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(comparison, "list_unoffered", lambda *_: {})


def _offer_unasked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Poller, "agrees", lambda _: True)


def _keep_what_waits(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(comparison, "shelve_waiting", lambda *_, **__: 0)


def _offer_without_noting(patch: pytest.MonkeyPatch) -> None:
    def offer(connection: sqlite3.Connection, sketch_id: bytes, *, now: float) -> bytes:
        statement = "SELECT message FROM outbox WHERE sketch_id = ?"
        return bytes(connection.execute(statement, (sketch_id,)).fetchone()[0])

    patch.setattr(sender, "offer_sketch", offer)


@pytest.mark.parametrize(
    ("plant", "of", "soon"),
    [
        (_forget_what_was_offered, Copies, 2),
        pytest.param(_offer_unasked, Copies, 2, marks=pytest.mark.soak),
        pytest.param(_keep_what_waits, Copies, 2, marks=pytest.mark.soak),
        pytest.param(_offer_without_noting, Single, 4, marks=pytest.mark.soak),
    ],
)
def test_a_planted_mistake_is_found(
    plant: Callable[[pytest.MonkeyPatch], None],
    of: type[Copies],
    soon: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plant(monkeypatch)
    require_found(of, tmp_path, n_steps=12, soon=soon)
