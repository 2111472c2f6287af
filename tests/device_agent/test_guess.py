"""A first look at a file: how it is read, what is doubtful, and its first records."""

import gzip
import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from sfumato.device_agent.agent.guess import N_SHOWN, Guess, guess_address, guess_file
from sfumato.device_agent.cli import main
from sfumato.device_agent.settings.agent_settings import load_settings
from sfumato.shared.errors import SketchError


def guess(folder: Path, data: str | bytes, name: str = "r.csv") -> Guess:
    path = folder / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    found = guess_file(path)
    assert found.source.pop("path") == str(path)
    return found


EXCEL = (
    "sep=;\r\nDatum;Uhrzeit;Temp;Feuchte;Ort\r\n"
    "01.02.2026;00:05;21,5 °C;48 %;Küche\r\n"
    "13.02.2026;00:10;1.021,7 °C;-999;Küche\r\n"
    "13.02.2026;00:15;21,7 °C;52 %;Küche\r\n"
)
RECORDER = "state_id,entity_id,state,last_changed\n" + "".join(
    f"{2 * i},sensor.kitchen_t,2{i}.5,2026-01-01T00:0{i}:00+00:00\n"
    f"{2 * i + 1},sensor.hall_t,1{i},2026-01-01T00:0{i}:30+00:00\n"
    for i in range(8)
)
CASES: list[tuple[str, str | bytes, dict[str, Any], list[str], list[tuple[str, ...]]]] = [
    (
        "a spreadsheet of a German Excel",
        EXCEL,
        {
            "kind": "csv",
            "delimiter": ";",
            "timestamp": "Datum",
            "timestamp_clock": "Uhrzeit",
            "timestamp_format": "%d.%m.%Y %H:%M",
            "decimal": ",",
            "thousands": ".",
            "strip": ["°C", "%"],
        },
        ["state no zone", 'missing_values = ["-999"]', "text in Ort"],
        [
            ("2026-02-01 00:05:00+00:00", "21.5", "48"),
            ("2026-02-13 00:10:00+00:00", "1021.7", "-999"),
        ],
    ),
    (
        "states of Home Assistant's recorder",
        RECORDER,
        {
            "kind": "csv",
            "timestamp": "last_changed",
            "join": {
                "key": "entity_id",
                "value": "state",
                "every_s": 300,
                "since": "2026-01-01T00:00:00+00:00",
            },
        },
        ["each line has one value, and entity_id says of what"],
        [
            ("2026-01-01 00:00:00+00:00", "24.5", "14"),
            ("2026-01-01 00:05:00+00:00", "27.5", "17"),
        ],
    ),
    (
        "payloads of Zigbee2MQTT in a log",
        '{"last_seen": "2026-01-01T00:00:00Z", "temperature": 21.5, "update": {"state": "idle"}}\n'
        '{"last_seen": "2026-01-01T00:01:00Z", "temperature": 21.6, "update": {"state": "idle"}}\n',
        {"kind": "jsonl", "timestamp": "last_seen"},
        ["text in update.state"],
        [("2026-01-01 00:00:00+00:00", "21.5"), ("2026-01-01 00:01:00+00:00", "21.6")],
    ),
    (
        "an export of InfluxDB's line of nanoseconds",
        "name,time,usage\ncpu,1767225600000000000,3.5\ncpu,1767225660000000000,4\n",
        {"kind": "csv", "timestamp": "time", "timestamp_format": "unix_ns"},
        ["text in name"],
        [("2026-01-01 00:00:00+00:00", "3.5"), ("2026-01-01 00:01:00+00:00", "4")],
    ),
    (
        "a file that Telegraf writes",
        "cpu,cpu=cpu0,host=web\\ 1 usage_idle=97.5,n=3i 1767225600000000000\n"
        'cpu,cpu=cpu1,host=web\\ 1 usage_idle=98,note="a, b" 1767225600000000000\n',
        {"kind": "influx", "timestamp": "time", "timestamp_format": "unix_ns"},
        ["text in measurement, cpu, host, note"],
        [
            ("2026-01-01 00:00:00+00:00", "97.5", "3"),
            ("2026-01-01 00:00:00+00:00", "98", "missing"),
        ],
    ),
    (
        "a logger with lines before its table",
        "Logger 7\nSite: north\n\nTime\tx\n2026-01-01 00:00:00\t1\n2026-01-01 00:10:00\t2\n",
        {"kind": "csv", "delimiter": "\t", "skip_lines": 3, "timestamp": "Time"},
        ["state no zone"],
        [("2026-01-01 00:00:00+00:00", "1"), ("2026-01-01 00:10:00+00:00", "2")],
    ),
    (
        "an inverter with lines of as many fields before its table",
        "sep=;\nVersion 1|a|b\n;SN: 21|x;SN: 21\n;;\ndd/MM/yyyy HH:mm:ss;kWh;kW\n"
        + "".join(f"{day:02}/05/2026 00:00:00;{day},25;1,5\n" for day in range(1, 14)),
        {
            "kind": "csv",
            "delimiter": ";",
            "skip_lines": 4,
            "timestamp": "dd/MM/yyyy HH:mm:ss",
            "timestamp_format": "%d/%m/%Y %H:%M:%S",
            "decimal": ",",
        },
        ["state no zone"],
        [
            ("2026-05-01 00:00:00+00:00", "1.25", "1.5"),
            ("2026-05-02 00:00:00+00:00", "2.25", "1.5"),
        ],
    ),
    (
        "an American spreadsheet, whose months and days could be told from their order alone",
        "Date,Time,Temp\n"
        + "".join(f'"05/{day:02}/2026","12:{day:02} AM","70.{day}"\n' for day in range(1, 8)),
        {
            "kind": "csv",
            "timestamp": "Date",
            "timestamp_clock": "Time",
            "timestamp_format": "%m/%d/%Y %I:%M %p",
        },
        ["'05/01/2026' may begin with its month or with its day", "state no zone"],
        [("2026-05-01 00:01:00+00:00", "70.1"), ("2026-05-02 00:02:00+00:00", "70.2")],
    ),
    (
        "a tracker with dates and times of digits",
        "DATE,TIME,SPEED\n260501,000500,12\n260502,235959,13\n",
        {
            "kind": "csv",
            "timestamp": "DATE",
            "timestamp_clock": "TIME",
            "timestamp_format": "%y%m%d %H%M%S",
        },
        ["'260501' may begin with its year or with its day", "state no zone"],
        [("2026-05-01 00:05:00+00:00", "12"), ("2026-05-02 23:59:59+00:00", "13")],
    ),
    (
        "a weather service, whose shift of the zone in seconds is no date of digits",
        "dt,timezone,temp\n1767225600,3600,6.5\n1767229200,3600,7\n",
        {"kind": "csv", "timestamp": "dt", "timestamp_format": "unix"},
        [],
        [("2026-01-01 00:00:00+00:00", "3600", "6.5"), ("2026-01-01 01:00:00+00:00", "3600", "7")],
    ),
    (
        "a weather station, whose times are digits",
        "QN;MESS_DATUM;TT_10\n3;202605010010;5.5\n3;202605010020;6\n",
        {
            "kind": "csv",
            "delimiter": ";",
            "timestamp": "MESS_DATUM",
            "timestamp_format": "%Y%m%d%H%M",
        },
        ["state no zone"],
        [("2026-05-01 00:10:00+00:00", "3", "5.5"), ("2026-05-01 00:20:00+00:00", "3", "6")],
    ),
    (
        "a watch that writes American dates of two digits",
        "dateTime,bpm\n04/13/26 23:59:57,72\n04/13/26 23:59:59,73\n",
        {"kind": "csv", "timestamp": "dateTime", "timestamp_format": "%m/%d/%y %H:%M:%S"},
        ["state no zone"],
        [("2026-04-13 23:59:57+00:00", "72"), ("2026-04-13 23:59:59+00:00", "73")],
    ),
    (
        "a phone in a car, which spells months",
        "GPS Time,rpm\nSun Mar 01 00:00:00 CET 2026,2000\nSun Mar 01 00:00:01 CET 2026,2010\n",
        {"kind": "csv"},
        [
            "no column of times was found: windows by time need one as timestamp, and "
            "timestamp_format; look at GPS Time",
            "text in GPS Time",
        ],
        [("", "2000"), ("", "2010")],
    ),
    (
        "a frame of pandas, whose index has no name and numbers the rows",
        ",time,x\n0,2026-01-01 00:00:00,5\n1,2026-01-01 00:10:00,6\n",
        {"kind": "csv", "timestamp": "time"},
        ["state no zone"],
        [("2026-01-01 00:00:00+00:00", "5"), ("2026-01-01 00:10:00+00:00", "6")],
    ),
    (
        "a frame of pandas, whose index has no name and holds times",
        ",x\n2026-01-01 00:00:00,5\n2026-01-01 00:10:00,6\n",
        {"kind": "csv", "skip_lines": 1, "header": ["time", "x"], "timestamp": "time"},
        ["columns have one name or none", "state no zone"],
        [("2026-01-01 00:00:00+00:00", "5"), ("2026-01-01 00:10:00+00:00", "6")],
    ),
    (
        "a store of messages, with a blank line behind each",
        '{"time": "2026-01-01T00:00:00Z", "x": 1}\n\n{"time": "2026-01-01T00:01:00Z", "x": 2}\n',
        {"kind": "jsonl", "timestamp": "time"},
        ["1 line(s) are no object of JSON, also blank ones, and are records that add nothing"],
        [("2026-01-01 00:00:00+00:00", "1"), ("", "missing")],
    ),
    (
        "a list for each quantity",
        '{"t": [{"ts": 1767225600000, "value": "20"}, {"ts": 1767225660000, "value": "21"}], '
        '"h": [{"ts": 1767225600000, "value": "48"}, {"ts": 1767225660000, "value": "49"}]}',
        {"kind": "jsonl", "records": "t", "timestamp": "ts", "timestamp_format": "unix_ms"},
        ["records names the first; each other needs a stream of its own: h"],
        [("2026-01-01 00:00:00+00:00", "20"), ("2026-01-01 00:01:00+00:00", "21")],
    ),
    (
        "a solar system, whose quantities, zone and units stand in lines behind the names",
        "time,Battery,Solar\n,Voltage,Power\nEurope/Berlin (+01:00),V,W\n"
        + "".join(f"2026-01-01 00:0{i}:00,52.{i},30{i}\n" for i in range(1, 6)),
        {
            "kind": "csv",
            "skip_lines": 3,
            "header": ["time", "Battery", "Solar"],
            "timestamp": "time",
        },
        ["2 line(s) behind the names state no value, such as 'Voltage', and are", "state no zone"],
        [("2026-01-01 00:01:00+00:00", "52.1", "301")],
    ),
    (
        "a sensor that is silent at first",
        "x,y\nNA,\nNA,\n" + "".join(f"{'NA' if i == 9 else i},{i}\n" for i in range(20)),
        {"kind": "csv"},
        ["'NA' stands among numbers", "no column of times"],
        [("", "missing", "missing"), ("", "missing", "missing"), ("", "0", "0")],
    ),
    (
        "a history of two items of Zabbix",
        "itemid,clock,value,ns\n"
        + "".join(f"{23296 + i % 2},{1767225600 + 60 * i},{i},{i}11\n" for i in range(6)),
        {"kind": "csv", "timestamp": "clock", "timestamp_format": "unix"},
        ['stream of its own, such as where = { "itemid" = "23296" }', "text in itemid"],
        [("2026-01-01 00:00:00+00:00", "0", "11"), ("2026-01-01 00:01:00+00:00", "1", "111")],
    ),
    (
        "sizes, each in a unit of its own",
        "id,size,load\n1,1.2 MB,3 %\n2,900 kB,4 %\n3,1.3 MB,5 %\n",
        {"kind": "csv", "strip": ["%"]},
        ["size has numbers in MB, kB: let the program", "no column of times", "text in size"],
        [("", "3"), ("", "4")],
    ),
    (
        "counts of visitors, with points between thousands",
        "Datum;Besucher\n01.05.2026;987\n02.05.2026;1.234\n13.05.2026;2.001\n",
        {
            "kind": "csv",
            "delimiter": ";",
            "timestamp": "Datum",
            "timestamp_format": "%d.%m.%Y",
        },
        ["every point in Besucher stands before three digits: if 1.234 is 1234", "state no zone"],
        [("2026-05-01 00:00:00+00:00", "987"), ("2026-05-02 00:00:00+00:00", "1.234")],
    ),
    (
        "a glucose meter, whose dates begin with the month",
        "Device Timestamp,mg/dL\n03-02-2026 10:05 PM,97\n03-02-2026 10:20 PM,99\n",
        {
            "kind": "csv",
            "timestamp": "Device Timestamp",
            "timestamp_format": "%d-%m-%Y %I:%M %p",
        },
        ["may begin with its day or with its month", "state no zone"],
        [("2026-02-03 22:05:00+00:00", "97"), ("2026-02-03 22:20:00+00:00", "99")],
    ),
    (
        "columns of one name",
        "time,t,t\n2026-01-01 00:00:00,1,2\n2026-01-01 00:10:00,3,4\n",
        {
            "kind": "csv",
            "skip_lines": 1,
            "header": ["time", "t", "t_2"],
            "timestamp": "time",
        },
        ["columns have one name or none", "state no zone"],
        [("2026-01-01 00:00:00+00:00", "1", "2"), ("2026-01-01 00:10:00+00:00", "3", "4")],
    ),
    (
        "a logger that writes dashes where a sensor is silent",
        "time,t\n"
        + "".join(f"2026-01-01 00:0{i}:00,{'---' if i in (3, 6) else i}\n" for i in range(10)),
        {"kind": "csv", "timestamp": "time"},
        [
            "'---' stands among numbers: where no value is meant, write missing_values = [\"---\"]",
            "state no zone",
        ],
        [("2026-01-01 00:00:00+00:00", "0"), ("2026-01-01 00:01:00+00:00", "1")],
    ),
    (
        "a buoy, whose time stands in five columns",
        "#YY MM DD hh mm WSPD\n2026 05 01 00 00 7.5\n2026 05 01 00 10 6.5\n",
        {"kind": "csv", "delimiter": "blanks"},
        ["the time stands in #YY, MM, DD, hh, mm: write it into one column"],
        [("", "7.5"), ("", "6.5")],
    ),
    (
        "columns of a scientific program",
        "# x y z\n1.0  2.0   3\n 4.0 5.0  6\n",
        {
            "kind": "csv",
            "delimiter": "blanks",
            "header": ["column1", "column2", "column3"],
            "skip_lines": 1,
        },
        ["no line names the columns", "no column of times"],
        [("", "1", "2", "3"), ("", "4", "5", "6")],
    ),
    (
        "a table between blanks whose quotes hold blanks",
        'time x\n"2026-01-01 00:00:00" 1\n"2026-01-01 00:10:00" 2\n',
        {"kind": "csv", "delimiter": "blanks", "timestamp": "time"},
        ["state no zone"],
        [("2026-01-01 00:00:00+00:00", "1"), ("2026-01-01 00:10:00+00:00", "2")],
    ),
    (
        "comments before a header",
        "# made by a meter\n# v2\ntime,kwh\n1767225600,1\n1767225660,2\n",
        {"kind": "csv", "comment": "#", "timestamp": "time", "timestamp_format": "unix"},
        [],
        [("2026-01-01 00:00:00+00:00", "1"), ("2026-01-01 00:01:00+00:00", "2")],
    ),
    (
        "a date that may begin with its month",
        "Date,v\n01/02/2026 10:00,1\n03/04/2026 10:00,2\n",
        {"kind": "csv", "timestamp": "Date", "timestamp_format": "%d/%m/%Y %H:%M"},
        ["may begin with its day or with its month", "state no zone"],
        [("2026-02-01 10:00:00+00:00", "1"), ("2026-04-03 10:00:00+00:00", "2")],
    ),
    (
        "commas that may be either",
        'a;b\n"1,234";"2,000"\n"5,678";"1,500"\n',
        {"kind": "csv", "delimiter": ";", "decimal": ","},
        ["every comma stands before three digits", "no column of times"],
        [("", "1.234", "2"), ("", "5.678", "1.5")],
    ),
    (
        "letters of Windows",
        "Zeit,Größe\n2026-01-01T00:00:00Z,1\n".encode("cp1252"),
        {"kind": "csv", "encoding": "cp1252", "timestamp": "Zeit"},
        ["not UTF-8"],
        [("2026-01-01 00:00:00+00:00", "1")],
    ),
]


