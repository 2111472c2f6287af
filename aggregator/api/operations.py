"""Whether the server is alive and ready."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict

from aggregator.api.dependencies import ServicesDep

router = APIRouter(tags=["operations"])


class HealthBody(BaseModel):
    """All is well."""

    model_config = ConfigDict(json_schema_extra={"example": {"status": "ok"}})

    status: str = "ok"


@router.get("/healthz")
async def get_health() -> HealthBody:
    """Answer while the process is alive."""
    return HealthBody()


@router.get("/readyz")
async def get_readiness(services: ServicesDep) -> HealthBody:
    """Answer while the database does, with the schema of this release."""
    await services.readiness.require()
    return HealthBody()
