import sqlite3
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from sfumato.device_agent.sources import KnownPosition, RecordBatch, open_source
from sfumato.device_agent.sources.file_source import FileSettings
from sfumato.device_agent.sources.line_file import BATCH_RECORDS
from sfumato.device_agent.sources.settings import StreamSettings
from sfumato.shared.core import SketchAccumulator
from sfumato.shared.plan import WindowRule
from tests.device_agent.conftest import BASE, Agent, AgentFor, make_plan
from tests.device_agent.sources.streams import make_dimensions

SECRET = "987654.321"


def once_with(agent: Agent, content: str | bytes, status: int = 0) -> dict[str, object]:
    data = content.encode() if isinstance(content, str) else content
    agent.records.write_bytes(data)
    return agent.once(status=status)


@pytest.mark.parametrize(
    ("line", "field"),
    [
        (f"{BASE},{SECRET}x,1", "x"),
        (f"{BASE},,1", "x"),
        (f"{BASE},1,", "y"),
        (f"{BASE},nan,1", "x"),
        (f"{BASE},1,-inf", "y"),
        (f"{BASE},1,1e999", "y"),
        (f"{BASE},1_000,1", "x"),
        (f"{BASE},\N{FULLWIDTH DIGIT ONE},1", "x"),
        (f"{BASE},{SECRET}", "number of fields"),
        (f"{BASE},{SECRET},1,2", "number of fields"),
        (f'{BASE},"{SECRET},1', "line"),
        (f"{BASE},1,\xff".encode("latin-1"), "y"),
        (f"{BASE},{'1' * 200_000},1", "line"),
        (f"{BASE},1\x00,1", "x"),
    ],
)
def test_an_unusable_record_keeps_its_place_and_adds_zero(
    line: str | bytes, field: str, agent_for: AgentFor
) -> None:
    plan = make_plan(window=WindowRule(kind="count", length=100), measurements_per_record=4)
    agent = agent_for(plan)
    server = agent.server
    agent.init()
    bad = line.encode() if isinstance(line, str) else line
    good = f"{BASE},1.5,2.5\n".encode()
    report = once_with(agent, b"time,x,y\n" + good + bad + b"\n" + good)
    (device,) = server.devices
    assert (report["records_read"], report["unsketchable"]) == (3, 1)
    assert report["raw_bytes_read"] == 2 * len(good) + len(bad) + 1
    assert f"line 3 ({field})" in agent.out
    assert SECRET not in agent.out + agent.err
    expected = SketchAccumulator(plan.statistic_of(device + b"/meter"))
    expected.add(np.array([[1.5, 2.5], [np.nan, np.nan], [1.5, 2.5]]))
    connection = sqlite3.connect(agent.state / "agent.sqlite")
    ((sums, n_records),) = connection.execute("SELECT sums, n_records FROM open_windows")
    connection.close()
    assert n_records == 3
    assert np.array_equal(np.frombuffer(sums, dtype="<i8"), expected.sums)


@pytest.mark.parametrize("time", ["", "yesterday", "nan", "1e300", "-1e300", "2020-01-01"])
def test_a_record_without_a_readable_time_joins_the_open_window(time: str, enrolled: Agent) -> None:
    report = once_with(enrolled, f"time,x,y\n{BASE},1,1\n{time},1,1\n{BASE + 3600},1,1\n")
    assert (report["released"], report["unsketchable"]) == (2, 0)
    assert "line 3 (time)" in enrolled.out
    assert [m.header.n_records for m in enrolled.server.stored.values()] == [2, 1]


@pytest.mark.parametrize(
    "content",
    [
        "\ufefftime,x,y\n{0},1,2\n",
        "time,x,y\r\n{0},1,2\r\n",
        'time,"x",y\n{0},"1","2"\n',
        "y,note,time,x\n2,some text,{0},1\n",
        " time , x , y \n {0} , 1 , 2 \n",
        'time,x,y,note\n{0},1,2,"a, b ""c"""\n',
    ],
)
def test_common_forms_of_csv_are_read(content: str, enrolled: Agent) -> None:
    report = once_with(enrolled, content.format(BASE))
    assert (report["records_read"], report["unsketchable"], report["released"]) == (1, 0, 1)


def test_a_blank_line_is_a_record_that_adds_zero(enrolled: Agent) -> None:
    report = once_with(enrolled, f"time,x,y\n\n{BASE},1,2\n{BASE},1,2\n\n")
    assert (report["records_read"], report["unsketchable"]) == (4, 2)


