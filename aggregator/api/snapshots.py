"""Snapshots."""

from __future__ import annotations

from fastapi import APIRouter, Response

from sfumato.aggregator.api.decodes import to_selection
from sfumato.aggregator.api.dependencies import ANALYST, ServicesDep, SnapshotId, StudyId
from sfumato.aggregator.api.responses import (
    CONDITIONAL,
    IMMUTABLE,
    NOT_MODIFIED,
    OF_STUDY,
    TO_SNAPSHOT,
    TO_STUDY,
    WITH_BODY,
    WITH_KEY,
    answer,
    describe_links,
    describe_problems,
)
from sfumato.aggregator.records import SnapshotRecord
from sfumato.aggregator.services import Services
from sfumato.aggregator.services.results.snapshots import split_batches
from sfumato.learning.estimate.limbs import join_limbs
from sfumato.learning.estimate.sizes import SizeMoments
from sfumato.shared.structure import structure
from sfumato.shared.wire.objects.declaring import make_body
from sfumato.shared.wire.objects.results import (
    MomentsBody,
    SelectionBody,
    SnapshotBody,
    SnapshotRequest,
    SnapshotSumsBody,
    WeightsBody,
)
from sfumato.shared.wire.objects.statistics import (
    CalibrationBody,
    HistogramBody,
    MomentsAnswerBody,
)

router = APIRouter(
    prefix="/v1",
    tags=["snapshots"],
    dependencies=ANALYST,
    responses=describe_problems(*WITH_KEY, *OF_STUDY),
)

OF_STATISTIC = describe_problems("wrong-statistic", "decoding-invalid")
_LINKS = describe_links(TO_SNAPSHOT)


@router.post(
    "/studies/{study}/snapshots",
    status_code=201,
    responses=describe_problems(*OF_STUDY, *WITH_BODY, "store-conflict")
    | {201: _LINKS, 200: {"model": SnapshotBody, **_LINKS}},
)
async def create_snapshot(
    study: StudyId, body: SnapshotRequest, services: ServicesDep, response: Response
) -> SnapshotBody:
    """Freeze a selection; 200 if the same selection of the same sketches is frozen already.

    A selection contains a sketch if and only if all slots of the sketch are inside. Under the
    weighting `size` each record counts the same; under `noise-optimal` a sketch of n records counts
    `a n + b n^2`, with a and b chosen for the least error; it needs numbers of records that are
    public.
    """
    snapshot, is_new = await services.snapshots.create(
        bytes.fromhex(study), to_selection(body), weighting=body.weighting
    )
    response.status_code = 201 if is_new else 200
    response.headers["Location"] = f"/v1/snapshots/{snapshot.snapshot_id.hex()}"
    return await _to_body(services, snapshot)


@router.get(
    "/snapshots/{snapshot}",
    dependencies=CONDITIONAL,
    response_model=SnapshotSumsBody,
    responses=NOT_MODIFIED | {200: describe_links(TO_STUDY)},
)
async def get_snapshot(snapshot: SnapshotId, services: ServicesDep) -> Response:
    """Show a snapshot with its exact sums, from which anyone can recompute the global sketch.

    It is `(a sums + b size_sums) / (A alpha (a first + b second))`, with the weights a and b, the
    moments `first` and `second` of a feature's block, and the plan's amplitude A and alpha. Where
    numbers of records are secret, the last of the sums are their noised counts by block, and
    `first` is estimated from them.
    """
    record = await services.snapshots.get(bytes.fromhex(snapshot))
    totals = record.totals
    body = make_body(
        SnapshotSumsBody,
        await _to_body(services, record),
        moments=_to_moments(totals.moments),
        batches=[each.hex() for each in split_batches(record.batches)],
        sums=totals.sums.tolist(),
        size_sums=join_limbs(totals.size_sums),
    )
    # Frozen, but for devices and batches in it that leave the sums later.
    etag = f'"{snapshot}.{len(body.excluded_devices)}.{len(body.left_batches)}"'
    return answer(body, ETag=etag, Cache_Control=IMMUTABLE)


@router.get("/snapshots/{snapshot}/histogram", responses=OF_STATISTIC)
async def get_histogram(
    snapshot: SnapshotId, services: ServicesDep, bars: int = 64
) -> HistogramBody:
    """Show the marginals of a snapshot of histograms: bars, quantiles, missing values.

    Bins are joined until each of at most `bars` bars stands out from its noise.
    """
    return await services.statistics.describe_histogram(bytes.fromhex(snapshot), most_bars=bars)


@router.get("/snapshots/{snapshot}/moments", responses=OF_STATISTIC)
async def get_moments(snapshot: SnapshotId, services: ServicesDep) -> MomentsAnswerBody:
    """Show mean, correlations and principal directions of a snapshot of moments."""
    return await services.statistics.describe_components(bytes.fromhex(snapshot))


@router.get("/snapshots/{snapshot}/calibration", responses=OF_STATISTIC)
async def get_calibration(
    snapshot: SnapshotId, services: ServicesDep, clusters: int, most_clusters: int | None = None
) -> CalibrationBody:
    """Show what a pilot, a snapshot of histograms, says about the plan of a main study.

    `clusters` is the number of clusters that will be looked for; with `most_clusters` it is the
    least, and the other the largest.
    """
    return await services.statistics.describe_calibration(
        bytes.fromhex(snapshot), n_clusters=(clusters, most_clusters or clusters)
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
        excluded_devices=[device.hex() for device in excluded],
        n_batches=record.n_sketches if is_summed else None,
        n_waiting=record.n_waiting if is_summed else None,
        left_batches=[batch.hex() for batch in left],
    )
