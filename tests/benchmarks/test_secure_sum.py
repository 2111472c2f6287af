"""The benchmark of secure sums measures what it says."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np
import pytest

from benchmarks.secure_sum_servers import (
    _measure_error,
    make_draft,
    measure_device,
    measure_opened,
    open_helper,
)
from deploy.demo.fleet import FleetReport
from sfumato.shared.wire import encode_payload

pytestmark = pytest.mark.usefixtures("forked")


def test_a_message_of_a_thousand_frequencies_is_as_short_as_stated() -> None:
    rows = {row.figure: row.value for row in measure_device(quick=True)}

    assert rows["message_bytes"] <= 10_600
    assert rows["header_bytes"] <= 300
    assert rows["cpu_ms"] > 0


@pytest.mark.parametrize("lost", [False, True])
def test_a_report_that_is_missing_shows_in_the_error(lost: bool, tmp_path: Path) -> None:
    """The noise is that of two draws; a report whose mask is missing moves every coordinate."""
    _, plan = open_helper(tmp_path, make_draft(100, most_reports=100))
    rng, sums = np.random.default_rng(0), np.arange(plan.n_coordinates)
    total = sums.copy()
    total += np.rint(np.sqrt(plan.released_variance) * rng.normal(size=sums.size)).astype(np.int64)
    if lost:
        half = 1 << (8 * plan.payload_width - 2)
        total += rng.integers(-half, half, size=sums.size)
    database = tmp_path / "leader.db"
    with sqlite3.connect(database) as connection:
        connection.execute("CREATE TABLE batches (sums BLOB)")
        row = encode_payload(total, plan.payload_width)
        connection.execute("INSERT INTO batches VALUES (?)", (row,))
    sent = FleetReport(n_devices=5, message_bytes=0, sums=sums.tolist())

    error = _measure_error(database, plan, sent)

    # 200 coordinates: 5 % off is one deviation.
    assert (error > 100) if lost else (0.8 < error < 1.2)


def test_leader_and_helper_open_what_a_fleet_of_devices_sends(tmp_path: Path) -> None:
    """Three programs: what no other test runs together. The error is that of two draws: 50 % more
    or 40 % less of their fresh noise have a chance below 1e-15."""
    rows = {row.figure: row.value for row in measure_opened(tmp_path, n_reports=12)}

    assert rows["reports_opened"] == 12
    assert rows["batches"] == 1
    assert 0.6 < rows["error_over_two_noises"] < 1.5
