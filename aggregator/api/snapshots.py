"""Snapshots."""

from __future__ import annotations

from dataclasses import replace

from fastapi import APIRouter, Response

from sfumato.aggregator.api.decodes import to_selection
from sfumato.aggregator.api.dependencies import Caller, ServicesDep, SnapshotId, StudyId
from sfumato.aggregator.api.responses import IMMUTABLE, answer
from sfumato.aggregator.api.serving import serves
from sfumato.aggregator.resources.keys.service.keys import is_granted
from sfumato.aggregator.resources.snapshots.record import SnapshotRecord
from sfumato.aggregator.resources.snapshots.service.snapshots import split_batches
from sfumato.aggregator.services import Services
from sfumato.learning.estimate.limbs import join_limbs
from sfumato.learning.estimate.sizes import SizeMoments
from sfumato.shared.structure import structure
from sfumato.shared.wire.calls.snapshots import Snapshots
from sfumato.shared.wire.objects.declaration import make_body
from sfumato.shared.wire.objects.looks import MeasuredClustersBody
from sfumato.shared.wire.objects.results import (
    MomentsBody,
    SelectionBody,
    SnapshotBody,
    SnapshotRequest,
    SnapshotSumsBody,
    WeightsBody,
)
from sfumato.shared.wire.objects.statistics import CalibrationBody, HistogramBody, MomentsAnswerBody

router = APIRouter(tags=["snapshots"])


@serves(router, Snapshots.create_snapshot)
async def create_snapshot(
    study: StudyId, body: SnapshotRequest, services: ServicesDep
) -> tuple[SnapshotBody, bool]:
    snapshot, is_new = await services.snapshots.create(
        study, to_selection(body), weighting=body.weighting
    )
    return await _to_body(services, snapshot), is_new


@serves(router, Snapshots.get_snapshot)
async def get_snapshot(snapshot: SnapshotId, services: ServicesDep, key: Caller) -> Response:
    record = await services.snapshots.get(snapshot)
    totals = record.totals
    body = make_body(
        SnapshotSumsBody,
        await _to_body(services, record),
        moments=_to_moments(totals.moments),
        batches=[each.hex() for each in split_batches(record.batches)],
        sums=totals.sums.tolist(),
        size_sums=join_limbs(totals.size_sums),
    )
    if not is_granted(key, "analyst"):
        body = replace(body, excluded_devices=[])
    # Frozen, but for devices and batches in it that leave the sums later.
    state = body.n_excluded_devices, len(body.excluded_devices), len(body.left_batches)
    etag = f'"{snapshot.hex()}.{".".join(map(str, state))}"'
    return answer(body, ETag=etag, Cache_Control=IMMUTABLE)


@serves(router, Snapshots.get_histogram)
async def get_histogram(
    snapshot: SnapshotId, services: ServicesDep, bars: int = 64
) -> HistogramBody:
    return await services.statistics.describe_histogram(snapshot, most_bars=bars)


@serves(router, Snapshots.get_moments)
async def get_moments(snapshot: SnapshotId, services: ServicesDep) -> MomentsAnswerBody:
    return await services.statistics.describe_components(snapshot)


@serves(router, Snapshots.get_clusters)
async def get_clusters(snapshot: SnapshotId, services: ServicesDep) -> MeasuredClustersBody:
    return await services.statistics.describe_clusters(snapshot)


@serves(router, Snapshots.get_calibration)
async def get_calibration(
    snapshot: SnapshotId, services: ServicesDep, clusters: int, most_clusters: int | None = None
) -> CalibrationBody:
    return await services.statistics.describe_calibration(
        snapshot, n_clusters=(clusters, most_clusters or clusters)
    )


def _to_moments(moments: SizeMoments) -> MomentsBody:
    n_sketches, first, second, third, energy = moments.rows
    return MomentsBody(
        n_sketches=n_sketches, first=first, second=second, third=third, energy=energy
    )


async def _to_body(services: Services, record: SnapshotRecord) -> SnapshotBody:
    excluded = await services.snapshots.find_excluded(record)
    left = await services.snapshots.find_left(record)
    is_summed = bool(record.batches)
    return make_body(
        SnapshotBody,
        record,
        weights=WeightsBody(a=record.weight_a, b=record.weight_b),
        selection=structure(SelectionBody, record.selection, strict=False),
        n_excluded_devices=len(excluded),
        excluded_devices=[device.hex() for device in excluded],
        n_batches=record.n_sketches if is_summed else None,
        n_waiting=record.n_waiting if is_summed else None,
        left_batches=[batch.hex() for batch in left],
    )
