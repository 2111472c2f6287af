import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import decoding
from benchmarks.datasets import Mixture
from benchmarks.experiments import Bench, Options
from benchmarks.trials import Case

ROOT = Path(__file__).parents[2]


def test_the_command_prints_one_json_object_a_line_and_draws_with_a_bar_in_a_terminal(
    tmp_path: Path,
) -> None:
    picture = tmp_path / "quality.png"
    leader, follower = os.openpty()
    with (tmp_path / "rows").open("wb") as output:
        process = subprocess.Popen(
            [
                sys.executable, "-m", "benchmarks.decoding", "--case", "weather noiseless",
                "--seeds", "1", "--json", "--solver", "cl-ompr", "--plot", str(picture),
            ],
            cwd=ROOT, stdout=output, stderr=follower, env=os.environ | {"TERM": "xterm"},
        )  # fmt: skip
        os.close(follower)
        shown = _read_all(leader)
        assert process.wait() == 0, shown
    assert "1/1" in shown
    assert "median_relative_sse" not in shown
    rows = [json.loads(line) for line in (tmp_path / "rows").read_text().splitlines()]
    assert [row["figure"] for row in rows] == [
        "median_relative_sse", "p90_relative_sse", "truth_start_median", "truth_start_p90",
        "median_seconds", "n_frequencies",
    ]  # fmt: skip
    for row in rows:
        assert row["benchmark"] == "decoding"
        assert row["case"] == "weather noiseless solver=cl-ompr"
        assert row["runs"] == 1
        assert set(row) == {
            "benchmark", "case", "figure", "value", "unit", "runs", "baseline", "commit", "machine",
        }  # fmt: skip
    assert 0.99 < rows[0]["value"] < 10.0
    assert rows[5]["value"] == 100
    assert picture.read_bytes().startswith(b"\x89PNG")


def _read_all(terminal: int) -> str:
    """Read until the other side is closed, which Linux reports as an error."""
    read = b""
    try:
        while part := os.read(terminal, 4096):
            read += part
    except OSError:
        pass
    finally:
        os.close(terminal)
    return read.decode()


def test_without_pycle_a_row_says_why(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Mixture(n_dimensions=2, n_clusters=2, n_records=300)
    monkeypatch.setattr(decoding, "PEERS", Case(name="peers tiny", source=source, features=5))
    # As where pycle is not installed, whatever this machine has.
    monkeypatch.setitem(sys.modules, "pycle", None)
    bench = Bench(options=Options(cases=("peers",), seeds=1))
    rows = {row.figure: row for row in decoding.measure_cases(bench)}
    assert rows["pycle_available"].value == 0.0
    assert "pycle" in rows["pycle_available"].baseline
    assert 0.99 < rows["median_relative_sse"].value < 100.0
    assert "speedup_over_pycle/1.2" not in rows
