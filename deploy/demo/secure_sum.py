"""The demo's secure sum: 10,000 devices with one hour of weather each, and two servers.

Leader, helper and fleet are processes of their own, each server with its own database and noise.
The same records stand beside it with noise by each device, by the simulator's code of devices and
server.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from deploy.demo.baseline import Baseline, cluster_records, read_records
from deploy.demo.cluster import BIN, Aggregator, DemoError, run_command
from deploy.demo.fleet import Fleet, FleetReport, run_fleet_process
from deploy.demo.tables import tabulate_facts, tabulate_weather
from sfumato.analyst import Client, DecodeResult
from sfumato.shared.errors import SketchError
from sfumato.shared.plan import SketchPlan, plan_from_json, plan_from_spec, plan_to_json
from sfumato.simulator.batches import make_local_twin
from sfumato.simulator.fleet import run_fleet
from sfumato.simulator.outcome import Outcome, decode_fleet
from sfumato.simulator.records import FileRecords

N_DEVICES = 10_000
STUDY_NAME = "weather of ten thousand devices"
HELPER_NAME = "Patients' association"
_SLOT_S = 3600
_OF_AGENTS = ("least_records", "most_records", "most_sketches", "labels")
_WAIT_S = 600.0


@dataclass(kw_only=True)
class Helper:
    """A running helper, with a database, keys and a journal of its own.

    Parameters
    ----------
    process, url
        Process and address of the server.
    key
        By which the leader calls it.
    plan
        The plan that it has accepted.
    """

    process: subprocess.Popen[bytes]
    url: str
    key: str
    plan: SketchPlan

    @classmethod
    def start(cls, folder: Path, draft: SketchPlan) -> Helper:
        """Make a helper, let it accept a draft, and start it on the loopback address."""
        folder.mkdir()
        kept = ["--database", str(folder / "helper.db"), "--keys", str(folder / "keys")]
        run_command("sfumato", "helper", "identity", *kept[2:])
        made = run_command("sfumato", "helper", "key", "--name", "demo", *kept[:2], "--json")
        drafted, accepted = folder / "draft.json", folder / "plan.json"
        drafted.write_text(json.dumps(plan_to_json(draft)))
        run_command(
            "sfumato", "helper", "accept", str(drafted), "--name", HELPER_NAME, "--out",
            str(accepted), "--yes", *kept,
        )  # fmt: skip
        log = folder / "helper.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [
                    BIN / "sfumato", "helper", "serve", "--port", "0", *kept, "--journal",
                    str(folder / "journal"),
                ],
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip
        return cls(
            process=process,
            url=_wait_for_address(process, log),
            key=json.loads(made)["key"],
            plan=plan_from_json(json.loads(accepted.read_text())),
        )

    def stop(self) -> None:
        """End the server."""
        if self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGTERM)
            self.process.wait()


def _wait_for_address(process: subprocess.Popen[bytes], log: Path) -> str:
    for _ in range(1200):
        found = re.search(r"listening on (\S+)", log.read_text())
        if found:
            return found[1]
        if process.poll() is not None:
            break
        time.sleep(0.1)
    raise DemoError(f"the helper did not start: {log.read_text()[-2000:]}")


@dataclass(frozen=True, kw_only=True)
class SecureOutcome:
    """What two servers opened, what the same devices give with their own noise, and k-means.

    Parameters
    ----------
    plan, result, n_reports
        The plan, the answer, and the reports in the batch.
    sent
        What the devices sent.
    local
        The same records with noise by each device, simulated.
    baseline
        K-means on the raw records.
    upload_seconds, seconds
        Durations of all enrolments and uploads, and of everything.
    """

    plan: SketchPlan
    result: DecodeResult
    n_reports: int
    sent: FleetReport
    local: Outcome
    baseline: Baseline
    upload_seconds: float
    seconds: float

    @property
    def relative_sse(self) -> float:
        """SSE relative to that of k-means on the same records."""
        return self.baseline.relative_sse(self.result.centroids)

    @property
    def local_sse(self) -> float:
        """The same with noise by each device."""
        return self.baseline.relative_sse(self.local.centroids)

    def to_json(self) -> dict[str, Any]:
        """Return the figures as JSON values for scripts."""
        tally, n = self.local.tally, self.sent.n_devices
        return {
            "devices": n,
            "epsilon": str(self.plan.release.epsilon),
            "reports_opened": self.n_reports,
            "verdict": self.result.verdict,
            "relative_sse": round(self.relative_sse, 4),
            "snr": round(self.result.snr, 3),
            "noises": 2,
            "bytes_a_message": self.sent.message_bytes // n,
            "local_verdict": self.local.result.verdict,
            "local_relative_sse": round(self.local_sse, 4),
            "local_snr": round(self.local.utility.snr, 5),
            "local_noises": tally.n_sketches,
            "local_bytes_a_message": tally.message_bytes // tally.n_sketches,
            "uploads_per_second": round(n / self.upload_seconds, 1),
            "seconds": round(self.seconds, 2),
        }


def make_draft(folder: Path, n_clusters: int, n_devices: int) -> SketchPlan:
    """Make the draft of the plan: its slot is over, and its batch closes when all have sent."""
    spec = tomllib.loads((folder / "plan.toml").read_text(encoding="utf-8"))
    common = {name: value for name, value in spec.items() if name not in _OF_AGENTS}
    start = (int(time.time()) // _SLOT_S - 1) * _SLOT_S
    return plan_from_spec(
        common
        | {
            "release": "sum.v1",
            "most_clusters": n_clusters,
            "most_records": 1,
            "max_records_per_person": 1,
            "most_sketches": 4 * n_devices,
            "least_reports": min(100, n_devices),
            "most_reports": n_devices,
            "window": {"kind": "time", "origin": start, "length_s": _SLOT_S},
        }
    )


def choose_records(data: Path, airports: list[str], n_devices: int) -> NDArray[np.float64]:
    """Choose hours without a missing value, one for each device: shape ``(n, d)``."""
    records = read_records(data, airports)
    complete = records[np.isfinite(records).all(axis=1)]
    if n_devices > len(complete):
        raise DemoError(f"there are {len(complete):,} hours for {n_devices:,} devices")
    return np.random.default_rng(0).permutation(complete)[:n_devices]


def run(
    folder: Path,
    data: Path,
    airports: list[str],
    n_clusters: int,
    progress: Progress,
    *,
    n_devices: int = N_DEVICES,
) -> SecureOutcome:
    """Start both servers, let all devices enrol and send, and decode what the two opened.

    Parameters
    ----------
    folder
        For the databases of both servers.
    data
        The demo's folder, with the plan and the weather.
    """
    started = time.monotonic()
    records = choose_records(data / "data", airports, n_devices)
    bar = progress.add_task("starting leader and helper", total=None)
    helper = Helper.start(folder / "helper", make_draft(data, n_clusters, n_devices))
    leader = None
    try:
        leader = Aggregator.start(
            folder,
            settings={"SFUMATO_HELPER_URL": helper.url, "SFUMATO_HELPER_API_KEY": helper.key},
        )
        with Client(leader.url, key=leader.key) as client:
            study = client.create_study(STUDY_NAME, helper.plan).study_id
            fleet = Fleet(
                url=leader.url,
                study=study,
                token=client.create_token(study, max_uses=n_devices),
                plan=helper.plan,
                records=records,
                slot=0,
            )
            progress.update(bar, description="devices enrol, mask, seal, send", total=n_devices)
            begun = time.monotonic()
            sent = run_fleet_process(
                fleet, folder, on_progress=lambda done: progress.update(bar, completed=done)
            )
            upload_seconds = time.monotonic() - begun
            progress.update(bar, completed=n_devices)
            bar = progress.add_task("helper and leader open the batch", total=None)
            snapshot = wait_for_batches(client, study, n_records=n_devices)
            progress.update(bar, total=1, completed=1)
            bar = progress.add_task("decoding", total=None)
            decode = client.decode(study, n_clusters=n_clusters, snapshot_id=snapshot.snapshot_id)
            result = decode.wait(allow_unusable=True)
            progress.update(bar, total=1, completed=1)
    finally:
        helper.stop()
        if leader is not None:
            leader.stop()
    local = _run_locally(helper.plan, records, n_clusters, progress)
    return SecureOutcome(
        plan=helper.plan,
        result=result,
        n_reports=snapshot.n_records,
        sent=sent,
        local=local,
        baseline=cluster_records(records, helper.plan, n_clusters),
        upload_seconds=upload_seconds,
        seconds=time.monotonic() - started,
    )


def wait_for_batches(client: Client, study: str, *, n_records: int) -> Any:
    """Wait until the opened batches hold so many records; return their snapshot."""
    ends = time.monotonic() + _WAIT_S
    while time.monotonic() < ends:
        try:
            snapshot = client.snapshot(study)
        except SketchError:
            snapshot = None
        if snapshot is not None and snapshot.n_records >= n_records:
            return snapshot
        time.sleep(0.5)
    raise DemoError(f"the batches were not opened within {_WAIT_S:g} s")


def _run_locally(
    plan: SketchPlan, records: NDArray[np.float64], n_clusters: int, progress: Progress
) -> Outcome:
    """Let the same devices add their own noise, at the same epsilon and m."""
    twin, dealt = make_local_twin(plan), FileRecords(records=records, n_records=1)
    bar = progress.add_task("the same devices, each with its own noise", total=len(records))
    begun = time.monotonic()
    tally, totals = run_fleet(
        twin,
        dealt,
        n_devices=len(records),
        on_progress=lambda done: progress.update(bar, completed=done),
    )
    return decode_fleet(
        twin,
        dealt,
        tally,
        totals,
        n_clusters=n_clusters,
        seed=0,
        sketch_seconds=time.monotonic() - begun,
    )


def report(console: Console, outcome: SecureOutcome) -> None:
    """Print what was found, and both ways of adding noise side by side."""
    figures, result = outcome.to_json(), outcome.result
    console.print(tabulate_weather(result, "Typical weather, from one hour of each device"))
    epsilon = figures["epsilon"]
    table = Table("", title=f"Epsilon {epsilon} for each record", title_justify="left")
    for heading in ("draws of noise", "SNR", "relative SSE", "bytes a message", "verdict"):
        table.add_column(heading, justify="right")
    for name, prefix in (("secure sum, two servers", ""), ("local, each device", "local_")):
        table.add_row(
            name,
            f"{figures[f'{prefix}noises']:,}",
            f"{figures[f'{prefix}snr']:.3g}",
            f"{figures[f'{prefix}relative_sse']:.3f}",
            f"{figures[f'{prefix}bytes_a_message']:,}",
            figures[f"{prefix}verdict"],
        )
    console.print(table)
    facts = (
        ("devices", f"{figures['devices']:,}, each with one hour of weather, a key of its own, an "
         "enrolment and one signed upload over HTTP"),
        ("servers", f"leader and helper ({HELPER_NAME}), two processes with two databases; the "
         f"helper never saw a sum, the leader never a seed; {figures['reports_opened']:,} reports "
         "were opened as one total"),
        ("quality", f"SSE {figures['relative_sse']:.3f} times that of k-means on the raw records; "
         f"with noise by each device (simulated) {figures['local_relative_sse']:.3f} times (in "
         "units of the plan's scales; this demo may look at the records, an analyst cannot)"),
        ("guarantee", result.privacy),
        ("time", f"{outcome.seconds:.1f} s; {figures['uploads_per_second']:,.0f} devices a second "
         "enrolled and sent"),
    )  # fmt: skip
    console.print(tabulate_facts(facts))
    for warning in result.warnings:
        console.print(f"[yellow]note:[/yellow] {warning}")
    console.print(
        "Next: docs/how-to/secure-sum.md sets up two servers of two organisations.",
        soft_wrap=True,
    )


def to_line(outcome: SecureOutcome) -> str:
    """Return the figures as one line of JSON."""
    return json.dumps(outcome.to_json())
