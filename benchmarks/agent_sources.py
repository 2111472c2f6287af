"""Records a second that the agent reads from each kind of source, up to the acknowledged sketch.

The records are there when the daemon starts, and make one window; its release and upload count.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np

from benchmarks.agent_devices import Aggregator, enrol, make_header, make_texts, running_daemon
from benchmarks.processes import Process
from benchmarks.runner import Row
from deploy.demo.cluster import find_port

_D, _M = 10, 1000
_TOPIC, _CLIENT = "records", "sfumato-bench"
Texts = list[list[str]]


def measure_sources(folder: Path, aggregator: Aggregator, n_records: int) -> Iterator[Row]:
    """Measure every kind of source that needs no other server, and MQTT if there is a broker."""
    texts = make_texts(n_records, _D)
    for name, (table, write) in _KINDS.items():
        if name == "parquet" and find_spec("pyarrow") is None:
            print("no row for Parquet: the extra parquet is not installed", file=sys.stderr)
            continue
        stdin = "records.csv" if name == "stdin" else None
        yield _measure_rate(
            folder / name, aggregator, table, n_records, partial(write, texts), stdin=stdin
        )
    # A message costs more than a line.
    n_messages = n_records // 10
    with _running_broker(folder) as port:
        if port is not None:
            later = partial(_publish, port, texts[:n_messages])
            table = _make_mqtt_table(port)
            yield _measure_rate(folder / "mqtt", aggregator, table, n_messages, after=later)


def _measure_rate(
    folder: Path,
    aggregator: Aggregator,
    table: str,
    n_records: int,
    write: Callable[[Path], None] = lambda folder: None,
    *,
    stdin: str | None = None,
    after: Callable[[], None] = lambda: None,
) -> Row:
    """Measure the source of a table; ``write`` makes its records, or ``after``, once enrolled."""
    shape = {"d": _D, "m": _M, "length": n_records}
    device = enrol(folder, aggregator, **shape, source=table, write=write)
    after()
    with running_daemon(device, stdin=stdin) as (daemon, _):
        before = time.perf_counter()
        daemon.wait_until(device.has_sent(n_records))
        took = time.perf_counter() - before
    case = f"source {folder.name} d={_D} m={_M}"
    return Row("agent", case, "records_per_second", n_records / took, "1/s", 1, "none")


def measure_mqtt_memory(folder: Path, aggregator: Aggregator) -> Iterator[Row]:
    """Measure the memory of a small device that reads a topic, if there is a broker."""
    with _running_broker(folder) as port:
        if port is None:
            return
        source = _make_mqtt_table(port)
        device = enrol(folder / "small-mqtt", aggregator, d=2, m=500, length=1000, source=source)
        # The first run compiles.
        for each in (1, 2):
            _publish(port, make_texts(1000, 2))
            with running_daemon(device) as (daemon, _):
                daemon.wait_until(device.has_sent(1000 * each))
                used = daemon.rss_mb()
        yield Row("agent", "after-first-upload mqtt", "rss_mb", used, "MB", 1, "at most 60")


def _write_csv(texts: Texts, folder: Path) -> None:
    with (folder / "records.csv").open("w") as file:
        file.write(make_header(len(texts[0])))
        file.writelines(",".join(record) + "\n" for record in texts)


def _to_json(record: list[str]) -> str:
    return "{" + ", ".join(f'"x{i}": {value}' for i, value in enumerate(record)) + "}"


def _write_jsonl(texts: Texts, folder: Path) -> None:
    with (folder / "records.jsonl").open("w") as file:
        file.writelines(_to_json(record) + "\n" for record in texts)


def _write_sqlite(texts: Texts, folder: Path) -> None:
    names = [f"x{i}" for i in range(len(texts[0]))]
    connection = sqlite3.connect(folder / "records.sqlite")
    columns = ", ".join(f"{name} REAL" for name in names)
    connection.execute(f"CREATE TABLE records (id INTEGER PRIMARY KEY, {columns})")
    connection.executemany(
        f"INSERT INTO records ({', '.join(names)}) VALUES ({', '.join('?' for _ in names)})",
        np.array(texts, dtype=np.float64).tolist(),
    )
    connection.commit()
    connection.close()


def _write_parquet(texts: Texts, folder: Path) -> None:
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    columns = np.array(texts, dtype=np.float64).T
    table = pa.table({f"x{i}": column for i, column in enumerate(columns)})
    pq.write_table(table, folder / "records.parquet")


_QUERY = "SELECT * FROM records WHERE id > :last ORDER BY id LIMIT :n"
_KINDS: dict[str, tuple[str, Callable[[Texts, Path], None]]] = {
    "csv": ('kind = "csv"\npath = "records.csv"', _write_csv),
    "jsonl": ('kind = "jsonl"\npath = "records.jsonl"', _write_jsonl),
    "sqlite": (
        f'kind = "sqlite"\npath = "records.sqlite"\nkey = "id"\nquery = "{_QUERY}"',
        _write_sqlite,
    ),
    "stdin": ('kind = "stdin"\nformat = "csv"', _write_csv),
    "parquet": ('kind = "parquet"\npath = "records.parquet"', _write_parquet),
}
"""Table of the configuration, and writer of the records, by kind of source."""


def _make_mqtt_table(port: int) -> str:
    url = f"mqtt://127.0.0.1:{port}"
    return f'kind = "mqtt"\nurl = "{url}"\ntopic = "{_TOPIC}"\nclient_id = "{_CLIENT}"'


@contextmanager
def _running_broker(folder: Path) -> Iterator[int | None]:
    """Run a Mosquitto and yield its port; None if it or its client is missing."""
    program = shutil.which("mosquitto", path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")
    if program is None or find_spec("paho") is None:
        print("no rows for MQTT: mosquitto or the extra mqtt is not installed", file=sys.stderr)
        yield None
        return
    port, config = find_port(), folder / "mosquitto.conf"
    # By default it keeps only a thousand messages for a client that is away.
    config.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\n")
    broker = Process([program, "-c", config])
    try:
        yield port
    finally:
        broker.end()


def _publish(port: int, texts: Texts) -> None:
    """Create the device's session, then leave messages for it at the broker."""
    with _connected(port, client_id=_CLIENT, clean_session=False) as session:
        subscribed = Event()
        session.on_subscribe = lambda *_: subscribed.set()
        session.subscribe(_TOPIC, qos=1)
        subscribed.wait()
    with _connected(port) as publisher:
        for message in [publisher.publish(_TOPIC, _to_json(each), qos=1) for each in texts]:
            message.wait_for_publish()


@contextmanager
def _connected(port: int, **settings: Any) -> Iterator[Any]:
    import paho.mqtt.client as mqtt  # noqa: PLC0415
    from paho.mqtt.enums import CallbackAPIVersion  # noqa: PLC0415

    client = mqtt.Client(CallbackAPIVersion.VERSION2, **settings)
    while True:
        try:
            client.connect("127.0.0.1", port)
            break
        except ConnectionRefusedError:
            # The broker is still starting.
            time.sleep(0.05)
    client.loop_start()
    yield client
    client.disconnect()
    client.loop_stop()
