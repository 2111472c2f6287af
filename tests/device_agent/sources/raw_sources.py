"""Sources of every kind made of raw bytes, so that one record may hold anything that fits."""

import gzip
import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import paho.mqtt.client as mqtt
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from sfumato.device_agent.sources import RecordSource
from sfumato.device_agent.sources.mqtt_source import MqttSource
from sfumato.device_agent.sources.stdin_source import StdinSource
from sfumato.shared.plan import Dimension
from tests.device_agent.sources.streams import DIGEST_KEY, Reader, make_dimensions, make_stream

TIMES: dict[str, Any] = {"timestamp": "t", "timestamp_format": "unix"}
QUERY = "SELECT k, t, x, note FROM r WHERE k > :last ORDER BY k LIMIT :n"
LEVELS = ("a", "é", 'say "b", c', "1", "true", "nan", "null")
COLUMNS = make_dimensions("x", Dimension(name="note", unit="1", levels=LEVELS))
"""What is read of a record: a number, and text."""


@dataclass(frozen=True, kw_only=True)
class Raw:
    """One record: its time and id, which are public, and its other fields as raw text.

    With ``whole`` it is that alone, where a source has no fields of its own.
    """

    time: Any
    id: int
    x: Any
    note: Any
    whole: bytes | None = None


@dataclass(frozen=True, kw_only=True)
class Found:
    """Records read, in order; ``places`` leave out fields that follow from lengths and bytes."""

    values: NDArray[np.float64]
    timestamps: NDArray[np.float64]
    places: list[dict[str, Any]]


def collect(source: RecordSource, *, d: int = len(COLUMNS)) -> Found:
    """Read a source to its end, and close it."""
    values, timestamps, places = [np.empty((0, d))], [np.empty(0)], []
    with closing(source):
        while (batch := source.read_batch()) is not None:
            values.append(batch.values)
            timestamps.append(batch.timestamps)
            place = dict(batch.position_after(len(batch.values) - 1).place)
            places.append({k: v for k, v in place.items() if k not in ("offset", "digest")})
    return Found(
        values=np.concatenate(values), timestamps=np.concatenate(timestamps), places=places
    )


def to_csv(records: Sequence[Raw], *, with_ids: bool = False) -> bytes:
    """Return lines without a header; what is no bytes is written as plain text."""
    lines = []
    for r in records:
        ids = [b"%d" % r.id] if with_ids else []
        fields = [b"%d" % r.time, *ids, _raw(r.x), _raw(r.note)]
        lines.append((b",".join(fields) if r.whole is None else r.whole) + b"\n")
    return b"".join(lines)


def to_json(record: Raw) -> bytes:
    """Return one object whose other fields stand there as they are."""
    if record.whole is not None:
        return record.whole
    x, note = (
        value if isinstance(value, bytes) else json.dumps(value).encode()
        for value in (record.x, record.note)
    )
    return b'{"t": %d, "n": %d, "x": %s, "note": %s}' % (record.time, record.id, x, note)