@pytest.mark.parametrize(("data", "source", "doubts", "rows"), [c[1:] for c in CASES],
    ids=[c[0] for c in CASES])  # fmt: skip
def test_a_file_is_read_as_it_was_meant_or_the_doubt_is_said(
    data: str | bytes,
    source: dict[str, Any],
    doubts: list[str],
    rows: list[tuple[str, ...]],
    tmp_path: Path,
) -> None:
    found = guess(tmp_path, data)
    assert found.source == source
    assert found.rows[: len(rows)] == rows
    assert len(found.doubts) == len(doubts)
    for words, doubt in zip(sorted(doubts), sorted(found.doubts, key=lambda d: _first(doubts, d)),
                            strict=True):  # fmt: skip
        assert words in doubt


def _first(doubts: list[str], doubt: str) -> str:
    return next((words for words in doubts if words in doubt), "")


@pytest.mark.parametrize(
    ("data", "name", "words"),
    [
        (b'{\n  "data": [1, 2]\n}\n', "r.json", r"'.PATH.TO.LIST\[\]' r.json > r.jsonl"),
        (gzip.compress(b"\0" * 9, mtime=0), "r.gz", "is no text"),
        (gzip.compress(b"x\n1\n", mtime=0)[:-1], "r.gz", "must be a whole gzip file"),
        (b"\n \n", "r.csv", "holds no line"),
    ],
)
def test_a_file_of_another_kind_is_refused_with_the_way_to_make_one(
    data: bytes, name: str, words: str, tmp_path: Path
) -> None:
    with pytest.raises(SketchError, match=words):
        guess(tmp_path, data, name)


