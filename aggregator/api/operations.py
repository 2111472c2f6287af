"""Liveness, readiness and metrics of the server."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse

from sfumato.aggregator.api.dependencies import ServicesDep
from sfumato.aggregator.api.middleware import RequestQueue
from sfumato.aggregator.api.serving import serves
from sfumato.aggregator.metrics import JOB_STATES, MEDIA_TYPE, Metrics
from sfumato.aggregator.resources.batches.record import BatchTotals
from sfumato.aggregator.resources.batches.store.batches import count_batches
from sfumato.aggregator.resources.jobs.record import StoreTotals
from sfumato.aggregator.resources.jobs.store import count_totals
from sfumato.aggregator.services import Services
from sfumato.shared.errors import TransportError
from sfumato.shared.wire.calls.operations import Operations
from sfumato.shared.wire.objects.results import HealthBody, ReadinessBody

router = APIRouter(tags=["operations"])

_SAMPLE = """\
# HELP sfumato_devices Enrolled devices
# TYPE sfumato_devices gauge
sfumato_devices 40.0
"""


@serves(router, Operations.get_health)
async def get_health() -> HealthBody:
    return HealthBody()


@serves(router, Operations.get_readiness)
async def get_readiness(services: ServicesDep) -> ReadinessBody:
    async def query() -> int:
        await services.readiness.require()
        return await services.jobs.count_workers()

    return ReadinessBody(n_workers=await services.readiness.share("readiness", query))


@serves(
    router,
    Operations.get_metrics,
    response_class=PlainTextResponse,
    responses={200: {"content": {"text/plain": {"example": _SAMPLE}}}},
)
async def get_metrics(request: Request, services: ServicesDep) -> Response:
    metrics: Metrics = request.app.state.metrics
    queue: RequestQueue = request.app.state.queue
    metrics.running.set(queue.n_running)
    metrics.waiting.set(queue.n_waiting)
    metrics.most_inside.set(queue.most_inside)
    metrics.note_disk(services.settings.database_url)
    await _count_stored(metrics, services)
    return Response(metrics.render(), media_type=MEDIA_TYPE)


async def _count_stored(metrics: Metrics, services: Services) -> None:
    async def query() -> tuple[StoreTotals, BatchTotals, int]:
        await services.readiness.require()
        async with services.store.begin() as transaction:
            totals = await count_totals(transaction)
            summed = await count_batches(transaction)
        return totals, summed, await services.jobs.count_workers()

    try:
        totals, summed, n_workers = await services.readiness.share("metrics", query)
    except TransportError:
        metrics.database_up.set(0)
        return
    metrics.database_up.set(1)
    metrics.studies.set(totals.n_studies)
    metrics.devices.set(totals.n_devices)
    metrics.workers.set(n_workers)
    metrics.note_batches(summed, now=services.clock.now())
    for state in JOB_STATES:
        metrics.decodes.labels(state).set(totals.decodes.get(state, 0))
        metrics.analyses.labels(state).set(totals.analyses.get(state, 0))
