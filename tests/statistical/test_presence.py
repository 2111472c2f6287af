"""A whole device that hides presence, from a file of records to the signed bytes in its outbox.

Every slot of a stream is a run: under one data set it holds a record, the worst for the mechanism,
under the other none. What the auditor sees of a slot is the released numbers, and whatever else
could tell: whether there is a sketch at all, how long it is, every number in its header, and what
the device keeps of it.

False alarms: 2e-6 a test of an honest device, as in ``test_audit_statistics.py``.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sfumato.device_agent.agent.device import Device
from sfumato.device_agent.agent.joining import digest_reading
from sfumato.device_agent.agent.owners_ledger import SharedBudget
from sfumato.device_agent.agent.reading import release as releasing, slots as reading
from sfumato.device_agent.sources.file_source import FileSettings
from sfumato.device_agent.sources.settings import StreamSettings
from sfumato.device_agent.store import schema
from sfumato.device_agent.store.database import Connection
from sfumato.device_agent.store.joined import Joined, save_joined
from sfumato.device_agent.store.key import DeviceKey, key_folder
from sfumato.device_agent.store.streams import load_slot
from sfumato.device_agent.windows import Clocks
from sfumato.shared.core.engines import default_engine
from sfumato.shared.plan import SketchPlan
from sfumato.shared.privacy import Budget
from sfumato.shared.privacy.testing import SeededSource
from sfumato.shared.wire import SketchHeader, decode_message, decode_payload, encode_payload
from tests.statistical import devices
from tests.statistical.auditor import ATTACKS, Finding, Floats, judge_scores
from tests.statistical.devices import EPSILON, LENGTH, ORIGIN

FEW_RUNS = 600
"""Enough where a data set is told for certain, or nearly so."""
STREAM = "meter"


def make_plan(mechanism: str, m: int) -> SketchPlan:
    return devices.make_plan("fourier", mechanism, "add-remove-one", n_frequencies=m)


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Where devices are audited: a folder for their records, and a switch for planted errors."""

    folder: Path
    patch: pytest.MonkeyPatch

    def audit(self, plan: SketchPlan, *, n_runs: int, seed: int) -> Finding:
        """Run the device once with a record in every slot and once with none, and judge it."""
        neighbours = devices.make_neighbours(plan)
        source = SeededSource(seed)
        self.patch.setattr(releasing, "SystemSource", lambda: source)
        self.patch.setattr(reading, "make_statistic", lambda *_, **__: neighbours.statistic)
        records = (neighbours.near, neighbours.far)
        seen = [self.run_device(plan, record, n_runs) for record in records]
        centres = [sums.astype(np.float64) for sums in neighbours.compute_sums()]
        d = plan.n_coordinates
        scores = {
            name: [attack(s[:, :d], *centres) for s in seen] for name, attack in ATTACKS.items()
        }
        scores |= {f"visible {i}": [s[:, i] for s in seen] for i in range(d, seen[0].shape[1])}
        return judge_scores(scores, n_runs=n_runs, delta=float(plan.release.delta))

    def run_device(self, plan: SketchPlan, record: Floats, n_slots: int) -> Floats:
        """Release every slot; return what each shows: released numbers, then all the rest."""
        path = self.folder / "records.csv"
        rows = [
            f"{ORIGIN + slot * LENGTH + 1},{x},{y}\n" for slot in range(n_slots) for x, y in record
        ]
        path.write_text("time,x,y\n" + "".join(rows))
        settings = StreamSettings(
            name=STREAM,
            source=FileSettings(kind="csv", path=path, timestamp="time", timestamp_format="unix"),
        )
        device = _make_device(plan, self.folder)
        joined = {STREAM: Joined(digest=digest_reading(settings), is_seen=True)}
        keys = key_folder(self.folder, bytes(32))
        keys.mkdir(exist_ok=True)
        save_joined(keys, joined)
        now = float(ORIGIN + n_slots * LENGTH)
        reader = reading.SlotReader(device, settings, clocks=Clocks(device=now, server=now))
        reader.read_all()
        assert reader.summary.error is None, reader.summary.error
        kept = {row["sequence"]: row for row in device.connection.execute("SELECT * FROM outbox")}
        device.connection.close()
        return np.array([_show(plan, kept.get(slot)) for slot in range(n_slots)])


