"""The demo's weather as if every hour of it were on a phone of its own.

The phones are simulated: 26,115 of them sketch, sign and send by the code of real agents, and the
server's code checks, adds and decodes. Phase reports stand beside sums that each phone noises
itself, which is what the seed paper offers a device with one record.
"""

from __future__ import annotations

import json
import time
import tomllib
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress

from deploy.demo.baseline import Baseline, compute_baseline, read_records
from deploy.demo.tables import tabulate_facts, tabulate_weather
from deploy.demo.weather_words import read_weather
from sfumato.shared.plan import SketchPlan, plan_from_spec
from sfumato.simulator.fleet import run_fleet
from sfumato.simulator.outcome import Outcome, decode_fleet
from sfumato.simulator.records import FileRecords

EPSILON = Fraction(2)
N_FREQUENCIES = 200
_SUMS = 100
"""Frequencies of the sums, as the demo with three agents has them."""
_OF_AGENTS = ("least_records", "most_records", "max_records_per_person", "most_sketches", "epsilon")


@dataclass(frozen=True, kw_only=True)
class PhoneOutcome:
    """What phones reported, what the same phones would have summed, and k-means.

    Some hours lack a value; their phones report a phase that says nothing.
    """

    n_unusable: int
    reports: Outcome
    sums: Outcome
    baseline: Baseline
    seconds: float

    def relative_sse(self, outcome: Outcome) -> float:
        """SSE relative to that of k-means on the same records."""
        return self.baseline.relative_sse(outcome.solution.centroids)

    def to_json(self) -> dict[str, Any]:
        """Return the figures as JSON values for scripts."""
        found = self.reports
        return {
            "phones": found.tally.n_devices,
            "epsilon": str(EPSILON),
            "verdict": found.result.verdict,
            "relative_sse": round(self.relative_sse(found), 4),
            "snr": round(found.utility.snr, 2),
            "bytes_a_report": found.tally.payload_bytes // found.tally.n_sketches,
            "bytes_a_message": found.tally.message_bytes // found.tally.n_sketches,
            "relative_sse_of_noisy_sums": round(self.relative_sse(self.sums), 4),
            "bytes_a_noisy_sum": self.sums.tally.payload_bytes // self.sums.tally.n_sketches,
            "seconds": round(self.seconds, 2),
        }


def make_plans(folder: Path, n_clusters: int) -> tuple[SketchPlan, SketchPlan]:
    """Make the plan of phase reports, and that of sums with the same epsilon."""
    spec = tomllib.loads((folder / "plan.toml").read_text(encoding="utf-8"))
    common = {name: value for name, value in spec.items() if name not in (*_OF_AGENTS, "labels")}
    common |= {"epsilon": str(EPSILON), "most_clusters": n_clusters}
    return (
        plan_from_spec({**common, "release": "phase.v1", "n_frequencies": N_FREQUENCIES}),
        plan_from_spec({**common, "n_frequencies": _SUMS, "most_records": 1, "unit": "device"}),
    )


def run(
    folder: Path,
    airports: list[str],
    n_clusters: int,
    progress: Progress,
    *,
    n_devices: int | None = None,
) -> PhoneOutcome:
    """Let every phone report its hour, and sum it.

    Parameters
    ----------
    n_devices
        Number of phones, whose hours lie evenly over the year; by default each hour has one.
    """
    records = read_records(folder / "data", airports)
    if n_devices is not None and n_devices < len(records):
        records = records[np.arange(n_devices) * len(records) // n_devices]
    hours = FileRecords(records=records, n_records=1)
    start, found = time.monotonic(), []
    plans = make_plans(folder, n_clusters)
    for plan, words in zip(plans, ("phones report phases", "the same phones sum"), strict=True):
        bar = progress.add_task(words, total=len(records))
        begun = time.monotonic()
        tally, totals = run_fleet(
            plan,
            hours,
            n_devices=len(records),
            on_progress=lambda done, bar=bar: progress.update(bar, completed=done),  # type: ignore[misc]
        )
        found.append(
            decode_fleet(
                plan,
                hours,
                tally,
                totals,
                n_clusters=n_clusters,
                seed=0,
                sketch_seconds=time.monotonic() - begun,
            )
        )
    seconds = time.monotonic() - start
    reports, sums = found
    return PhoneOutcome(
        n_unusable=int(np.isnan(records).any(axis=1).sum()),
        reports=reports,
        sums=sums,
        baseline=compute_baseline(folder / "data", airports, plans[0], n_clusters),
        seconds=seconds,
    )


def draw(outcome: PhoneOutcome, path: Path) -> None:
    """Draw the centroids over the records."""
    from sfumato.analyst.plots import plot_centroids, save_figure

    found = outcome.reports
    figure = plot_centroids(
        found.result,
        pairs=((0, 1), (2, 3)),
        title=(
            f"Weather patterns from {found.tally.n_devices:,} phones, one hour and two bytes each "
            f"(epsilon = {EPSILON} for each phone)"
        ),
        readings=[read_weather(centroid) for centroid in found.solution.centroids],
        records=outcome.baseline.records,
        baseline=outcome.baseline.centroids,
    )
    save_figure(figure, path)


def report(console: Console, outcome: PhoneOutcome, picture: Path) -> None:
    """Print what was found, and what it cost."""
    found, result = outcome.reports, outcome.reports.result
    console.print(tabulate_weather(result, "Typical weather, from one hour of each phone"))
    figures = outcome.to_json()
    facts = (
        ("verdict", f"{result.verdict}: {result.reason}"),
        ("phones", f"{found.tally.n_devices:,} simulated ones with a record each; "
         f"{outcome.n_unusable} records lack a value, and their phones report a phase that says "
         "nothing"),
        ("sent", f"{figures['bytes_a_report']} bytes a phone, {figures['bytes_a_message']} with "
         "header and signature"),
        ("quality", f"SSE {figures['relative_sse']:.3f} times that of k-means on the raw records; "
         f"if each phone noised a sum instead, {figures['relative_sse_of_noisy_sums']:.3f} times, "
         f"from {figures['bytes_a_noisy_sum']} bytes each (in units of the plan's scales; this "
         "demo may look at the records, an analyst cannot)"),
        ("guarantee", result.privacy),
        ("time", f"{outcome.seconds:.1f} s"),
        ("picture", str(picture)),
    )  # fmt: skip
    console.print(tabulate_facts(facts))
    for warning in result.warnings:
        console.print(f"[yellow]note:[/yellow] {warning}")
    console.print(
        "Next: try your own plan with `sfumato simulate PLAN --devices N`.", soft_wrap=True
    )


def to_line(outcome: PhoneOutcome) -> str:
    """Return the figures as one line of JSON."""
    return json.dumps(outcome.to_json())
