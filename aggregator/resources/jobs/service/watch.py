"""Watch jobs: one poll of the database serves all followers."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TypeVar

import structlog

from sfumato.aggregator.resources.jobs.record import JobRecord
from sfumato.aggregator.resources.keys.record import KeyRecord
from sfumato.aggregator.resources.keys.service.keys import KeyService
from sfumato.shared.errors import SketchError

_PERIOD_S = 0.5

log = structlog.get_logger("aggregator.services.results.watch")
J = TypeVar("J", bound=JobRecord)
Get = Callable[[bytes], Awaitable[JobRecord]]
"""Returns a job by its identity."""


class JobWatch:
    """Polls the followed jobs, and the keys of their followers.

    A poll costs one query for each job and key, whatever the number of followers.
    """

    def __init__(self, get: Mapping[type[JobRecord], Get], keys: KeyService) -> None:
        self._get = get
        self._keys = keys
        self._followers: Counter[Hashable] = Counter()
        self._known: dict[Hashable, JobRecord | KeyRecord | SketchError] = {}
        self._changed = asyncio.Event()
        self._is_closed = False
        self._task: asyncio.Task[None] | None = None

    def close(self) -> None:
        """End the streams of all followers."""
        self._is_closed = True
        self._wake()

    @contextmanager
    def follow(self, job: JobRecord, key: KeyRecord) -> Iterator[None]:
        """Poll a job and a key for the length of a block."""
        places: dict[Hashable, JobRecord | KeyRecord] = {_place_of(job): job}
        places[key.key_id] = key
        self._followers.update(list(places))
        for place, record in places.items():
            self._note(place, record)
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        try:
            yield
        finally:
            self._followers.subtract(list(places))
            for place in places:
                if not self._followers[place]:
                    del self._followers[place], self._known[place]
            if not self._followers and self._task is not None:
                self._task.cancel()
                self._task = None

    async def next(self, shown: J, key: KeyRecord, *, until: float) -> J | None:
        """Wait for a change of a followed job; None if the time or the server ends.

        Parameters
        ----------
        until
            A time by the clock of the event loop.

        Raises
        ------
        SketchError
            The key was revoked, the study withdrawn, or the database does not answer.
        """
        loop = asyncio.get_running_loop()
        while not self._is_closed:
            changed = self._changed
            for place in (key.key_id, _place_of(shown)):
                found = self._known[place]
                if isinstance(found, SketchError):
                    raise found
                if isinstance(found, type(shown)) and _shows(found) != _shows(shown):
                    return found
            if loop.time() >= until:
                return None
            with suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), until - loop.time())
        return None

    async def _run(self) -> None:
        """Poll until the task is cancelled."""
        while True:
            await asyncio.sleep(_PERIOD_S)
            # Keys first: a revoked key must not see what happens after.
            for place in sorted(self._followers, key=lambda place: isinstance(place, tuple)):
                await self._look(place)

    async def _look(self, place: Hashable) -> None:
        known = self._known.get(place)
        if isinstance(known, KeyRecord):
            self._note(place, await _answer_of(self._keys.require_still, known))
        elif isinstance(place, tuple):
            kind, job_id = place
            self._note(place, await _answer_of(self._get[kind], job_id))

    def _note(self, place: Hashable, found: JobRecord | KeyRecord | SketchError | None) -> None:
        if found is None or place not in self._followers:
            return
        before, self._known[place] = self._known.get(place), found
        if isinstance(found, SketchError) or _shows(before) != _shows(found):
            self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


def _place_of(job: JobRecord) -> Hashable:
    return type(job), job.job_id


async def _answer_of(
    ask: Callable[..., Awaitable[JobRecord | None]], what: object
) -> JobRecord | SketchError | None:
    try:
        return await ask(what)
    except SketchError as error:
        return error
    except Exception as error:
        # Or the task would end, and with it all news for followers.
        log.error("unforeseen error", exc_info=error)
        return SketchError("the server failed", fix="open the stream again")


def _shows(found: object) -> object:
    """Return the state that followers see."""
    return (found.state, found.progress) if isinstance(found, JobRecord) else None
