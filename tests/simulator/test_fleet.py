"""Simulated devices decide as real ones do, and the server receives what they send."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfumato.shared.core import SketchAccumulator
from sfumato.shared.plan import Dimension, WindowRule
from sfumato.shared.wire import PayloadForm, SketchHeader, decode_message
from sfumato.simulator import fleet
from sfumato.simulator.devices import DeviceMaker
from sfumato.simulator.fleet import run_fleet, run_part
from sfumato.simulator.records import MixtureRecords
from tests.device_agent.conftest import HOUR, Agent, make_plan
from tests.device_agent.serving import running

LOUD: dict[str, Any] = {"epsilon": Fraction(10**9), "mechanism": "discrete-laplace"}
"""So much budget that the noise is next to nothing."""
PHASES: dict[str, Any] = {
    "release": "phase.v1",
    "most_records": None,
    "least_records": None,
    "most_sketches_per_device": 100,
}
BINS: dict[str, Any] = {
    "statistic": "histogram",
    "dimensions": tuple(Dimension(name=x, unit="1", lower=-10.0, upper=10.0) for x in "xy"),
    "n_frequencies": None,
    "seed": None,
}
HIDDEN: dict[str, Any] = {
    "neighbouring": "add-remove-one",
    "least_records": None,
    "window": WindowRule(kind="time", origin=1_700_000_000 // HOUR * HOUR, length_s=HOUR),
}
PLANS = {
    "time": make_plan(**LOUD),
    "few": make_plan(least_records=7, most_records=9, **LOUD),
    "count": make_plan(window=WindowRule(kind="count", length=4), **LOUD),
    "masks": make_plan(measurements_per_record=2, **LOUD),
    "blocks": make_plan(frequencies_per_sketch=2, **LOUD),
    "device": make_plan(unit="device", most_records=3, **LOUD),
    "device blocks": make_plan(unit="device", most_records=3, frequencies_per_sketch=2, **LOUD),
    "phases": make_plan(**PHASES, frequencies_per_sketch=2),
    "bins": make_plan(**PHASES, **BINS),
    "secret": make_plan(**HIDDEN),
}


def records_of(n_records: int) -> MixtureRecords:
    return MixtureRecords.of(
        PLANS["time"], n_clusters=3, n_records=n_records, clusters_per_device=None, seed=3
    )


def tell(header: SketchHeader) -> tuple[Any, ...]:
    """What a device decided, without its identity."""
    return (header.sequence, header.slots, header.n_records, header.n_public, header.block,
            header.kind, header.payload_length, header.plan_digest)  # fmt: skip


@pytest.mark.parametrize("name", sorted(PLANS.keys() - {"secret"}))
def test_a_simulated_device_sends_what_a_real_one_would(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan, n_windows, n_records = PLANS[name], 4, 22
    records = records_of(n_records).load(0, 1)[0]
    maker = DeviceMaker(plan=plan, n_windows=n_windows)
    simulated = [decode_message(message) for _, message, _ in maker.sketch(5, records)]
    with running(plan) as server:
        server.first_ordinal = 5
        agent = Agent(tmp_path, server, capsys)
        agent.write_config(per_record=str(10**10))
        agent.config.write_text(agent.config.read_text().replace("meter", "simulated"))
        agent.init()
        slots = np.arange(n_records) * n_windows // n_records
        with agent.records.open("a") as file:
            for slot, values in zip(slots.tolist(), records.tolist(), strict=True):
                file.write(f"{(slot + 0.5) * HOUR},{values[0]!r},{values[1]!r}\n")
        agent.once()
        real = sorted(server.stored.values(), key=lambda message: message.header.sequence)
    assert [tell(m.header) for m in simulated] == [tell(m.header) for m in real]
    assert simulated
    if name in ("phases", "bins"):
        return  # their noise is far above any difference
    form = PayloadForm.of(plan)
    for one, other in zip(simulated, real, strict=True):
        if name == "masks":
            continue  # masks follow from the identity of the device
        assert np.abs(form.decode(one.payload) - form.decode(other.payload)).max() <= 100


@pytest.mark.parametrize("name", sorted(PLANS))
def test_the_server_accepts_all_and_adds_them_up(name: str) -> None:
    plan, records = PLANS[name], records_of(20)
    tally, totals = run_fleet(plan, records, n_devices=12, n_windows=2, n_processes=1)
    assert tally.refusals == {}
    assert tally.n_devices == 12
    assert totals.n_sketches == tally.n_sketches > 0
    assert tally.payload_bytes == tally.n_sketches * plan.payload_bytes
    per_sketch = tally.message_bytes / tally.n_sketches - plan.payload_bytes
    assert 300 < per_sketch < 420


def test_the_sums_are_those_of_the_records() -> None:
    plan, records = PLANS["time"], records_of(10)
    _, totals = run_fleet(plan, records, n_devices=6, n_windows=2, n_processes=1)
    whole = SketchAccumulator(plan.statistic_of(b""))
    whole.add(records.load(0, 6).reshape(-1, 2))
    assert np.abs(totals.sums - whole.sums).max() < 2000
    assert totals.n_records == 60


def test_processes_divide_the_work_without_changing_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet, "_DEVICES_AT_ONCE", 3)
    plan, records, seen = PLANS["blocks"], records_of(4), list[int]()
    tally, totals = run_fleet(plan, records, n_devices=10, n_processes=2, on_progress=seen.append)
    assert (tally.n_devices, tally.n_sketches) == (10, 10)
    assert seen == sorted(seen)
    assert seen[-1] == 10
    # Every block has its share, by the order of enrolment.
    assert sorted(totals.moments.rows[0]) == [2, 2, 3, 3]
    assert totals.n_records == 40


def test_what_the_server_refuses_is_counted_and_not_added(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan, records = PLANS["time"], records_of(5)

    def damage(data: bytes) -> Any:
        return decode_message(data[:-3] + b"\0\0\0")

    monkeypatch.setattr(fleet, "decode_message", damage)
    tally, cell = run_part(plan, records, 0, 4, 1)
    assert tally.n_sketches == 0
    assert sum(tally.refusals.values()) == 4
    assert not cell.sums.any()


def test_devices_with_fewer_records_than_a_sketch_needs_send_nothing() -> None:
    plan = make_plan(least_records=7)
    tally, _ = run_fleet(plan, records_of(3), n_devices=4, n_processes=1)
    assert (tally.n_devices, tally.n_sketches) == (4, 0)
