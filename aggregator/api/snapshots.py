"""Snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse

from aggregator.api.dependencies import ANALYST, Identity, ServicesDep
from aggregator.api.result_schemas import SnapshotBody, SnapshotRequest, SnapshotSumsBody
from aggregator.api.schemas import to_rfc3339
from aggregator.etags import (
    IMMUTABLE,
    NOT_MODIFIED,
    IfNoneMatch,
    answer_not_modified,
    is_known,
)
from aggregator.records import Selection, SnapshotRecord
from aggregator.services.snapshots import decode_size_sums, decode_sums
from learning.estimate.totals import join_limbs

router = APIRouter(prefix="/v1", tags=["snapshots"], dependencies=ANALYST)


@router.post(
    "/studies/{study}/snapshots", status_code=201, responses={200: {"model": SnapshotBody}}
)
async def create_snapshot(
    study: Identity, body: SnapshotRequest, services: ServicesDep, response: Response
) -> SnapshotBody:
    """Freeze a selection; 200 if the same one with the same sketches is frozen already.

    A selection contains a sketch if and only if all slots of the sketch are inside. Under the
    weighting `size` each record counts the same; under `noise-optimal` a sketch of n records counts
    `a n + b n^2`, with a and b chosen for the least error; it needs numbers of records that are
    public.
    """
    selection = Selection(first_slot=body.first_slot, last_slot=body.last_slot, labels=body.labels)
    snapshot, is_new = await services.snapshots.create(
        bytes.fromhex(study), selection, weighting=body.weighting
    )
    response.status_code = 201 if is_new else 200
    response.headers["Location"] = f"/v1/snapshots/{snapshot.snapshot_id.hex()}"
    excluded = await services.snapshots.find_excluded(snapshot)
    return SnapshotBody.model_validate(_to_map(snapshot, excluded))


@router.get("/snapshots/{snapshot}", response_model=SnapshotSumsBody, responses=NOT_MODIFIED)
async def get_snapshot(
    snapshot: Identity, services: ServicesDep, if_none_match: IfNoneMatch = None
) -> Response:
    """Show a snapshot with its exact sums, by which anyone can form the global sketch anew.

    It is `(a sums + b size_sums) / (A alpha (a first + b second))`, with the weights a and b, the
    moments `first` and `second`, and the plan's amplitude A and alpha. Where numbers of records are
    secret, the last of the sums is their noised count and `first` what is estimated from it.
    """
    record = await services.snapshots.get(bytes.fromhex(snapshot))
    excluded = await services.snapshots.find_excluded(record)
    # Frozen, but for the devices in it that are excluded later: they only become more.
    headers = {"ETag": f'"{snapshot}.{len(excluded)}"', "Cache-Control": IMMUTABLE}
    if is_known(headers["ETag"], if_none_match):
        return answer_not_modified(headers)
    sums = {
        "sums": decode_sums(record).tolist(),
        "size_sums": join_limbs(decode_size_sums(record)),
    }
    body = SnapshotSumsBody.model_validate(_to_map(record, excluded) | sums)
    return JSONResponse(body.model_dump(), headers=headers)


def _to_map(record: SnapshotRecord, excluded: Sequence[bytes]) -> dict[str, Any]:
    return {
        "snapshot_id": record.snapshot_id.hex(),
        "study_id": record.study_id.hex(),
        "weighting": record.weighting,
        "n_sketches": record.n_sketches,
        "n_devices": record.n_devices,
        "n_records": record.n_records,
        "n_records_error": record.n_records_error,
        "moments": {
            "first": record.n_records,
            "second": record.second_moment,
            "third": record.third_moment,
        },
        "weights": {"a": record.weight_a, "b": record.weight_b},
        "snr": record.snr,
        "signal_energy": record.signal_energy,
        "noise_energy": record.noise_energy,
        "digest": record.digest.hex(),
        "selection": record.selection,
        "excluded_devices": [device.hex() for device in excluded],
        "created": to_rfc3339(record.created),
    }
