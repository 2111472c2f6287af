"""The daemon is killed again and again while records pour in, against a real aggregator."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from sfumato.analyst import Client
from sfumato.shared.plan import plan_from_spec
from sfumato.shared.wire import decode_message
from sfumato.shared.wire.objects.studies import SketchBody
from tests.device_agent.daemons import daemon, query, stop, wait_until
from tests.soak import small_and_soak
from tests.system import test_whole_path
from tests.system.agents import Agent, make_agent
from tests.system.servers import start_server

SLOT_S = 500
SPEC = test_whole_path.SPEC | {
    "seed": "killed daemons",
    "window": {"kind": "time", "origin": 0, "length_s": SLOT_S},
}
SPLIT = SPEC | {"frequencies_per_sketch": 20}
REPORTS = {name: SPEC[name] for name in SPEC if name not in ("least_records", "most_records")} | {
    "release": "phase.v1",
    "epsilon": "7",
    "most_sketches_per_device": 100_000,
}


class Load:
    """Appends records to a file, a second apart by their own times, until it is told to stop."""

    def __init__(self, path: Path) -> None:
        self.n_records = 0
        self._path = path
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._write)
        path.write_text("time,x,y\n", encoding="utf-8")

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End with whole lines."""
        self._stopping.set()
        self._thread.join()

    def _write(self) -> None:
        draw = random.Random(11)
        # Written in blocks, so that the last line is mostly torn.
        with self._path.open("a", encoding="utf-8", buffering=4096) as file:
            while not self._stopping.wait(0.01):
                for _ in range(draw.randrange(60)):
                    file.write(f"{self.n_records},{draw.gauss(0, 3):.4f},{draw.gauss(0, 3):.4f}\n")
                    self.n_records += 1


def require_ledger_is_what_was_released(agent: Agent) -> None:
    state = agent.config.parent / "state"
    events = query(state, "SELECT stream, sequence FROM events ORDER BY sequence")
    assert events == query(state, "SELECT stream, sequence FROM outbox ORDER BY sequence")
    assert [sequence for _, sequence in events] == list(range(len(events)))


def count_released(state: Path) -> int:
    """Count what the device has released so far."""
    ((n_released,),) = query(state, "SELECT COUNT(*) FROM events")
    return int(str(n_released))


@small_and_soak("n_cycles", 3, 200)
@pytest.mark.parametrize("spec", [SPLIT, REPORTS], ids=["sums", "reports"])
def test_killed_in_a_loop_under_load_a_daemon_loses_and_doubles_nothing(
    spec: dict[str, Any], n_cycles: int, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    aggregator = start_server(tmp_path_factory.mktemp("aggregator"))
    records = tmp_path / "records.csv"
    pause = random.Random(5)
    with Client(aggregator.url, key=aggregator.key) as client, Load(records) as load:
        study_id = client.create_study("killed", plan_from_spec(spec)).study_id
        # A device looks at its first records when it enrols.
        wait_until(lambda: records.read_bytes().count(b"\n") > 10)
        agent = make_agent(tmp_path / "agent", client, study_id, data=records)
        state = agent.config.parent / "state"
        for cycle in range(n_cycles):
            n_before = count_released(state)
            with daemon(agent.config) as process:
                # Half of them at any moment since the first import, however slow this machine is;
                # the others in the midst of work.
                if cycle % 2:
                    wait_until(lambda n=n_before: count_released(state) > n)  # type: ignore[misc]
                time.sleep(pause.uniform(0.0, 0.4) if cycle % 2 else pause.uniform(0.2, 1.6))
                assert process.poll() is None
            require_ledger_is_what_was_released(agent)
        n_released = count_released(state)
        load.stop()
        with daemon(agent.config) as process:
            wait_until(lambda: _is_done(agent, load.n_records, of_reports=spec is REPORTS))
            assert stop(process) == 0
        stored = list(client.sketches(study_id))
        require_ledger_is_what_was_released(agent)
    aggregator.stop()
    assert n_released >= n_cycles // 2
    if spec is REPORTS:
        slots = [sketch.slots for sketch in stored if sketch.slots]
        assert sorted(slots) == [(i, i) for i in range(count_slots(load.n_records))]
    else:
        ((still_open,),) = query(state, "SELECT COALESCE(SUM(n_records), 0) FROM open_windows")
        n_stored = sum(sketch.n_records or 0 for sketch in stored)
        assert n_stored + int(str(still_open)) == load.n_records
    require_the_same_bytes(state, stored)


def count_slots(n_records: int) -> int:
    """Count the slots of records that lie a second apart."""
    return -(-n_records // SLOT_S)


def _is_done(agent: Agent, n_records: int, *, of_reports: bool) -> bool:
    """Tell whether all but fewer than a window's least records are released and sent."""
    state = agent.config.parent / "state"
    ((n_waiting,),) = query(state, "SELECT COUNT(*) FROM outbox WHERE state != 'sent'")
    if of_reports:
        return n_waiting == 0 and count_released(state) == count_slots(n_records)
    ((n_sent,),) = query(state, "SELECT COALESCE(SUM(n_records), 0) FROM outbox")
    return n_waiting == 0 and int(str(n_sent)) >= n_records - 9


def require_the_same_bytes(state: Path, stored: Sequence[SketchBody]) -> None:
    """Check that what the server has is what the outbox kept, sketch by sketch."""
    rows = query(state, "SELECT sequence, state, message FROM outbox")
    assert {row[1] for row in rows} == {"sent"}
    kept = {
        row[0]: decode_message(row[2]).header.payload_digest.hex()
        for row in rows
        if isinstance(row[2], bytes)
    }
    assert {s.sequence: s.payload_digest for s in stored} == kept
