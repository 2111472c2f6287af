"""Device, helper and both servers of a secure sum: sizes, times and exactness."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from fractions import Fraction
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from benchmarks.runner import Row, make_rows, measure_in_turn
from deploy.demo.cluster import Aggregator
from deploy.demo.fleet import Fleet, FleetReport, run_fleet_process
from deploy.demo.secure_sum import Helper, wait_for_batches
from sfumato.analyst import Client
from sfumato.device_agent.agent.reading.release import make_message
from sfumato.helper.acceptance import Plans
from sfumato.helper.batches import Batches
from sfumato.helper.journal import Journal
from sfumato.helper.keys import KeyFolder
from sfumato.helper.tables import open_database
from sfumato.shared.arrays import Floats
from sfumato.shared.core import SketchAccumulator
from sfumato.shared.plan import (
    Dimension,
    PlanSpec,
    SketchPlan,
    WindowRule,
    compute_plan_digest,
    create_plan,
)
from sfumato.shared.sharing.batches import BatchKey, compute_members, compute_report
from sfumato.shared.system import SystemSource
from sfumato.shared.wire import SketchHeader, decode_payload, device_id_of
from sfumato.shared.wire.message import encode_header
from sfumato.shared.wire.sum_messages import MOST_HEADERS, CommitRequest, ReportsRequest
from sfumato.simulator.batches import make_local_twin

NAME = "secure_sum"
_SLOT_S = 3600
_ORIGIN = 1_700_000_000 // _SLOT_S * _SLOT_S
_NOW = float(_ORIGIN + _SLOT_S + 60)
_LARGE, _SMALL = 1000, 100


def make_draft(n_frequencies: int, *, origin: int = _ORIGIN, most_reports: int) -> SketchPlan:
    """Make the draft of a plan for devices with one record each."""
    spread = tuple(
        Dimension(name=f"x{i}", unit="1", lower=-25.0, upper=25.0, scale=1.0) for i in range(4)
    )
    return create_plan(
        PlanSpec(
            dimensions=spread,
            n_frequencies=n_frequencies,
            seed="benchmark of secure sums",
            epsilon=Fraction(1),
            window=WindowRule(kind="time", origin=origin, length_s=_SLOT_S),
            most_records=1,
            release="sum.v1",
            least_reports=2,
            most_reports=most_reports,
        )
    )


class Devices:
    """The code of devices that mask, seal and sign, all with one key and a record each."""

    def __init__(self, plan: SketchPlan) -> None:
        self._plan, self._digest = plan, compute_plan_digest(plan)
        self._statistic, self._source = plan.statistic_of(b""), SystemSource()
        self._sign = Ed25519PrivateKey.generate().sign

    def sum_record(self, record: Floats) -> SketchAccumulator:
        """Return the exact sum of a record."""
        accumulator = SketchAccumulator(self._statistic)
        accumulator.add(record[None, :])
        return accumulator

    def send(self, accumulator: SketchAccumulator) -> tuple[SketchHeader, bytes]:
        """Make the message of an exact sum, with its header."""
        return make_message(
            self._plan,
            accumulator,
            study=bytes(32),
            plan_digest=self._digest,
            # An identity of its own: a device has one report in a slot.
            device=device_id_of(self._source.draw_bytes(32)),
            stream="main",
            sequence=0,
            slots=(0, 0),
            block=0,
            sign=self._sign,
            source=self._source,
        )


def make_reports(
    plan: SketchPlan, n_reports: int, *, seed: int = 0
) -> list[tuple[SketchHeader, bytes]]:
    """Let devices with a record each report it."""
    records = np.random.default_rng(seed).normal(0.0, 3.0, size=(n_reports, plan.n_dimensions))
    devices = Devices(plan)
    return [devices.send(devices.sum_record(record)) for record in records]


def open_helper(folder: Path, draft: SketchPlan) -> tuple[Batches, SketchPlan]:
    """Open a helper on SQLite, and let it accept a draft."""
    keys = KeyFolder(folder / "keys")
    identity = keys.make_identity()
    database = open_database(str(folder / "helper.db"))
    plans = Plans(database=database, keys=keys)
    plan = plans.accept(draft, name="helper", now=_NOW)
    batches = Batches(
        database=database,
        plans=plans,
        journal=Journal.open(folder / "journal"),
        identity=identity,
        source=SystemSource(),
        now=lambda: _NOW,
    )
    return batches, plan


@contextmanager
def opened_helper(n_frequencies: int) -> Iterator[tuple[Batches, SketchPlan]]:
    """Open a helper in a folder of its own."""
    with TemporaryDirectory() as folder:
        yield open_helper(Path(folder), make_draft(n_frequencies, most_reports=1 << 20))


def measure_device(quick: bool) -> Iterator[Row]:
    """Yield sizes of a message, and CPU time of a device beside a local release."""
    runs = 40 if quick else 200
    with opened_helper(_LARGE) as (_, plan):
        ((header, message),) = make_reports(plan, 1)
        works = []
        for each in map(Devices, (plan, make_local_twin(plan))):
            works.append(partial(each.send, each.sum_record(np.zeros(plan.n_dimensions))))
        own, local = 1e3 * measure_in_turn(works, runs)
    figures = (
        ("message_bytes", len(message), "B", "at most 10,600"),
        ("header_bytes", len(encode_header(header)), "B", "at most 300"),
        ("cpu_ms", np.median(own), "ms"),
        ("local_cpu_ms", np.median(local), "ms"),
        ("cpu_ms_beyond_local", np.median(own - local), "ms", "local.v1 in the same run"),
    )
    yield from make_rows(NAME, f"device, m = {_LARGE}, one record", figures, runs=runs)


def measure_helper(quick: bool) -> Iterator[Row]:
    """Yield reports a second of CPU time."""
    n_reports = 4 * MOST_HEADERS if quick else 20 * MOST_HEADERS
    with opened_helper(_LARGE) as (batches, plan):
        headers = [encode_header(header) for header, _ in make_reports(plan, n_reports)]
        digest = compute_plan_digest(plan)
        key = BatchKey(plan_digest=digest, slot=0, labels={}, part=0, number=0)
        start, wall = time.process_time(), time.perf_counter()
        for first in range(0, n_reports, MOST_HEADERS):
            some = tuple(headers[first : first + MOST_HEADERS])
            verdicts = batches.check(key.batch_id, ReportsRequest(batch=key, headers=some))
            assert set(verdicts) == {"accepted"}
        checked = time.process_time() - start
        members = compute_members(map(compute_report, headers))
        answer = batches.commit(key.batch_id, CommitRequest(members=members, count=n_reports))
        seconds, wall = time.process_time() - start, time.perf_counter() - wall
    figures = (
        ("check_cpu_ms_a_report", 1e3 * checked / n_reports, "ms"),
        ("commit_cpu_ms_a_report", 1e3 * (seconds - checked) / n_reports, "ms"),
        ("reports_per_cpu_second", n_reports / seconds, "1/s", "2,000 a core"),
        ("reports_per_second_of_the_wall", n_reports / wall, "1/s", "4,000"),
        ("answer_bytes", len(answer), "B", "at most 10,200"),
    )
    case = f"helper, m = {_LARGE}, {n_reports:,} reports in {MOST_HEADERS:,} a request"
    yield from make_rows(NAME, case, figures)


def measure_opened(folder: Path, *, n_reports: int) -> Iterator[Row]:
    """Yield how many reports both servers' processes opened over HTTP, and how exactly."""
    origin = (int(time.time()) // _SLOT_S - 1) * _SLOT_S
    draft = make_draft(_SMALL, origin=origin, most_reports=n_reports)
    helper, leader = Helper.start(folder / "helper", draft), None
    plan = helper.plan
    records = np.random.default_rng(0).normal(0.0, 3.0, size=(n_reports, plan.n_dimensions))
    try:
        settings = {"SFUMATO_HELPER_URL": helper.url, "SFUMATO_HELPER_API_KEY": helper.key}
        leader = Aggregator.start(folder, settings=settings)
        with Client(leader.url, key=leader.key) as client:
            study = client.create_study("benchmark of secure sums", plan).study_id
            token = client.create_token(study, max_uses=n_reports)
            fleet = Fleet(
                url=leader.url, study=study, token=token, plan=plan, records=records, slot=0
            )
            begun = time.perf_counter()
            sent = run_fleet_process(fleet, folder, on_progress=lambda _: None)
            uploaded = time.perf_counter() - begun
            for batch in client.batches(study):
                if batch.state == "open" and batch.n_reports < n_reports:
                    # The end of a slot divided the reports: the rest would wait for another hour.
                    client.open_batch(study, batch.batch_id)
            snapshot = wait_for_batches(client, study, n_records=n_reports)
            opened = time.perf_counter() - begun - uploaded
    finally:
        helper.stop()
        if leader is not None:
            leader.stop()
    ratio = _measure_error(folder / "aggregator.sqlite", plan, sent)
    figures = (
        ("reports_opened", snapshot.n_records, "1", "all devices"),
        ("batches", snapshot.n_sketches, "1", "1"),
        ("error_over_two_noises", ratio, "1", "two draws"),
        ("devices_per_second", n_reports / uploaded, "1/s"),
        ("seconds_to_open", opened, "s"),
    )
    case = f"leader and helper over HTTP, m = {_SMALL}, {n_reports:,} devices"
    yield from make_rows(NAME, case, figures)


def _measure_error(database: Path, plan: SketchPlan, sent: FleetReport) -> float:
    """Return the deviation of the opened totals from the exact sum, in that of two draws.

    A report that was lost, doubled or masked by another mask would make it larger by many orders:
    half of the ring has 2^39, and the noise of two draws about 2^22.
    """
    with closing(sqlite3.connect(database)) as connection:
        rows = connection.execute("SELECT sums FROM batches WHERE sums IS NOT NULL").fetchall()
    sums = [
        decode_payload(row[0], width=plan.payload_width, n_coordinates=plan.n_coordinates)
        for row in rows
    ]
    total = np.sum(sums, axis=0)
    error = (total - np.array(sent.sums)).astype(np.float64)
    return float(np.sqrt(np.mean(error**2) / (len(rows) * plan.released_variance)))
