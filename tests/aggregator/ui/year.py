"""A study of a year of real weather in windows, from three airports, with seeded noise."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from deploy.demo.baseline import COLUMNS
from deploy.demo.cluster import Aggregator
from sfumato.analyst import Client
from sfumato.shared.core import SketchAccumulator
from sfumato.shared.plan import SketchPlan
from sfumato.shared.privacy.testing import SeededSource
from tests.aggregator.fleet import Device
from tests.aggregator.ui.scene import name_device, upload

DEMO = Path(__file__).parents[3] / "deploy" / "demo"
AIRPORTS = ("EWR", "JFK", "LGA")


def read_windows(
    airport: str, plan: SketchPlan
) -> Iterator[tuple[int, np.ndarray[Any, np.dtype[np.float64]]]]:
    """Yield slot and records of each window of an airport, in order."""
    slots: dict[int, list[list[float]]] = {}
    with (DEMO / "data" / f"{airport.lower()}.csv").open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            time = datetime.fromisoformat(row["time_hour"]).timestamp()
            slot = int((time - plan.window.origin) // plan.window.length_s)
            values = [float(row[name]) if row[name] else np.nan for name in COLUMNS]
            slots.setdefault(slot, []).append(values)
    for slot, records in sorted(slots.items()):
        if plan.least_records <= len(records):
            yield slot, np.array(records)


def publish_year(aggregator: Aggregator, name: str, plan: SketchPlan) -> str:
    """Publish the study, in which each airport has sent a sketch of every window."""
    with (
        Client(aggregator.url, key=aggregator.key) as client,
        httpx.Client(base_url=aggregator.url) as http,
    ):
        study = client.create_study(name, plan, allow_same_plan=True).study_id
        identity = bytes.fromhex(study)
        for i, airport in enumerate(AIRPORTS):
            device = Device(1000 + i, {"airport": airport})
            body = device.enrolment(client.create_token(study), identity)
            assert http.post("/v1/enrolments", json=body).status_code == 201
            name_device(http, device, f"mast at {airport}")
            for sequence, (slot, records) in enumerate(read_windows(airport, plan)):
                source = SeededSource(10_000 * i + slot)
                accumulator = SketchAccumulator(plan.statistic_of(b""))
                accumulator.add(records)
                exact = plan.finish_sum(accumulator.sums, len(records))
                sent = device.message(
                    identity,
                    plan,
                    plan.mechanism.add_noise(exact, source),
                    n_records=len(records),
                    sequence=sequence,
                    slots=(slot, slot),
                )
                assert upload(http, study, *sent) == 201
    return study
