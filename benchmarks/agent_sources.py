"""Records a second that the agent reads from each kind of source, up to the acknowledged sketch.

The records are there when the daemon starts, and make one window; its release and upload count.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from benchmarks.agent_devices import (
    Aggregator,
    enrol,
    make_header,
    make_texts,
    row,
    running_daemon,
)
from benchmarks.rows import Row
from deploy.demo.cluster import find_port

if TYPE_CHECKING:
    import paho.mqtt.client as mqtt

_D, _M = 10, 1000
_TOPIC, _CLIENT = "records", "sfumato-bench"


@dataclass(frozen=True, kw_only=True)
class _Kind:
    """A kind of source: its table in the configuration, and the writer of its records."""

    name: str
    table: str
    write: Callable[[Path, list[list[str]]], None]
    stdin: str | None = None


def measure_sources(folder: Path, aggregator: Aggregator, n_records: int) -> Iterator[Row]:
    """Measure every kind of source that needs no other server, and MQTT if there is a broker."""
    texts = make_texts(n_records, _D)
    for kind in _KINDS:
        if kind.name == "parquet" and find_spec("pyarrow") is None:
            print("no row for Parquet: the extra parquet is not installed", file=sys.stderr)
            continue
        device = enrol(
            folder / kind.name,
            aggregator,
            d=_D,
            m=_M,
            length=n_records,
            source=kind.table,
            write=_bind(kind.write, texts),
        )
        stdin = None if kind.stdin is None else device.folder / kind.stdin
        with running_daemon(device, stdin=stdin) as daemon:
            before = time.perf_counter()
            daemon.wait_until_sent(n_records)
            took = time.perf_counter() - before
        yield _make_rate(kind.name, n_records / took)
    # A message costs more than a line.
    n_messages = n_records // 10
    with _running_broker(folder) as port:
        if port is None:
            return
        source = _make_mqtt_table(port)
        device = enrol(folder / "mqtt", aggregator, d=_D, m=_M, length=n_messages, source=source)
        _publish(port, texts[:n_messages])
        with running_daemon(device) as daemon:
            before = time.perf_counter()
            daemon.wait_until_sent(n_messages)
            took = time.perf_counter() - before
        yield _make_rate("mqtt", n_messages / took)


def _bind(
    write: Callable[[Path, list[list[str]]], None], texts: list[list[str]]
) -> Callable[[Path], None]:
    return lambda folder: write(folder, texts)


def measure_mqtt_memory(folder: Path, aggregator: Aggregator) -> Iterator[Row]:
    """Measure the memory of a small device that reads a topic, if there is a broker."""
    with _running_broker(folder) as port:
        if port is None:
            return
        source = _make_mqtt_table(port)
        device = enrol(folder / "small-mqtt", aggregator, d=2, m=500, length=1000, source=source)
        # The first run compiles.
        for run in (1, 2):
            _publish(port, make_texts(1000, 2))
            with running_daemon(device) as daemon:
                daemon.wait_until_sent(1000 * run)
                used = daemon.rss_mb()
        yield row("after-first-upload mqtt", "rss_mb", used, "MB", 1, "at most 60")


def _make_rate(kind: str, rate: float) -> Row:
    case = f"source {kind} d={_D} m={_M}"
    return row(case, "records_per_second", rate, "1/s", 1, "none")


def _write_csv(path: Path, texts: list[list[str]]) -> None:
    with path.open("w") as file:
        file.write(make_header(len(texts[0])))
        file.writelines(",".join(record) + "\n" for record in texts)


def _to_json(record: list[str]) -> str:
    return "{" + ", ".join(f'"x{i}": {value}' for i, value in enumerate(record)) + "}"


def _write_jsonl(folder: Path, texts: list[list[str]]) -> None:
    with (folder / "records.jsonl").open("w") as file:
        file.writelines(_to_json(record) + "\n" for record in texts)


def _write_folder(folder: Path, texts: list[list[str]]) -> None:
    """Write ten files of equal size."""
    (folder / "arrived").mkdir()
    for i in range(10):
        _write_csv(folder / "arrived" / f"{i}.csv", texts[i::10])


def _write_sqlite(folder: Path, texts: list[list[str]]) -> None:
    names = [f"x{i}" for i in range(len(texts[0]))]
    marks = ", ".join("?" for _ in names)
    connection = sqlite3.connect(folder / "records.sqlite")
    columns = ", ".join(f"{name} REAL" for name in names)
    connection.execute(f"CREATE TABLE records (id INTEGER PRIMARY KEY, {columns})")
    connection.executemany(
        f"INSERT INTO records ({', '.join(names)}) VALUES ({marks})", _to_floats(texts).tolist()
    )
    connection.commit()
    connection.close()


def _write_parquet(folder: Path, texts: list[list[str]]) -> None:
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    columns = {f"x{i}": column for i, column in enumerate(_to_floats(texts).T)}
    pq.write_table(pa.table(columns), folder / "records.parquet")


def _to_floats(texts: list[list[str]]) -> NDArray[np.float64]:
    return np.array(texts, dtype=np.float64)


_KINDS = (
    _Kind(
        name="csv",
        table='kind = "csv"\npath = "records.csv"',
        write=lambda folder, texts: _write_csv(folder / "records.csv", texts),
    ),
    _Kind(name="jsonl", table='kind = "jsonl"\npath = "records.jsonl"', write=_write_jsonl),
    _Kind(
        name="folder",
        table='kind = "folder"\npath = "arrived"\nformat = "csv"\nwhole = true',
        write=_write_folder,
    ),
    _Kind(
        name="sqlite",
        table=(
            'kind = "sqlite"\npath = "records.sqlite"\nkey = "id"\n'
            'query = "SELECT * FROM records WHERE id > :last ORDER BY id LIMIT :n"'
        ),
        write=_write_sqlite,
    ),
    _Kind(
        name="stdin",
        table='kind = "stdin"\nformat = "csv"',
        write=lambda folder, texts: _write_csv(folder / "records.csv", texts),
        stdin="records.csv",
    ),
    _Kind(name="parquet", table='kind = "parquet"\npath = "records.parquet"', write=_write_parquet),
)


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
    process = subprocess.Popen(
        [program, "-c", config], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield port
    finally:
        process.terminate()
        process.wait()


def _publish(port: int, texts: list[list[str]]) -> None:
    """Create the device's session, then leave messages for it at the broker."""
    import paho.mqtt.client as mqtt  # noqa: PLC0415
    from paho.mqtt.enums import CallbackAPIVersion  # noqa: PLC0415

    session = mqtt.Client(CallbackAPIVersion.VERSION2, client_id=_CLIENT, clean_session=False)
    subscribed = Event()
    session.on_subscribe = lambda *_: subscribed.set()
    _connect(session, port)
    session.subscribe(_TOPIC, qos=1)
    subscribed.wait()
    _disconnect(session)
    publisher = mqtt.Client(CallbackAPIVersion.VERSION2)
    _connect(publisher, port)
    sent = [publisher.publish(_TOPIC, _to_json(record), qos=1) for record in texts]
    for message in sent:
        message.wait_for_publish()
    _disconnect(publisher)


def _connect(client: mqtt.Client, port: int) -> None:
    while True:
        try:
            client.connect("127.0.0.1", port)
        except ConnectionRefusedError:
            # The broker is still starting.
            time.sleep(0.05)
        else:
            client.loop_start()
            return


def _disconnect(client: mqtt.Client) -> None:
    client.disconnect()
    client.loop_stop()
