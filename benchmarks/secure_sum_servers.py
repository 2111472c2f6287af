"""Device, helper and both servers of a secure sum: sizes, times and exactness."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray

from benchmarks.rows import Row, measure_in_turn
from deploy.demo.cluster import Aggregator
from deploy.demo.fleet import Fleet, FleetReport, run_fleet_process
from deploy.demo.secure_sum import Helper, wait_for_batches
from sfumato.analyst import Client
from sfumato.device_agent.agent.reading.release import make_message
from sfumato.helper.accepting import Plans
from sfumato.helper.batches import Batches
from sfumato.helper.journal import Journal
from sfumato.helper.keys import KeyFolder
from sfumato.helper.tables import open_database
from sfumato.shared.core import SketchAccumulator
from sfumato.shared.plan import (
    Dimension,
    PlanSpec,
    SketchPlan,
    WindowRule,
    compute_plan_digest,
    create_plan,
)
from sfumato.shared.sharing.batches import BatchKey, compute_members, compute_report, open_total
from sfumato.shared.sharing.masks import read_masked
from sfumato.shared.system import SystemSource
from sfumato.shared.wire import decode_message, decode_payload, device_id_of
from sfumato.shared.wire.message import encode_header
from sfumato.shared.wire.summing import MOST_HEADERS, CommitRequest, ReportsRequest, SumAnswer
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


@dataclass(frozen=True, kw_only=True)
class Report:
    """One message, its header's bytes, and the exact sum that no server sees."""

    message: bytes
    header: bytes
    sketch_id: bytes
    sums: NDArray[np.int64]


def make_reports(plan: SketchPlan, n_reports: int, *, seed: int = 0) -> list[Report]:
    """Let devices with a record each mask, seal and sign."""
    rng, digest, found = np.random.default_rng(seed), compute_plan_digest(plan), []
    statistic, source = plan.statistic_of(b""), SystemSource()
    key = Ed25519PrivateKey.generate()
    for record in rng.normal(0.0, 3.0, size=(n_reports, plan.n_dimensions)):
        accumulator = SketchAccumulator(statistic)
        accumulator.add(record[None, :])
        header, message = make_message(
            plan,
            accumulator,
            study=bytes(32),
            plan_digest=digest,
            # An identity of its own: a device has one report in a slot.
            device=device_id_of(source.draw_bytes(32)),
            stream="main",
            sequence=0,
            slots=(0, 0),
            block=0,
            sign=key.sign,
            source=source,
        )
        found.append(
            Report(
                message=message,
                header=encode_header(header),
                sketch_id=header.sketch_id,
                sums=plan.finish_sum(accumulator.sums, 1),
            )
        )
    return found


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


def measure_device(quick: bool) -> Iterator[Row]:
    """Yield sizes of a message, and CPU time of a device beside a local release."""
    case, runs = f"device, m = {_LARGE}, one record", 40 if quick else 200
    with TemporaryDirectory() as folder:
        _, plan = open_helper(Path(folder), make_draft(_LARGE, most_reports=1 << 20))
        (report,) = make_reports(plan, 1)
        yield _row(case, "message_bytes", len(report.message), "B", 1, "at most 10,600")
        yield _row(case, "header_bytes", len(report.header), "B", 1, "at most 300")
        twin = make_local_twin(plan)
        works = [_Release(plan), _Release(twin)]
        seconds = 1e3 * measure_in_turn(works, runs)
        extra = seconds[0] - seconds[1]
        baseline = "local.v1 in the same run"
        yield _row(case, "cpu_ms", float(np.median(seconds[0])), "ms", runs, "none")
        yield _row(case, "local_cpu_ms", float(np.median(seconds[1])), "ms", runs, "none")
        yield _row(case, "cpu_ms_beyond_local", float(np.median(extra)), "ms", runs, baseline)


class _Release:
    """From the exact sum of a record to the message, again and again."""

    def __init__(self, plan: SketchPlan) -> None:
        self._plan, self._digest = plan, compute_plan_digest(plan)
        self._accumulator = SketchAccumulator(plan.statistic_of(b""))
        self._accumulator.add(np.zeros((1, plan.n_dimensions)))
        self._sign, self._source = Ed25519PrivateKey.generate().sign, SystemSource()

    def __call__(self) -> None:
        make_message(
            self._plan,
            self._accumulator,
            study=bytes(32),
            plan_digest=self._digest,
            device=bytes(32),
            stream="main",
            sequence=0,
            slots=(0, 0),
            block=0,
            sign=self._sign,
            source=self._source,
        )


