"""Messages that are joined to records: which cell each belongs to, and that it changes no other."""

import math
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from numpy.typing import NDArray

from sfumato.device_agent.sources import KnownPosition, RecordSource, cells, line_file, open_source
from sfumato.device_agent.sources.cells import JoinSource
from sfumato.device_agent.sources.settings import StreamSettings
from sfumato.shared.errors import ConfigError, LedgerError
from sfumato.shared.plan import Dimension
from tests.device_agent.sources.streams import make_dimensions, make_stream
from tests.device_agent.sources.test_records_apart import raw_bytes

Floats = NDArray[np.float64]

SINCE = 1_700_000_000.0
EVERY, GRACE = 10.0, 5.0
COLUMNS = {"x": "{group}/x", "y": {"field": "{group}/y", "scale": 2.0}}
JOIN: dict[str, Any] = {
    "key": "topic",
    "every_s": EVERY,
    "grace_s": GRACE,
    "since": "2023-11-14T22:13:20+00:00",
    "groups": ["a", "b"],
}
N_GROUPS, N_COLUMNS, N_INTERVALS = 2, 2, 4
LATER = SINCE + N_INTERVALS * EVERY + GRACE


@dataclass(frozen=True)
class Message:
    time: float
    topic: str
    value: str
    line: bytes | None = None

    def write(self) -> bytes:
        return self.line or f"{self.time!r},{self.topic},{self.value}\n".encode()


@dataclass
class Device:
    """Reads a stream and remembers its positions, as the agent does."""

    stream: StreamSettings
    dimensions: Sequence[str | Dimension] = ("x", "y")
    now: float = LATER
    known: dict[str, KnownPosition] = field(default_factory=dict)

    def open(self) -> RecordSource:
        source = open_source(
            self.stream,
            make_dimensions(*self.dimensions),
            list(self.known.values()),
            bytes(32),
            now=lambda: self.now,
        )
        self._note(source)
        return source

    def read(self, source: RecordSource, most: int | None = None) -> Floats:
        """Return new records; behind ``most`` of them the device is killed."""
        found: list[Floats] = []
        for batch in source.read():
            n_left = math.inf if most is None else most - sum(map(len, found))
            n = int(min(n_left, len(batch.values)))
            if n:
                positions = [batch.position_after(n - 1)]
                if n == len(batch.values):
                    positions += batch.beside()
                for each in positions:
                    self.known[each.source] = KnownPosition(stream="meter", position=each)
            found.append(batch.values[:n])
            if n < len(batch.values):
                break
            self._note(source)
        return np.concatenate([np.empty((0, len(self.dimensions))), *found])

    def _note(self, source: RecordSource) -> None:
        for each in source.take_changes().seen:
            self.known.setdefault(each.source, KnownPosition(stream="meter", position=each))

    def once(self) -> Floats:
        with closing(self.open()) as source:
            return self.read(source)


def make_device(folder: Path, **join: Any) -> Device:
    options: dict[str, Any] = {"timestamp": "t", "timestamp_format": "unix"}
    stream = make_stream(
        folder, kind="csv", path="r", columns=COLUMNS, join={**JOIN, **join}, **options
    )
    return Device(stream)


def write(folder: Path, messages: Sequence[Message]) -> None:
    (folder / "r").write_bytes(b"t,topic,value\n" + b"".join(each.write() for each in messages))


def read(folder: Path, messages: Sequence[Message], **join: Any) -> Floats:
    write(folder, messages)
    return make_device(folder, **join).once()


def join_by_hand(messages: Sequence[Message], take: str = "last") -> Floats:
    """The definition, message by message."""
    found: dict[tuple[int, int, int], list[tuple[float, float]]] = {}
    for each in messages:
        group, _, column = each.topic.partition("/")
        try:
            value = float(each.value) * (2.0 if column == "y" else 1.0)
        except ValueError:
            continue
        if group in ("a", "b") and column in ("x", "y") and math.isfinite(value):
            interval = math.floor((each.time - SINCE) / EVERY)
            if 0 <= interval < N_INTERVALS:
                cell = (interval, "ab".index(group), "xy".index(column))
                found.setdefault(cell, []).append((each.time, value))
    records = np.full((N_INTERVALS, N_GROUPS, N_COLUMNS), math.nan)
    for cell, said in found.items():
        values = [value for _, value in said]
        last = max(enumerate(said), key=lambda pair: (pair[1][0], pair[0]))[1][1]
        # One after the other, as they came: sum() would round less.
        total = 0.0
        for value in values:
            total += value
        by_name = {"min": min(values), "max": max(values), "mean": total / len(values)}
        records[cell] = by_name.get(take, last)
    return records.reshape(-1, N_COLUMNS)