def _show(plan: SketchPlan, row: sqlite3.Row | None) -> list[float]:
    """Return what a slot shows; a slot without a sketch shows zeros and that there is none."""
    if row is None:
        return [0.0] * (plan.n_coordinates + 7)
    header = (message := decode_message(row["message"])).header
    released = decode_payload(
        message.payload, width=plan.payload_width, n_coordinates=plan.n_coordinates
    )
    stated = -1 if header.n_records is None else header.n_records
    noted = -1 if row["n_records"] is None else row["n_records"]
    rest = [1, len(row["message"]), stated, noted, row["released_at"], row["n_bytes"]]
    return [*released.tolist(), *map(float, rest), float(header.payload_length)]


def _make_device(plan: SketchPlan, folder: Path) -> Device:
    connection = sqlite3.connect(":memory:", isolation_level=None, factory=Connection)
    connection.study = bytes(32)
    connection.row_factory = sqlite3.Row
    for statement in schema.TABLES:
        connection.execute(statement)
    settings: Any = SimpleNamespace(
        budget=SimpleNamespace(ledger=None),
        limits=Budget(),
        engine=default_engine(),
        streams=(),
        state_dir=folder,
        study=bytes(32),
    )
    identity: Any = SimpleNamespace(study=bytes(32), device=bytes(32), ordinal=0)
    return Device(
        settings=settings,
        key=DeviceKey(Ed25519PrivateKey.from_private_bytes(bytes(32))),
        connection=connection,
        identity=identity,
        plan=plan,
        shared=SharedBudget(settings, identity, connection),
    )


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(folder=tmp_path, patch=monkeypatch)


# With the share of the claim that the bound on the honest device has to reach, so that silence
# means something. What the noise itself hides is audited apart, for every mechanism.
@pytest.mark.parametrize(
    ("mechanism", "m", "n_runs", "power"),
    [
        ("discrete-knorm", 1, 1_200, 0.2),
        *(
            pytest.param(mechanism, m, 4_000, 0.3, marks=pytest.mark.soak)
            for mechanism in ("discrete-laplace", "discrete-knorm", "discrete-gaussian")
            for m in (1, 2)
        ),
    ],
)
def test_a_whole_device_hides_whether_a_record_is_there(
    mechanism: str, m: int, n_runs: int, power: float, stage: Stage
) -> None:
    finding = stage.audit(make_plan(mechanism, m), n_runs=n_runs, seed=50 + m)
    assert finding.epsilon <= float(EPSILON), finding
    assert finding.epsilon >= power * float(EPSILON), finding


def plant_exact_count(stage: Stage) -> None:
    """State the exact number of records in the header."""
    draw_payload, header, numbers = releasing._draw_payload, SketchHeader, [0]

    def draw(plan: SketchPlan, accumulator: Any, source: Any) -> bytes:
        numbers[0] = accumulator.n_records
        return draw_payload(plan, accumulator, source)

    def tell(**fields: Any) -> Any:
        return header(**(fields | {"n_records": numbers[0], "n_public": True}))

    stage.patch.setattr(releasing, "_draw_payload", draw)
    stage.patch.setattr(releasing, "SketchHeader", tell)


def plant_noiseless_count(stage: Stage) -> None:
    """Append the count behind the noise."""

    def draw(plan: SketchPlan, accumulator: Any, source: Any) -> bytes:
        exact = plan.finish_sum(accumulator.sums, accumulator.n_records)
        noisy = plan.mechanism.add_noise(exact, source)
        noisy[-1] = exact[-1]
        low, high = plan.coordinate_limits(None)
        return encode_payload(np.clip(noisy, low, high), plan.payload_width)

    stage.patch.setattr(releasing, "_draw_payload", draw)


def plant_skipped_slot(stage: Stage) -> None:
    """Release nothing for a slot without records."""
    right = reading.SlotReader._release

    def release(self: Any, slot: int) -> None:
        if load_slot(self._device.connection, STREAM, slot) is not None:
            right(self, slot)

    stage.patch.setattr(reading.SlotReader, "_release", release)


@pytest.mark.parametrize("plant", [plant_exact_count, plant_noiseless_count, plant_skipped_slot])
def test_whatever_tells_presence_is_caught(plant: Callable[[Stage], None], stage: Stage) -> None:
    plant(stage)
    finding = stage.audit(make_plan("discrete-knorm", 1), n_runs=FEW_RUNS, seed=31)
    assert finding.epsilon > float(EPSILON), finding