def measure_helper(quick: bool) -> Iterator[Row]:
    """Yield reports a second of CPU time, and whether the batch opens to the exact sum."""
    n_reports = 4 * MOST_HEADERS if quick else 20 * MOST_HEADERS
    case = f"helper, m = {_LARGE}, {n_reports:,} reports in {MOST_HEADERS:,} a request"
    with TemporaryDirectory() as folder:
        batches, plan = open_helper(Path(folder), make_draft(_LARGE, most_reports=1 << 20))
        reports = make_reports(plan, n_reports)
        key = BatchKey(plan_digest=compute_plan_digest(plan), slot=0, labels={}, part=0, number=0)
        start, wall = time.process_time(), time.perf_counter()
        for some in _cut(reports, MOST_HEADERS):
            verdicts = batches.check(
                key.batch_id,
                ReportsRequest(batch=key, headers=tuple(each.header for each in some)),
            )
            assert set(verdicts) == {"accepted"}
        checked = time.process_time() - start
        answer = _commit(batches, key, reports)
        seconds, wall = time.process_time() - start, time.perf_counter() - wall
        yield _row(case, "check_cpu_ms_a_report", 1e3 * checked / n_reports, "ms", 1, "none")
        yield _row(
            case, "commit_cpu_ms_a_report", 1e3 * (seconds - checked) / n_reports, "ms", 1, "none"
        )
        per_core = n_reports / seconds
        yield _row(case, "reports_per_cpu_second", per_core, "1/s", 1, "2,000 a core")
        yield _row(case, "reports_per_second_of_the_wall", n_reports / wall, "1/s", 1, "4,000")
        yield _row(case, "answer_bytes", len(answer), "B", 1, "at most 10,200")
        # Its own half without its noise: the error of what opens is its noise alone.
        words = [
            read_masked(decode_message(each.message).payload, ring=plan.ring, n_words=2 * _LARGE)
            for each in reports
        ]
        body = SumAnswer.decode(answer, batches.identity.public_key().public_bytes_raw()).body
        masks = plan.ring.decode(body, n_words=plan.n_coordinates)
        zeros = np.zeros(plan.n_coordinates, dtype=np.int64)
        total = open_total(plan.ring.add(*words), masks, zeros, ring=plan.ring)
        error = total - np.sum([each.sums for each in reports], axis=0)
        deviation = float(np.sqrt(np.mean(error.astype(np.float64) ** 2)))
        expected = float(np.sqrt(plan.mechanism.variance))
        yield _row(case, "error_over_one_noise", deviation / expected, "1", 1, "one draw")


def measure_noise(quick: bool) -> Iterator[Row]:
    """Yield the variance of opened totals over two draws, in many small batches."""
    n_batches = 150 if quick else 1500
    case = f"noise of {n_batches:,} batches of two reports, m = {_SMALL}"
    errors = []
    with TemporaryDirectory() as folder:
        batches, plan = open_helper(Path(folder), make_draft(_SMALL, most_reports=1 << 20))
        source, ring, n_words = SystemSource(), plan.ring, plan.n_coordinates
        zeros = np.zeros(n_words, dtype=np.int64)
        reports = make_reports(plan, 2 * n_batches)
        for number, pair in enumerate(_cut(reports, 2)):
            key = BatchKey(
                plan_digest=compute_plan_digest(plan), slot=0, labels={}, part=0, number=number
            )
            headers = tuple(each.header for each in pair)
            batches.check(key.batch_id, ReportsRequest(batch=key, headers=headers))
            answer = SumAnswer.decode(
                _commit(batches, key, pair), batches.identity.public_key().public_bytes_raw()
            )
            masked = ring.add(
                *(
                    read_masked(decode_message(each.message).payload, ring=ring, n_words=n_words)
                    for each in pair
                )
            )
            own = plan.mechanism.add_noise(zeros, source)
            total = open_total(masked, ring.decode(answer.body, n_words=n_words), own, ring=ring)
            errors.append(total - pair[0].sums - pair[1].sums)
    ratio = float(np.mean(np.array(errors, dtype=np.float64) ** 2)) / plan.released_variance
    yield _row(case, "variance_over_two_draws", ratio, "1", n_batches, "two draws")


def measure_opened(folder: Path, *, n_reports: int) -> Iterator[Row]:
    """Yield how many reports both servers' processes opened over HTTP, and how exactly."""
    case = f"leader and helper over HTTP, m = {_SMALL}, {n_reports:,} devices"
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
    yield _row(case, "reports_opened", snapshot.n_records, "1", 1, "all devices")
    yield _row(case, "batches", snapshot.n_sketches, "1", 1, "1")
    ratio = _measure_error(folder / "aggregator.sqlite", plan, sent)
    yield _row(case, "error_over_two_noises", ratio, "1", 1, "two draws")
    yield _row(case, "devices_per_second", n_reports / uploaded, "1/s", 1, "none")
    yield _row(case, "seconds_to_open", opened, "s", 1, "none")


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


def _commit(batches: Batches, key: BatchKey, reports: Sequence[Report]) -> bytes:
    members = compute_members(compute_report(each.header) for each in reports)
    return batches.commit(key.batch_id, CommitRequest(members=members, count=len(reports)))


def _cut(reports: Sequence[Report], size: int) -> Iterator[Sequence[Report]]:
    return (reports[i : i + size] for i in range(0, len(reports), size))


def _row(case: str, figure: str, value: float, unit: str, runs: int, baseline: str) -> Row:
    return Row(
        benchmark=NAME,
        case=case,
        figure=figure,
        value=float(value),
        unit=unit,
        runs=runs,
        baseline=baseline,
    )
