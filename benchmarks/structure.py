"""Size of the package: names, time of its import, modules, lines, files that one record passes.

A real server and a real device run under a profiler. After the device has enrolled, one file of
records is read, released and uploaded, then decoded. A file counts where one of its functions is
called from then on, in the device, the server or its worker.
"""

from __future__ import annotations

import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

import numpy as np

from benchmarks.rows import Row, run_benchmark
from deploy.demo.cluster import Aggregator, run_command
from sfumato.analyst import Client
from sfumato.shared.plan import plan_from_spec

ROOT = Path(__file__).parents[1]
SHIPPED = (
    "shared",
    "learning",
    "device_agent",
    "aggregator",
    "analyst",
    "helper",
    "simulator",
    "lab",
)
_PLAN = plan_from_spec(
    {
        "dimensions": [
            {"name": name, "unit": "m", "lower": -10.0, "upper": 10.0, "scale": 1.0}
            for name in ("x", "y")
        ],
        "n_frequencies": 60,
        "seed": "structure",
        "epsilon": "20",
        "window": {"kind": "count", "length": 100},
        "least_records": 10,
        "most_records": 5000,
    }
)
_AGENT = """\
state_dir = "{state}"
server = "{url}"
study = "{study}"

[budget]
per_record = "20"
ledger = "{state}.ledger"

[[streams]]
name = "points"

[streams.source]
kind = "csv"
path = "{data}"
"""
# Python imports it at the start of every process that has its folder on the path.
_PROFILER = """\
import atexit, json, os, sys, threading, time, uuid
last = {{}}
def profile(frame, event, argument):
    if event == "call":
        code = frame.f_code
        if code.co_name != "<module>" and code.co_filename.startswith({root!r}):
            last[code.co_filename] = time.time()
def write():
    with open(os.path.join({folder!r}, uuid.uuid4().hex), "w") as output:
        json.dump({{"command": sys.argv, "last": last}}, output)
threading.setprofile(profile)
sys.setprofile(profile)
atexit.register(write)
"""


def count_source(*folders: str) -> tuple[int, int]:
    """Return the modules and the lines of some top-level folders."""
    modules = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in modules)
    return len(modules), lines


def trace_record() -> dict[str, set[str]]:
    """Return the files that one file of records passes, by the process that called them."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        calls = folder / "calls"
        calls.mkdir()
        (folder / "sitecustomize.py").write_text(
            _PROFILER.format(root=str(ROOT) + os.sep, folder=str(calls))
        )
        before = os.environ.get("PYTHONPATH", "")
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [name, before]))
        try:
            began = _pass_records(folder)
        finally:
            os.environ["PYTHONPATH"] = before
        passed: dict[str, set[str]] = {"device": set(), "server": set()}
        for path in calls.iterdir():
            found = json.loads(path.read_text())
            side = "device" if "sfumato-agent" in found["command"][0] else "server"
            passed[side] |= {
                str(Path(file).resolve().relative_to(ROOT))
                for file, last in found["last"].items()
                # Modules are reached by the links of the package, too.
                if last >= began and Path(file).resolve().relative_to(ROOT).parts[0] in SHIPPED
            }
    return passed


def _pass_records(folder: Path) -> float:
    """Run the path of one file of records; return when the device began to read it."""
    rng = np.random.default_rng(0)
    with (folder / "records.csv").open("w", newline="") as output:
        writer = csv.writer(output)
        writer.writerow(["x", "y"])
        writer.writerows(rng.normal(size=(200, 2)).round(3).tolist())
    server = Aggregator.start(folder)
    try:
        with Client(server.url, key=server.key) as client:
            study = client.create_study("structure", _PLAN).study_id
            config = folder / "agent.toml"
            config.write_text(
                _AGENT.format(
                    state=folder / "state", url=server.url, study=study, data=folder / "records.csv"
                )
            )
            token = client.create_token(study)
            run_command("sfumato-agent", "init", "--config", str(config), "--token", token)
            began = time.time()
            run_command("sfumato-agent", "once", "--config", str(config), "--json")
            client.decode(study, n_clusters=2).wait()
    finally:
        server.stop()
    return began


def measure_import(runs: int = 9) -> float:
    """Return the milliseconds that ``import sfumato`` takes, the median of some runs."""
    program = "import time; t = time.perf_counter(); import sfumato; print(time.perf_counter() - t)"
    command = [sys.executable, "-c", program]
    seconds = [
        float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        for _ in range(runs)
    ]
    return 1000 * statistics.median(seconds)


def measure(quick: bool) -> Iterator[Row]:
    """Yield the sizes; a quick run leaves the traced record out."""
    names = (distribution("sfumato").read_text("top_level.txt") or "").split()
    yield _row("package", "top-level names", len(names), "names")
    yield _row("import sfumato", "milliseconds", measure_import(), "ms")
    trees = {"source": SHIPPED, "benchmarks": ("benchmarks",), "tests": ("tests",)}
    for case, folders in trees.items():
        modules, lines = count_source(*folders)
        yield _row(case, "modules", modules, "files")
        yield _row(case, "lines", lines, "lines")
    if not quick:
        passed = trace_record()
        for side, files in passed.items():
            yield _row(f"one record, {side}", "files passed", len(files), "files")
        both = set().union(*passed.values())
        yield _row("one record, both", "files passed", len(both), "files")


def _row(case: str, figure: str, value: float, unit: str) -> Row:
    return Row(
        benchmark="structure",
        case=case,
        figure=figure,
        value=value,
        unit=unit,
        runs=1,
        baseline="none",
    )


if __name__ == "__main__":
    run_benchmark("structure", "Size of the source, and the files that a record passes.", measure)