# Many in one cell, so that their order matters.
times = st.one_of(
    st.integers(0, 12).map(lambda x: SINCE + x),
    st.integers(-1, 41).map(lambda x: SINCE + x),
    st.sampled_from([SINCE - 0.001, SINCE + 9.999, SINCE + 1e9, 0.0]),
)
topics = st.one_of(
    st.sampled_from(["a/x", "b/y"]),
    st.sampled_from(["a/x", "a/y", "b/x", "b/y", "c/x", "a", "", "{group}/x"]),
)
texts = st.sampled_from(["21.4", "17.7", "15.4", "15.2", "", "off", "nan", "1e999"])
values = st.one_of(st.integers(-50, 50).map(str), texts)
messages = st.builds(Message, times, topics, values)
lists = st.lists(messages, max_size=40)
ways = st.sampled_from(["last", "mean", "min", "max"])
slow = settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))


@slow
@given(
    given_=lists, take=st.sampled_from(["last", "mean", "min", "max"]), merged=st.integers(1, 50)
)
def test_records_are_what_the_messages_of_each_cell_say(
    given_: list[Message], take: str, merged: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cells, "_MERGED", merged)
    monkeypatch.setattr(line_file, "BATCH_RECORDS", 3)
    found = read(tmp_path, given_, take=take)
    np.testing.assert_array_equal(found, join_by_hand(given_, take))


def test_the_last_is_the_latest_by_its_own_time_and_of_equal_times_the_one_that_came_last(
    tmp_path: Path,
) -> None:
    given_ = [Message(SINCE + t, "a/x", v) for t, v in ((3, "1"), (5, "2"), (5, "3"), (4, "4"))]
    assert read(tmp_path, given_)[0, 0] == 3.0


def test_a_silent_cell_is_a_record_and_there_are_as_many_whatever_comes(tmp_path: Path) -> None:
    found = read(tmp_path, [])
    assert found.shape == (N_INTERVALS * N_GROUPS, N_COLUMNS)
    assert np.isnan(found).all()


def differ(one: Floats, other: Floats) -> int:
    assert one.shape == other.shape
    return int(np.sum(~((one == other) | (np.isnan(one) & np.isnan(other))).all(axis=1)))


@slow
@given(given_=lists, data=st.data(), take=ways)
def test_one_message_changes_one_record_and_with_another_time_or_key_two(
    given_: list[Message], data: st.DataObject, take: str, tmp_path: Path
) -> None:
    before = read(tmp_path, given_, take=take)
    i = data.draw(st.integers(0, len(given_)))
    other = data.draw(messages)
    assert differ(before, read(tmp_path, [*given_[:i], other, *given_[i:]], take=take)) <= 1
    if i < len(given_):
        value = replace(given_[i], value=data.draw(values))
        assert (
            differ(before, read(tmp_path, [*given_[:i], value, *given_[i + 1 :]], take=take)) <= 1
        )
        assert (
            differ(before, read(tmp_path, [*given_[:i], other, *given_[i + 1 :]], take=take)) <= 2
        )


@slow
@given(given_=st.lists(st.builds(Message, times, topics, texts), max_size=12), data=st.data())
def test_when_others_are_merged_changes_no_bit_of_a_mean(
    given_: list[Message], data: st.DataObject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_file, "BATCH_RECORDS", 1)
    monkeypatch.setattr(cells, "_MERGED", data.draw(st.integers(2, 5)))
    i = data.draw(st.integers(0, len(given_)))
    other = Message(SINCE + 35, "b/y", data.draw(texts))
    before = read(tmp_path, given_, take="mean")
    assert differ(before, read(tmp_path, [*given_[:i], other, *given_[i:]], take="mean")) <= 1