@pytest.mark.parametrize(
    ("magic", "kind"),
    [(b"PAR1", "parquet"), (b"\x93NUMPY", "npy"), (b"SQLite format 3\0", "sqlite")],
)
def test_a_binary_file_is_known_by_its_first_bytes(magic: bytes, kind: str, tmp_path: Path) -> None:
    assert guess(tmp_path, magic + bytes(100)).source["kind"] == kind


def test_columns_that_differ_in_signs_alone_keep_a_name_each(tmp_path: Path) -> None:
    found = guess(tmp_path, "time,T [C],T (C)\n2026-01-01T00:00:00Z,1,2\n")
    assert found.columns == {"t_c": "T [C]", "t_c_2": "T (C)"}
    assert found.rows == [("2026-01-01 00:00:00+00:00", "1", "2")]


PIECES = [
    *("time", "topic", "value", "x", "1", "-999", "1.5", "2,5", "1.234,5", "21 °C", "a", '"', '""'),
    *("2026-01-01", "2026-01-01T00:00:00Z", "01.02.2026", "10:00", "1767225600", "20260101"),
    *(",", ";", "\t", " ", "=", "\n", "\r\n", "#", "{", "}", "[", '{"x": 1}', "\0", "\ufeff"),
]


@settings(deadline=None, max_examples=150, suppress_health_check=list(HealthCheck))
@given(data=st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
def test_any_text_is_read_or_refused_in_words(data: str, tmp_path: Path) -> None:
    # Any other error would be one that nobody can act on.
    with suppress(SketchError):
        assert len(guess(tmp_path, data).rows) <= N_SHOWN


@pytest.fixture
def site(tmp_path: Path) -> Iterator[str]:
    """Serve a folder over HTTP; yield its address."""
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


PAGE = {
    "data": {"items": [{"at": "2026-03-01T10:00:00Z", "t": 20 + i, "h": 40.5} for i in range(9)]},
    "next": "9",
}


def test_pages_behind_an_address_are_looked_at_and_kept_nowhere(site: str, tmp_path: Path) -> None:
    (tmp_path / "page.json").write_text(json.dumps(PAGE))
    (tmp_path / "list.json").write_text(json.dumps(PAGE["data"]))
    (tmp_path / "table.csv").write_text("time,t\n2026-03-01,1\n")
    found = guess_address(f"{site}/page.json")
    assert found.source["kind"] == "http"
    assert found.source["records"] == "data.items"
    assert found.source["timestamp"] == "at"
    assert found.rows[1][1:] == ("21", "40.5")
    assert not any("names the page that follows" in doubt for doubt in found.doubts)
    alone = guess_address(f"{site}/list.json")
    assert alone.source["records"] == "items"
    assert any("names the page that follows" in doubt for doubt in alone.doubts)
    with pytest.raises(SketchError, match=r"no JSON document.*curl -o records"):
        guess_address(f"{site}/table.csv")
    with pytest.raises(SketchError, match="answers with status 404"):
        guess_address(f"{site}/nothing.json")
    with pytest.raises(SketchError, match="does not answer"):
        guess_address("http://127.0.0.1:9/records")


@pytest.mark.parametrize("data", [EXCEL, RECORDER])
def test_what_is_printed_is_a_configuration_that_reads_the_file(
    data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "r.csv"
    path.write_text(data)
    assert main(["init", "--guess", str(path)]) == 0
    printed = capsys.readouterr().out
    assert "# The first records as they will be read:" in printed
    assert "Nothing was stored, sent or spent" in printed
    config = tmp_path / "agent.toml"
    config.write_text('server = "https://example.org"\nstudy = "' + "00" * 32 + f'"\n{printed}')
    (stream,) = load_settings(config, {}).streams
    assert stream.source.timestamp in ("Datum", "last_changed")
    assert len(stream.columns) == 2
