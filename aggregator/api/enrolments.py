"""Enrolment of devices."""

from __future__ import annotations

from fastapi import APIRouter, Response

from aggregator.api.dependencies import ServicesDep
from aggregator.api.schemas import EnrolmentBody, EnrolmentRequest

router = APIRouter(prefix="/v1/enrolments", tags=["devices"])


@router.post("", status_code=201, responses={200: {"model": EnrolmentBody}})
async def enrol(body: EnrolmentRequest, services: ServicesDep, response: Response) -> EnrolmentBody:
    """Enrol a device by token; 200 if the same key with the same labels is enrolled already."""
    device, is_new = await services.enrolment.enrol(
        token=body.token,
        study_id=bytes.fromhex(body.study_id),
        public_key=bytes.fromhex(body.public_key),
        labels=body.labels,
        proof=bytes.fromhex(body.proof),
    )
    response.status_code = 201 if is_new else 200
    return EnrolmentBody(
        device_id=device.device_id.hex(),
        study_id=device.study_id.hex(),
        labels=dict(device.labels),
    )