@slow
@given(given_=lists, raw=raw_bytes, data=st.data())
def test_whatever_bytes_a_message_has_it_changes_no_other_record(
    given_: list[Message], raw: bytes, data: st.DataObject, tmp_path: Path
) -> None:
    i = data.draw(st.integers(0, len(given_)))
    whole = Message(0.0, "", "", line=raw + b"\n")
    part = Message(0.0, "", "", line=b"%d,a/x," % SINCE + raw + b"\n")
    before = read(tmp_path, given_)
    for nasty in (whole, part):
        assert differ(before, read(tmp_path, [*given_[:i], nasty, *given_[i:]])) <= 1


@slow
@given(
    parts=st.lists(st.tuples(lists, st.integers(0, 12)), min_size=1, max_size=4),
    data=st.data(),
    n_batch=st.integers(1, 5),
)
def test_killed_anywhere_every_cell_is_given_once_with_all_its_messages(
    parts: list[tuple[list[Message], int]],
    data: st.DataObject,
    n_batch: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cells, "BATCH_RECORDS", n_batch)
    monkeypatch.setattr(line_file, "BATCH_RECORDS", 3)
    device = make_device(tmp_path)
    (tmp_path / "r").write_bytes(b"t,topic,value\n")
    found, came = [], []
    device.now = SINCE
    closed_at: list[float] = []
    for given_, seconds in parts:
        device.now += seconds
        # What comes when its cell may be closed is late by the clock, however it is read.
        fresh = [each for each in given_ if each.time >= SINCE]
        kept = [each for each in fresh if _end(each) + GRACE > (closed_at or [0.0])[-1]]
        came += kept
        with (tmp_path / "r").open("ab") as file:
            file.write(b"".join(each.write() for each in kept))
        for _ in range(data.draw(st.integers(0, 2))):
            with closing(device.open()) as source:
                found.append(device.read(source, data.draw(st.integers(0, 3))))
        found.append(device.once())
        closed_at.append(device.now)
    device.now = LATER
    found.append(device.once())
    np.testing.assert_array_equal(np.concatenate(found), join_by_hand(came))


def _end(message: Message) -> float:
    return SINCE + (math.floor((message.time - SINCE) / EVERY) + 1) * EVERY


def test_a_cell_closes_by_the_clock_and_never_by_another_message(tmp_path: Path) -> None:
    device = make_device(tmp_path)
    future = Message(SINCE + 1e9, "a/x", "7")
    write(tmp_path, [Message(SINCE + 1, "a/x", "1"), future, Message(SINCE + 11, "b/x", "2")])
    with closing(device.open()) as source:
        device.now = SINCE + EVERY + GRACE - 0.1
        assert len(device.read(source)) == 0
        device.now = SINCE + EVERY + GRACE
        np.testing.assert_array_equal(device.read(source), [[1.0, math.nan], [math.nan, math.nan]])
        assert isinstance(source, JoinSource)
        # One that comes too late is counted for the owner, and is in no record.
        with (tmp_path / "r").open("ab") as file:
            file.write(Message(SINCE + 2, "a/x", "9").write())
        device.now += EVERY
        found = device.read(source)
        np.testing.assert_array_equal(found, [[math.nan, math.nan], [2.0, math.nan]])
        messages = " ".join(source.report.describe())
        assert "1 message(s) came after their interval was closed, and are in no record" in messages
        assert "1 message(s) have a time ahead of this machine's clock: they wait" in messages
        assert source.delay_s >= EVERY + GRACE
        assert not source.ended


def test_with_an_end_the_last_cell_is_the_last_record(tmp_path: Path) -> None:
    write(tmp_path, [Message(SINCE + 1, "b/y", "1"), Message(SINCE + 25, "b/y", "1")])
    device = make_device(tmp_path, until="2023-11-14T22:13:45+00:00")
    # Half an interval is none.
    np.testing.assert_array_equal(device.once()[:, 1], [math.nan, 2.0, math.nan, math.nan])


def test_a_group_may_be_a_field_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "r").write_text(
        "".join(f'{{"t": {SINCE}, "m": "x", "room": "{room}", "v": 3}}\n' for room in "bc")
    )
    stream = make_stream(
        tmp_path,
        kind="jsonl",
        path="r",
        timestamp="t",
        timestamp_format="unix",
        join={**JOIN, "key": "m", "value": "v", "group": "room"},
    )
    found = Device(stream, ("x",)).once()
    np.testing.assert_array_equal(found[:2], [[math.nan], [3.0]])


