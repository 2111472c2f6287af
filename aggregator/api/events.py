"""Decodes and analyses as server-sent events, instead of polling."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, Query, Request
from fastapi.sse import EventSourceResponse, ServerSentEvent

from sfumato.aggregator.api import analyses, decodes
from sfumato.aggregator.api.dependencies import AnalysisId, Caller, DecodeId, ServicesDep
from sfumato.aggregator.api.jobs import count_workers
from sfumato.aggregator.api.serving import serves
from sfumato.aggregator.resources.jobs.record import AnalysisRecord, DecodeRecord, JobRecord
from sfumato.aggregator.resources.keys.record import KeyRecord
from sfumato.aggregator.services import Services
from sfumato.shared.errors import OverloadedError, SketchError
from sfumato.shared.wire import problem_document
from sfumato.shared.wire.calls.analyses import Analyses
from sfumato.shared.wire.calls.decodes import Decodes
from sfumato.shared.wire.objects.results import ProgressBody

router = APIRouter()
J = TypeVar("J", bound=JobRecord)

_LONGEST_S = 600
_MOST_OF_KEY = 256
_MOST = 1024
_RETRY_AFTER_S = 10.0
_EXAMPLE = (
    'event: state\ndata: {"state": "running", "progress": 0.0}\n\n'
    'event: progress\ndata: {"state": "running", "progress": 0.4}\n\n'
    ": ping\n\n"
    'event: result\ndata: {"decode_id": "6363...", "state": "succeeded", "progress": 1.0, ...}\n\n'
)


class EventStreams:
    """Count of the open streams of this process."""

    def __init__(self) -> None:
        self._of_key: Counter[str] = Counter()

    @property
    def n_open(self) -> int:
        """Number of open streams."""
        return self._of_key.total()

    @contextmanager
    def open(self, key_id: str) -> Iterator[None]:
        """Hold a place for a stream.

        Raises
        ------
        OverloadedError
            The key, or the process, has the largest number.
        """
        if self._of_key[key_id] >= _MOST_OF_KEY or self.n_open >= _MOST:
            raise OverloadedError(
                f"cannot open more than {_MOST_OF_KEY} streams of events, or {_MOST} together with "
                "all other keys",
                field="Authorization",
                fix="close one, or poll the decode or analysis itself",
                retry_after_s=_RETRY_AFTER_S,
            )
        self._of_key[key_id] += 1
        try:
            yield
        finally:
            self._of_key[key_id] -= 1


async def hold_stream(request: Request, key: Caller) -> AsyncIterator[None]:
    """Hold a place until the answer ends or its reader disconnects."""
    streams: EventStreams = request.app.state.streams
    with streams.open(key.key_id):
        yield


async def find_decode(decode: DecodeId, services: ServicesDep, _key: Caller) -> DecodeRecord:
    """Find the decode before the answer begins, while a problem document is still possible."""
    return await services.decodes.get(decode)


async def find_analysis(analysis: AnalysisId, services: ServicesDep, key: Caller) -> AnalysisRecord:
    """Find the analysis before the answer begins, while a problem document is still possible."""
    found = await services.analyses.get(analysis)
    analyses.require_allowed(found.kind, key)
    return found


Place = Annotated[None, Depends(hold_stream)]
Longest = Annotated[
    int, Query(ge=0, le=_LONGEST_S, description="the stream ends after this time at the latest")
]
_STREAM: dict[str, Any] = {
    "response_class": EventSourceResponse,
    "responses": {200: {"content": {Decodes.stream_events.media: {"example": _EXAMPLE}}}},
}


@serves(router, Decodes.stream_events, tags=["decodes"], **_STREAM)
async def stream_events(
    found: Annotated[DecodeRecord, Depends(find_decode)],
    _place: Place,
    services: ServicesDep,
    key: Caller,
    seconds: Longest = _LONGEST_S,
) -> AsyncIterator[ServerSentEvent]:
    async for event in _stream(services, found, key, seconds, decodes.to_body):
        yield event


@serves(router, Analyses.stream_analysis_events, tags=["analyses"], **_STREAM)
async def stream_analysis_events(
    found: Annotated[AnalysisRecord, Depends(find_analysis)],
    _place: Place,
    services: ServicesDep,
    key: Caller,
    seconds: Longest = _LONGEST_S,
) -> AsyncIterator[ServerSentEvent]:
    async for event in _stream(services, found, key, seconds, analyses.to_body):
        yield event


async def _stream(
    services: Services, found: J, key: KeyRecord, seconds: int, show: Callable[[J], Any]
) -> AsyncIterator[ServerSentEvent]:
    shown = found
    end = asyncio.get_running_loop().time() + seconds
    with services.watch.follow(shown, key):
        yield await _to_event(services, shown, "state")
        while shown.finished is None:
            try:
                now = await services.watch.next(shown, key, until=end)
            except SketchError as error:
                # The answer has begun, so its status can no longer change.
                yield ServerSentEvent(event="problem", data=problem_document(error))
                return
            if now is None:
                return
            name = "progress" if now.state == shown.state else "state"
            yield await _to_event(services, now, name)
            shown = now
    yield ServerSentEvent(event="result", data=show(shown))


async def _to_event(services: Services, job: JobRecord, name: str) -> ServerSentEvent:
    n_workers = await count_workers(services, job)
    data = ProgressBody(state=job.state, progress=job.progress, n_workers=n_workers)
    return ServerSentEvent(event=name, data=data)
