"""One record may say what it likes: all that is released, but for its own share, is the same.

The real agent, from raw bytes to stored sketches. The plans spend so much that the noise is next to
nothing, so that each sketch shows the sum it was made from.
"""

import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfumato.device_agent.store.key import load_digest_key
from sfumato.shared.core import SketchAccumulator
from sfumato.shared.plan import Dimension, WindowRule
from sfumato.shared.wire import decode_message, decode_payload
from tests.device_agent.conftest import BASE, HOUR, NUMBERS, make_other_plan, make_plan
from tests.device_agent.daemons import query
from tests.device_agent.driver import Driver, put_back
from tests.device_agent.serving import Server, running
from tests.device_agent.sources.raw_sources import Raw, to_csv

NOW = BASE + 20 * HOUR + 7.0
NOISE = 60
"""No coordinate's noise is larger, but once in more releases than all tests draw."""
LOUD: dict[str, Any] = {
    "epsilon": Fraction(10**9),
    "mechanism": "discrete-laplace",
    "window": WindowRule(kind="time", origin=BASE, length_s=HOUR),
}
PLANS = {
    "replace-one": make_plan(least_records=3, most_records=8, **LOUD),
    "add-remove-one": make_other_plan(
        "histogram",
        dimensions=(NUMBERS[0], Dimension(name="y", unit="1", levels=("2", "1"))),
        bins_log2=(6, 0),
        neighbouring="add-remove-one",
        least_records=None,
        most_records=50,
        **LOUD,
    ),
}
N, ODD = 40, 17
RECORDS = [
    Raw(time=BASE + i * HOUR // 3, id=i + 1, x=i / 8 - 2, note="" if i % 2 else "a")
    for i in range(N)
]

Write = Callable[[Path, list[Raw]], None]


def write_csv(folder: Path, records: list[Raw]) -> None:
    (folder / "r").write_bytes(b"time,x,y\n" + to_csv(_with_y(records)))


def write_folder(folder: Path, records: list[Raw]) -> None:
    for path in (folder / "in").iterdir():
        # As it is for the first run of a device: no other file, and no other identity.
        path.unlink()
    for i in range(0, N, 10):
        part = [r for r in records if i < r.id <= i + 10]
        (folder / "in" / f"{i}").write_bytes(b"time,x,y\n" + to_csv(_with_y(part)))


def write_sqlite(folder: Path, records: list[Raw]) -> None:
    (folder / "r.db").unlink(missing_ok=True)
    with closing(sqlite3.connect(folder / "r.db")) as database:
        database.execute("CREATE TABLE r (k INTEGER PRIMARY KEY, time, x, y)")
        rows = [(r.id, r.time, r.x, 1.0) for r in records]
        database.executemany("INSERT INTO r VALUES (?, ?, ?, ?)", rows)
        database.commit()


def _with_y(records: list[Raw]) -> list[Raw]:
    return [Raw(time=r.time, id=r.id, x=r.x, note="1") for r in records]


QUERY = "SELECT k, time, x, y FROM r WHERE k > :last ORDER BY k LIMIT :n"
# What other sources read of a record is tested with them; here it is what the agent makes of it.
KINDS: dict[str, tuple[str, Write, list[Any]]] = {
    "csv": ('kind = "csv"\npath = "r"', write_csv, [b"time,x,y", b'"', b"\xff", b"9" * 70_000]),
    "folder": ('kind = "folder"\npath = "in"', write_folder, [b"x,y\x00", b'"a']),
    "sqlite": (
        f'kind = "sqlite"\npath = "r.db"\nkey = "k"\nquery = "{QUERY}"',
        write_sqlite,
        ["9" * 5000, b"\xff", "a\0"],
    ),
}


class World:
    """One device, put back to where it was enrolled before each run."""

    def __init__(self, folder: Path, server: Server, source: str) -> None:
        self.server = server
        self.driver = Driver(
            folder,
            server,
            per_record=str(10**9),
            clock=lambda: NOW,
        )
        text = self.driver.config.read_text()
        head = text[: text.index("[streams.source]")]
        times = 'timestamp = "time"\ntimestamp_format = "unix"\n'
        self.driver.config.write_text(f"{head}[streams.source]\n{source}\n{times}")
        self.driver.enrol()
        # The secret of the digests too is the same in each run.
        load_digest_key(self.driver.keys)
        self._template = folder / "template"
        shutil.copytree(self.driver.state, self._template)

    def release(self) -> dict[str, Any]:
        """Run once; return all that is public of it, and the sums."""
        put_back(self._template, self.driver.state)
        self.server.stored.clear()
        report = self.driver.once(send=False)
        assert report.errors == []
        rows = self._query(
            "sequence, n_records, first_slot, last_slot, n_bytes, message FROM outbox"
            " ORDER BY sequence"
        )
        places = self._query("place FROM positions ORDER BY source")
        return {
            "sketches": [row[:-1] for row in rows],
            "sums": [self._decode(row[-1]) for row in rows],
            "events": self._query("stream, sequence, epsilon FROM events"),
            "streams": self._query("name, next_sequence, first_record, floor_slot FROM streams"),
            "n_positions": len(places),
            "places": sorted(_without_bytes(place) for (place,) in places),
        }

    def _query(self, what: str) -> list[tuple[Any, ...]]:
        return query(self.driver.state, f"SELECT {what}")

    def _decode(self, message: bytes) -> Any:
        plan = self.server.plan
        return decode_payload(
            decode_message(message).payload,
            width=plan.payload_width,
            n_coordinates=plan.n_coordinates,
        )


def _without_bytes(place: str) -> list[tuple[str, Any]]:
    """Return a position without what follows from the length and the bytes of a record."""
    found: dict[str, Any] = json.loads(place)
    return sorted(
        (name, value) for name, value in found.items() if name not in ("offset", "digest")
    )


@pytest.fixture(params=PLANS)
def world(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[World, Callable[[list[Raw]], None]]]:
    (tmp_path / "in").mkdir()
    source, write, _ = KINDS[kind]
    monkeypatch.setattr("time.time", lambda: NOW)

    def put(records: list[Raw]) -> None:
        write(tmp_path, records)

    with running(PLANS[request.param]) as server:
        # A device looks at its source before it joins.
        put(RECORDS)
        yield World(tmp_path, server, source), put


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_released_apart_from_one_record_depends_on_it_in_nothing(
    kind: str, world: tuple[World, Callable[[list[Raw]], None]]
) -> None:
    device, put = world
    put(RECORDS)
    before = device.release()
    assert len(before["sums"]) >= 4
    is_secret = device.server.plan.releases_count
    for text in KINDS[kind][2]:
        odd = RECORDS[ODD]
        records = list(RECORDS)
        records[ODD] = Raw(time=odd.time, id=odd.id, x=text, note=odd.note)
        put(records)
        after = device.release()
        for what in ("sketches", "events", "streams", "n_positions", "places"):
            assert after[what] == before[what], (text, what)
        _require_share(device, before["sums"], after["sums"], is_secret, removed=False)
    if is_secret:
        put(RECORDS[:ODD] + RECORDS[ODD + 1 :])
        after = device.release()
        for what in ("sketches", "events", "streams", "n_positions"):
            assert after[what] == before[what], what
        _require_share(device, before["sums"], after["sums"], is_secret, removed=True)


def _require_share(
    device: World, before: list[Any], after: list[Any], is_secret: bool, *, removed: bool
) -> None:
    """Check that the sums differ in the one record's window alone, by its share alone."""
    plan = device.server.plan
    # Counts have no noise at all.
    noise = 2 * NOISE if plan.value_range[0] else 0
    y = 1.0  # or the level of that number
    own, *others = (
        _find_share(device, record)
        for record in ([RECORDS[ODD].x, y], [np.nan, y], [np.nan, np.nan])
    )
    shares = [own - other for other in others]
    if is_secret:
        # An unusable record still counts; one that is not there does not.
        shares = (
            [np.append(own, plan.count_scale)] if removed else [np.append(s, 0) for s in shares]
        )
    differing = []
    for i, (one, other) in enumerate(zip(before, after, strict=True)):
        difference = np.asarray(one, dtype=np.int64) - np.asarray(other, dtype=np.int64)
        if np.abs(difference).max() > noise:
            differing.append(i)
            assert min(np.abs(difference - share).max() for share in shares) <= noise
    assert len(differing) == 1


def _find_share(device: World, record: list[float]) -> Any:
    """Return what a record adds."""
    (device_id,) = device.server.devices
    exact = SketchAccumulator(device.server.plan.statistic_of(device_id + b"/meter"))
    exact.add(np.array([record]))
    return exact.sums