@pytest.mark.parametrize(
    ("header", "named"),
    [
        ("time,x\n", "y: the column is not in the header"),
        ("when,x,y\n", "time: the column is not in the header"),
        ("time;x;y\n", "the column is not in the header"),
        ("time,x,y,x\n", "x: the column is in the header more than once"),
        (b"time,x,\xff\n", "must be a header in UTF-8"),
    ],
)
def test_a_wrong_header_is_refused_before_anything_is_read(
    header: str | bytes, named: str, enrolled: Agent
) -> None:
    before = enrolled.dump()
    report = once_with(enrolled, header, status=2)
    assert (report["records_read"], report["raw_bytes_read"]) == (0, 0)
    assert enrolled.err.startswith("sfumato-agent: error: ")
    assert named in enrolled.err
    assert enrolled.err.count("\n") == 1
    assert enrolled.dump() == before


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "the file is empty"),
        ("time,x", "the header line has no end yet"),
        (f"time,x,y\n{BASE},1,1", "line 2 has no end yet"),
        (f"time,x,y\n{BASE},1,{'1' * 200_000}", "line 2 has no end yet"),
    ],
)
def test_what_may_still_be_being_written_is_left_and_said(
    content: str, message: str, enrolled: Agent
) -> None:
    report = once_with(enrolled, content)
    assert (report["records_read"], report["released"]) == (0, 0)
    assert message in enrolled.out
    assert once_with(enrolled, f"time,x,y\n{BASE},1,1\n")["released"] == 1


def test_a_missing_file_or_a_folder_is_named(enrolled: Agent) -> None:
    for path in ("absent.csv", "."):
        enrolled.write_config(path=path)
        assert enrolled.run("init") == 2
        assert str((enrolled.folder / path).resolve()) in enrolled.err


def test_values_out_of_bounds_are_counted_clipped_and_warned_about(enrolled: Agent) -> None:
    report = once_with(enrolled, f"time,x,y\n{BASE},{SECRET},1\n{BASE},1,1\n")
    assert (report["out_of_bounds"], report["unsketchable"], report["released"]) == (1, 0, 1)
    assert "x: 50% of the records lie outside" in enrolled.out
    assert SECRET not in enrolled.out + enrolled.err


def test_iso_times_are_read_with_and_without_an_offset(enrolled: Agent) -> None:
    text = enrolled.config.read_text().replace('"unix"', '"iso8601"')
    enrolled.config.write_text(text)
    enrolled.rejoin()
    lines = ["2020-01-01T00:30:00Z", "2020-01-01T01:45:00+01:00", "2020-01-01 00:50:00", "noon"]
    content = "time,x,y\n" + "".join(f"{line},1,1\n" for line in lines)
    once_with(enrolled, content)
    (message,) = enrolled.server.stored.values()
    slot = 1577836800 // 3600
    assert (message.header.slots, message.header.n_records) == ((slot, slot), 4)


def test_columns_may_have_other_names_than_dimensions(enrolled: Agent) -> None:
    with enrolled.config.open("a") as file:
        file.write('\n[streams.columns]\nx = "temp c"\n')
    enrolled.records.write_text("time,temp c,y\n")
    enrolled.rejoin()
    assert once_with(enrolled, f"time,temp c,y\n{BASE},1,1\n")["records_read"] == 1


text_lines = st.lists(
    st.one_of(
        st.just(b"0,1.5,2"),
        st.just(b""),
        st.just(b'"0","1",2'),
        st.binary(max_size=30).filter(lambda line: b"\n" not in line),
    ),
    max_size=30,
)


def read_all(path: Path, known: list[KnownPosition]) -> list[RecordBatch]:
    settings = StreamSettings(
        name="meter",
        source=FileSettings(kind="csv", path=path, timestamp="t", timestamp_format="unix"),
    )
    source = open_source(settings, make_dimensions("x", "y"), known, bytes(32))
    try:
        batches = []
        for batch in source.read():
            batches.append(batch)
            position = batch.position_after(len(batch.timestamps) - 1)
            known[:] = [KnownPosition(stream="meter", position=position)]
        return batches
    finally:
        source.close()


@given(lines=text_lines, cut=st.integers(0, 30), tail=st.binary(max_size=5))
def test_any_bytes_are_read_once_wherever_reading_was_interrupted(
    lines: list[bytes], cut: int, tail: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("csv") / "records.csv"
    header = b"t,x,y\n"
    begin = header + b"".join(line + b"\n" for line in lines[:cut])
    everything = header + b"".join(line + b"\n" for line in lines)
    path.write_bytes(everything)
    whole = [batch.values for batch in read_all(path, [])]
    # Interrupted in the middle of a line: the line is left for the next time.
    path.write_bytes(begin + tail.replace(b"\n", b""))
    known: list[KnownPosition] = []
    parts = [batch.values for batch in read_all(path, known)]
    path.write_bytes(everything)
    parts += [batch.values for batch in read_all(path, known)]
    empty = [np.empty((0, 2))]
    np.testing.assert_array_equal(np.concatenate(empty + parts), np.concatenate(empty + whole))
    assert len(np.concatenate(empty + whole)) == len(lines)


def test_a_long_file_is_read_in_batches_whose_positions_agree_with_one_pass(
    tmp_path: Path,
) -> None:
    path = tmp_path / "records.csv"
    n_records = BATCH_RECORDS * 2 + 10
    path.write_text("t,x,y\n" + "".join(f"{i},{i},{-i}\n" for i in range(n_records)))
    known: list[KnownPosition] = []
    batches = read_all(path, known)
    assert [len(batch.values) for batch in batches] == [4096, 4096, 10]
    assert np.concatenate([b.values for b in batches])[:, 0].tolist() == list(range(n_records))
    assert known[0].position.place["offset"] == path.stat().st_size
    assert known[0].position.place["line"] == n_records + 1
    assert read_all(path, known) == []
