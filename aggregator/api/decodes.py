"""Decodes: long jobs as resources."""

from __future__ import annotations

from fastapi import APIRouter, Response

from aggregator.api.dependencies import ANALYST, Identity, ServicesDep
from aggregator.api.result_schemas import DecodeBody, DecodeRequest, ResultBody
from aggregator.api.schemas import maybe_rfc3339, to_rfc3339
from aggregator.ports import DecodeRecord

router = APIRouter(prefix="/v1", tags=["decodes"], dependencies=ANALYST)

_POLL_S = "1"


@router.post("/studies/{study}/decodes", status_code=202, responses={200: {"model": DecodeBody}})
async def create_decode(
    study: Identity, body: DecodeRequest, services: ServicesDep, response: Response
) -> DecodeBody:
    """Queue a decode; 200 if the same one is there. One that failed or was cancelled runs again."""
    decode, queued = await services.decodes.create(
        bytes.fromhex(study),
        snapshot_id=bytes.fromhex(body.snapshot_id) if body.snapshot_id else None,
        n_clusters=body.n_clusters,
        decoder=body.decoder,
        settings=body.settings,
        seed=body.seed,
    )
    response.status_code = 202 if queued else 200
    response.headers["Location"] = f"/v1/decodes/{decode.decode_id.hex()}"
    _advise(response, decode)
    return _to_body(decode)


@router.get("/decodes/{decode}")
async def get_decode(decode: Identity, services: ServicesDep, response: Response) -> DecodeBody:
    """Show a decode: its state and progress, and its result or problem."""
    record = await services.decodes.get(bytes.fromhex(decode))
    _advise(response, record)
    return _to_body(record)


@router.delete("/decodes/{decode}")
async def cancel_decode(decode: Identity, services: ServicesDep) -> DecodeBody:
    """Cancel a decode; one that has ended stays as it is."""
    return _to_body(await services.decodes.cancel(bytes.fromhex(decode)))


def _advise(response: Response, decode: DecodeRecord) -> None:
    if decode.finished is None:
        response.headers["Retry-After"] = _POLL_S


def _to_body(decode: DecodeRecord) -> DecodeBody:
    return DecodeBody(
        decode_id=decode.decode_id.hex(),
        state=decode.state,
        progress=decode.progress,
        snapshot_id=decode.snapshot_id.hex(),
        n_clusters=decode.n_clusters,
        decoder=decode.solver,
        seed=decode.seed,
        created=to_rfc3339(decode.created),
        started=maybe_rfc3339(decode.started),
        finished=maybe_rfc3339(decode.finished),
        result=None if decode.result is None else ResultBody.model_validate(decode.result),
        problem=None if decode.problem is None else dict(decode.problem),
    )
