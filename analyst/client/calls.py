"""The base of the client's parts: calls, and references to objects."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import aclosing
from typing import Any, TypeVar

import httpx

from sfumato.analyst.client.catalogue import Catalogue
from sfumato.analyst.client.connection import Connection
from sfumato.analyst.client.methods import Waits
from sfumato.analyst.requests import ANSWERS, AsyncStream
from sfumato.analyst.results import FINAL_STATES
from sfumato.shared.wire.calls.call import Call, Events, Pages
from sfumato.shared.wire.calls.studies import Studies
from sfumato.shared.wire.objects.results import ProgressBody
from sfumato.shared.wire.references import is_identity, require_beginning, require_identity

T = TypeVar("T")


class AsyncCalls(Catalogue, Waits):
    """Declared calls over a connection; each part of the client is one."""

    def __init__(
        self, url: str, *, key: str | None = None, timeout: float = 30.0, patience_s: float = 60.0
    ) -> None:
        self.url = url.rstrip("/")
        self._server = Connection(
            self.url, key=key, timeout=timeout, patience_s=patience_s, blocks=self._blocks
        )

    async def _send(self, call: Call[Any, Any], *references: str, **more: Any) -> httpx.Response:
        """Make a call and return its answer as it is."""
        path = await self._locate(call, *references)
        return await self._server.send(call.method, path, makes=call.makes, **more)

    async def _call(self, call: Call[Any, T], *references: str, **more: Any) -> T:
        """Make a call and return the declared body of its answer."""
        path = await self._locate(call, *references)
        found = await self._server.call(call.method, path, makes=call.makes, **more)
        return ANSWERS.read(call.answer, found)

    async def _list(
        self, call: Pages[T], *references: str, params: Mapping[str, str] | None = None
    ) -> AsyncStream[T]:
        """Yield the items of a list as the declared body."""
        path = await self._locate(call, *references)
        async with aclosing(self._server.pages(path, params)) as items:
            async for item in items:
                yield ANSWERS.read(call.answer, item)

    async def _events(
        self, call: Events[T], reference: str, seconds: int | None
    ) -> AsyncStream[T | ProgressBody]:
        """Yield the state and progress of a job as they change, then the ended job."""
        path = await self._locate(call, reference)
        query = "" if seconds is None else f"?seconds={seconds}"
        async with aclosing(self._server.events(path + query)) as events:
            async for name, data in events:
                if name in ("state", "progress"):
                    progress = ANSWERS.read(ProgressBody, data)
                    if progress.state not in FINAL_STATES:
                        yield progress
                elif name == "result":
                    yield ANSWERS.read(call.answer, data)
                    return

    async def _locate(self, call: Call[Any, Any], *references: str) -> str:
        """Return the path of a call, with the ids of the objects that it refers to."""
        kinds = zip(call.references, references, strict=True)
        return call.path.format(**{kind: await self._find(each, kind) for kind, each in kinds})

    async def _find(self, reference: str, kind: str) -> str:
        """Return an id, given what may stand for it: a name or the first digits."""
        if kind in ("key", "first_slot"):
            return reference
        if kind in ("snapshot", "sketch"):
            return require_identity(reference, f"{kind}_id")
        if kind not in ("study", "device"):
            require_beginning(reference, kind)
        # The server finds a batch by its first digits, in the study that the path names.
        if is_identity(reference) or kind == "batch":
            return reference
        params = {"kind": kind, "reference": reference}
        return (await self._call(Studies.find_reference, params=params)).identity