def _raw(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def read_csv(folder: Path, records: Sequence[Raw]) -> Found:
    """Read them from a CSV file."""
    (folder / "r").write_bytes(b"t,x,note\n" + to_csv(records))
    return collect(Reader(make_stream(folder, kind="csv", path="r", **TIMES), COLUMNS).open())


def read_jsonl(folder: Path, records: Sequence[Raw]) -> Found:
    """Read them from a file of JSON lines."""
    (folder / "r").write_bytes(b"".join(to_json(r) + b"\n" for r in records))
    return collect(Reader(make_stream(folder, kind="jsonl", path="r", **TIMES), COLUMNS).open())


def read_packed(folder: Path, records: Sequence[Raw]) -> Found:
    """Read them from a CSV file that is packed."""
    (folder / "r").write_bytes(gzip.compress(b"t,x,note\n" + to_csv(records)))
    stream = make_stream(folder, kind="csv", path="r", packed="gzip", **TIMES)
    return collect(Reader(stream, COLUMNS).open())


def read_document(folder: Path, records: Sequence[Raw]) -> Found:
    """Read them from a JSON document that is indented."""
    items = b",\n  ".join(map(to_json, records))
    (folder / "r").write_bytes(b'{"n": 3, "a": {"r": [\n  ' + items + b"\n]}}")
    stream = make_stream(folder, kind="jsonl", path="r", records="a.r", **TIMES)
    return collect(Reader(stream, COLUMNS).open())


def read_wide(folder: Path, records: Sequence[Raw]) -> Found:
    """Read them from a CSV file in UTF-16, whose fields may be any units of 16 bits."""
    lines = ["t,x,note".encode("utf-16-le")]
    for r in records:
        fields = [each if isinstance(each, bytes) else str(each).encode("utf-16-le")
                  for each in (r.time, r.x, r.note)]  # fmt: skip
        lines.append(b",\0".join(fields) if r.whole is None else r.whole)
    (folder / "r").write_bytes(b"\xff\xfe" + b"".join(line + b"\n\0" for line in lines))
    stream = make_stream(folder, kind="csv", path="r", encoding="utf-16", **TIMES)
    return collect(Reader(stream, COLUMNS).open())


def read_chosen(folder: Path, records: Sequence[Raw], *, form: str) -> Found:
    """Read them from lines that are chosen by a public field, among those of another sensor."""
    if form == "csv":
        head = b"t,s,x,note\n"
        lines = [b"%d,a," % r.time + b",".join([_raw(r.x), _raw(r.note)]) for r in records]
        other = b'7,b,"1,2\n'
    else:
        head = b""
        lines = [to_json(r).replace(b'{"t"', b'{"s": "a", "t"', 1) for r in records]
        other = b'{"s": "b", "t": 3, "x": [}\n'
    (folder / "r").write_bytes(head + b"".join(line + b"\n" + other for line in lines))
    options: dict[str, Any] = {"kind": form, "path": "r", "where": {"s": "a"}, **TIMES}
    return collect(Reader(make_stream(folder, **options), COLUMNS).open())


def read_points(folder: Path, records: Sequence[Raw]) -> Found:
    """Read them from a file of line protocol; a level in quotes, as it escapes them."""
    lines = []
    for r in records:
        note = str(r.note).replace("\\", "\\\\").replace('"', '\\"')
        line = f'm,id={r.id} x={r.x},note="{note}" {r.time}'.encode()
        lines.append((line if r.whole is None else r.whole) + b"\n")
    (folder / "r").write_bytes(b"".join(lines))
    options: dict[str, Any] = {"timestamp": "time", "timestamp_format": "unix"}
    return collect(Reader(make_stream(folder, kind="influx", path="r", **options), COLUMNS).open())


def read_folder(folder: Path, records: Sequence[Raw]) -> Found:
    """Read them from a folder of two files."""
    inbox = folder / "in"
    inbox.mkdir(exist_ok=True)
    for name, is_second in (("a", False), ("b", True)):
        part = [r for r in records if (r.id > 20) is is_second]
        (inbox / name).write_bytes(b"t,x,note\n" + to_csv(part))
    return collect(Reader(make_stream(folder, kind="folder", path="in", **TIMES), COLUMNS).open())


def read_stdin(folder: Path, records: Sequence[Raw], *, with_ids: bool) -> Found:
    """Read them from a descriptor as standard input."""
    path = folder / "r"
    header = b"t,n,x,note\n" if with_ids else b"t,x,note\n"
    path.write_bytes(header + to_csv(records, with_ids=with_ids))
    options: dict[str, Any] = {"id": "n"} if with_ids else {}
    stream = make_stream(folder, kind="stdin", **options, **TIMES)
    with path.open("rb") as file:
        return collect(StdinSource(stream, COLUMNS, [], DIGEST_KEY, fd=file.fileno()))


def read_sqlite(folder: Path, records: Sequence[Raw]) -> Found:
    """Read them from a table."""
    path = folder / "r.db"
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE r (k INTEGER PRIMARY KEY, t, x, note)")
        rows = [(r.id, r.time, r.x, r.note) for r in records]
        database.executemany("INSERT INTO r VALUES (?, ?, ?, ?)", rows)
        database.commit()
    stream = make_stream(folder, kind="sqlite", path="r.db", query=QUERY, key="k", **TIMES)
    return collect(Reader(stream, COLUMNS).open())


def read_parquet(folder: Path, records: Sequence[Raw]) -> Found:
    """Read them from a Parquet file."""
    path = folder / "r.parquet"
    path.unlink(missing_ok=True)
    table = pa.table(
        {
            "t": pa.array([r.time for r in records], pa.int64()),
            "x": pa.array([r.x for r in records], pa.float64()),
            "note": pa.array([r.note for r in records], pa.string()),
        }
    )
    pq.write_table(table, path, row_group_size=7)
    return collect(
        Reader(make_stream(folder, kind="parquet", path="r.parquet", **TIMES), COLUMNS).open()
    )


def read_npy(folder: Path, records: Sequence[Raw]) -> Found:
    """Read them from a structured array."""
    path = folder / "r.npy"
    path.unlink(missing_ok=True)
    rows = [(r.time, r.x, r.note) for r in records]
    kind = "S12" if any(isinstance(r.note, bytes) for r in records) else "U12"
    kinds = [("t", "f8"), ("x", "f8"), ("note", kind)]
    np.save(path, np.array(rows, dtype=kinds))
    return collect(Reader(make_stream(folder, kind="npy", path="r.npy", **TIMES), COLUMNS).open())


def read_mqtt(folder: Path, records: Sequence[Raw], *, form: str, with_ids: bool) -> Found:
    """Hand them to the source as the client library does, each a message."""
    options: dict[str, Any] = {"url": "mqtt://127.0.0.1", "topic": "a", "client_id": "c"}
    if with_ids:
        options["id"] = "n"
    if form == "csv":
        options["header"] = ["t", "n", "x", "note"] if with_ids else ["t", "x", "note"]
    stream = make_stream(folder, kind="mqtt", format=form, **options, **TIMES)
    source = MqttSource(stream, COLUMNS, [], DIGEST_KEY)
    for record in records:
        message = mqtt.MQTTMessage()
        line = to_csv([record], with_ids=with_ids)[:-1]
        message.payload = line if form == "csv" else to_json(record)
        source._on_message(None, None, message)
    batch = source._take()
    source.close()
    assert batch is not None
    place = dict(batch.position_after(len(batch.values) - 1).place)
    return Found(values=batch.values, timestamps=batch.timestamps, places=[place])


class Pages:
    """A server on this machine that gives records in pages."""

    def __init__(self) -> None:
        self.pages: list[bytes] = []

    def put(self, records: Sequence[Raw]) -> None:
        """Give these records, ten a page, in the form of chunks that cut them anywhere."""
        parts = [records[i : i + 10] for i in range(0, len(records), 10)]
        self.pages = [
            b'{"about": {"records": 1}, "records": [%s], "next": %s, "z": "]}"}'
            % (
                b" ,\n".join(map(to_json, part)),
                b"null" if i + 1 == len(parts) else b'"%d"' % (i + 1),
            )
            for i, part in enumerate(parts)
        ]

    @contextmanager
    def serving(self) -> Iterator[str]:
        """Answer, and give the address."""
        pages = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                _, _, cursor = self.path.partition("cursor=")
                body = pages.pages[int(cursor or 0)]
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/r"
        finally:
            server.shutdown()
            thread.join()
            server.server_close()

    def read(self, folder: Path, url: str, records: Sequence[Raw]) -> Found:
        """Give them and read them."""
        self.put(records)
        source = Reader(make_stream(folder, kind="http", url=url, **TIMES), COLUMNS).open()
        values, timestamps, places = [], [], []
        with closing(source):
            for batch in source.read():
                values.append(batch.values)
                timestamps.append(batch.timestamps)
                place = batch.position_after(len(batch.values) - 1).place
                places.append({k: v for k, v in place.items() if k != "digest"})
        return Found(
            values=np.concatenate(values), timestamps=np.concatenate(timestamps), places=places
        )