def test_a_column_may_hold_words(tmp_path: Path) -> None:
    heating = Dimension(name="y", unit="1", levels=("off", "on"))
    device = replace(make_device(tmp_path), dimensions=("x", heating))
    device.stream = replace(device.stream, columns={"x": device.stream.columns["x"]})
    write(tmp_path, [Message(SINCE, "a/x", "1.5"), Message(SINCE, "y", "on")])
    with pytest.raises(ConfigError, match=r"\{group\}"):
        device.once()
    join = device.stream.source.join
    assert join is not None
    alone = replace(device.stream.source, join=replace(join, groups=()))
    device.stream = replace(device.stream, source=alone, columns={})
    write(tmp_path, [Message(SINCE, "x", "1.5"), Message(SINCE, "y", "on")])
    np.testing.assert_array_equal(device.once()[0], [1.5, 1.0])


def test_a_stream_that_joined_messages_never_reads_them_as_records(tmp_path: Path) -> None:
    write(tmp_path, [Message(SINCE, "a/x", "7")])
    device = make_device(tmp_path)
    device.once()
    joined = device.stream
    device.stream = replace(joined, source=replace(joined.source, join=None))
    with pytest.raises(LedgerError, match="would be read again as records"):
        device.open()


def test_no_cell_closes_while_the_source_does_not_answer(tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("CREATE TABLE r (id INTEGER PRIMARY KEY, t REAL, topic TEXT, value REAL)")
        writer.execute("INSERT INTO r VALUES (1, ?, 'a/x', 7.0)", (SINCE,))
        query = "SELECT * FROM r WHERE id > :last ORDER BY id LIMIT :n"
        options: dict[str, Any] = {"timestamp": "t", "timestamp_format": "unix", "query": query}
        stream = make_stream(
            tmp_path, kind="sqlite", path="r.db", key="id", columns=COLUMNS, join=JOIN, **options
        )
        device = Device(stream)
        with closing(device.open()) as source:
            writer.execute("BEGIN EXCLUSIVE")
            # Neither in the daemon's turns nor in a run of `once`.
            assert source.read_batch() is None
            assert len(device.read(source)) == 0
            writer.execute("COMMIT")
            np.testing.assert_array_equal(device.read(source)[0], [7.0, math.nan])


def test_a_measured_field_chooses_no_record(tmp_path: Path) -> None:
    write(tmp_path, [])
    device = make_device(tmp_path)
    chosen = replace(device.stream.source, where={"value": "1"})
    device.stream = replace(device.stream, source=chosen)
    with pytest.raises(ConfigError, match="what it says would decide whether there is a record"):
        device.open()


def test_other_cells_are_refused_once_some_were_given(tmp_path: Path) -> None:
    write(tmp_path, [])
    device = make_device(tmp_path)
    device.once()
    changes: list[dict[str, Any]] = [
        {"every_s": 5.0},
        {"since": "2023-11-14T22:13:25+00:00"},
        {"groups": ["a"]},
        {"groups": ["b", "a"]},
    ]
    others = [make_device(tmp_path, **change).stream for change in changes]
    source: Any = device.stream.source
    others.append(replace(device.stream, source=replace(source, timestamp_zone="Europe/Berlin")))
    others.append(replace(device.stream, source=replace(source, header=("topic", "t", "value"))))
    for other in others:
        device.stream = other
        with pytest.raises(LedgerError, match="must stay as it was: under other cells a message"):
            device.open()


@pytest.mark.parametrize(
    ("join", "field_", "words"),
    [
        ({"since": "2023-11-14"}, "join.since", "must be a time with its offset"),
        ({"until": "2023-11-14T22:13:21+00:00"}, "join.until", "an interval after since"),
        ({"groups": [], "group": "room"}, "join.groups", "a group that nobody declared"),
        ({"groups": ["a", "a"]}, "join.groups", "must be different names"),
        ({"every_s": 0.5}, "join.every_s", "at least 1"),
        ({"take": "first"}, "join.take", 'must be "last", "mean", "min" or "max"'),
    ],
)
def test_cells_that_are_none_are_refused(
    join: dict[str, Any], field_: str, words: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=words) as refused:
        make_device(tmp_path, **join)
    assert refused.value.field == f"streams[0].source.{field_}"


def test_without_a_time_of_their_own_messages_cannot_be_joined(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="belongs to the interval of its own time"):
        make_stream(tmp_path, kind="csv", path="r", join=JOIN)
