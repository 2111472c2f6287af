import os
import shutil
from pathlib import Path

import pytest

from benchmarks.agent import (
    measure_installed,
    measure_recovery,
    measure_size,
    measure_tail,
)
from benchmarks.agent_devices import running_aggregator
from benchmarks.agent_sources import measure_mqtt_memory, measure_sources

pytestmark = pytest.mark.usefixtures("forked")


def test_the_daemon_and_how_far_it_is_behind_are_measured_over_tls(tmp_path: Path) -> None:
    with running_aggregator(tmp_path) as aggregator:
        assert aggregator.url.startswith("https://")
        rows = {row.case: row for row in measure_size(tmp_path, aggregator, runs=1)}
        behind = {
            row.figure: row.value
            for row in measure_tail(tmp_path, aggregator, rate=1000, seconds=1)
        }
    assert set(rows) == {"idle", "after-first-upload", "start", "window m=500"}
    # A process with NumPy in it is never smaller, and a sketch is at least its coordinates.
    assert rows["idle"].value > 20
    assert rows["window m=500"].value > 1000
    assert rows["start"].value > 0
    assert set(behind) == {"records_per_second", "cpu_fraction", "behind_seconds", "rss_mb"}
    assert 0 <= behind["cpu_fraction"] < 2
    assert behind["behind_seconds"] > 0


def test_what_is_installed_is_summed_over_the_packages_that_the_agent_needs() -> None:
    rows = {row.case: row.value for row in measure_installed()}
    total = rows.pop("installed")
    assert total == pytest.approx(sum(rows.values()))
    names = {case.removeprefix("installed ") for case in rows}
    assert {"sfumato", "numpy", "cbor2", "cryptography", "httpx"} <= names
    assert not names & {"scipy", "fastapi", "rich", "pyarrow"}


@pytest.mark.soak
def test_every_source_on_this_machine_has_a_rate(tmp_path: Path) -> None:
    has_broker = shutil.which("mosquitto", path=f"{os.environ['PATH']}:/usr/sbin") is not None
    with running_aggregator(tmp_path) as aggregator:
        rows = {row.case: row.value for row in measure_sources(tmp_path, aggregator, 1000)}
        memory = list(measure_mqtt_memory(tmp_path, aggregator))
    kinds = ["csv", "jsonl", "sqlite", "stdin", "parquet"]
    kinds += ["mqtt"] if has_broker else []
    assert list(rows) == [f"source {kind} d=10 m=1000" for kind in kinds]
    assert all(rate > 0 for rate in rows.values())
    assert [row.value > 20 for row in memory] == [True] * has_broker


def test_after_an_outage_every_waiting_sketch_is_at_the_server_once() -> None:
    rows = {row.figure: row.value for row in measure_recovery(n_sketches=5, outage_s=0.1)}
    assert rows["waiting"] == rows["stored"] == 5
    assert rows["stored_records"] == 50
    assert rows["seconds"] > 0
