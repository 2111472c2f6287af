"""Headers of answers about jobs: decodes and analyses."""

from __future__ import annotations

from fastapi import Response

from sfumato.aggregator.api.responses import IMMUTABLE
from sfumato.aggregator.resources.jobs.record import JobRecord
from sfumato.aggregator.services import Services

_POLL_S = "1"


def advise(response: Response, job: JobRecord) -> None:
    """Set Retry-After on the answer about a job that has not ended."""
    if job.finished is None:
        response.headers["Retry-After"] = _POLL_S


async def count_workers(services: Services, job: JobRecord) -> int | None:
    """Count the workers that a job may wait for; None once it is not queued."""
    return await services.jobs.count_workers() if job.state == "queued" else None


def headers_of(job: JobRecord, n_workers: int | None) -> dict[str, str]:
    """Return the headers of a job: a result never changes, and neither does its ETag."""
    state = f"{job.state}.{n_workers}" if job.state == "queued" else job.state
    etag = f"{state}.{job.progress:.6f}.{job.created}.{job.finished}"
    if job.state == "succeeded":
        return {"ETag": '"succeeded"', "Cache_Control": IMMUTABLE}
    return {"ETag": f'"{etag}"', "Cache_Control": "no-cache"}
