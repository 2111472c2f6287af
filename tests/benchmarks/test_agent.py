from pathlib import Path

import pytest

from benchmarks.agent import measure_installed, measure_size, running_aggregator


def test_the_daemon_is_measured_over_tls(tmp_path: Path) -> None:
    with running_aggregator(tmp_path) as aggregator:
        assert aggregator.url.startswith("https://")
        rows = {row.case: row for row in measure_size(tmp_path, aggregator, runs=1)}
    assert set(rows) == {"idle", "after-first-upload", "start", "window m=500"}
    # A process with NumPy in it is never smaller, and a sketch is at least its coordinates.
    assert rows["idle"].value > 20
    assert rows["window m=500"].value > 1000
    assert rows["start"].value > 0


def test_what_is_installed_is_summed_over_the_packages_that_the_agent_needs() -> None:
    rows = {row.case: row.value for row in measure_installed()}
    total = rows.pop("installed")
    assert total == pytest.approx(sum(rows.values()))
    names = {case.removeprefix("installed ") for case in rows}
    assert {"sfumato", "numpy", "cbor2", "cryptography", "httpx"} <= names
    assert not names & {"scipy", "fastapi", "rich", "pyarrow"}
