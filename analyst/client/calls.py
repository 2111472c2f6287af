"""The base of the client's parts: requests, and references to studies."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import aclosing
from typing import Any, ClassVar, TypeVar

from sfumato.analyst.client.connection import Connection
from sfumato.analyst.requests import ANSWERS, AsyncStream
from sfumato.analyst.results import FINAL_STATES
from sfumato.shared.wire.objects.results import ProgressBody
from sfumato.shared.wire.objects.studies import ReferenceBody
from sfumato.shared.wire.references import is_identity, require_beginning

T = TypeVar("T")


class AsyncCalls:
    """Requests whose answers are read as the declared bodies; each part of the client is one."""

    _blocks: ClassVar[bool] = False

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        timeout: float = 30.0,
        patience_s: float = 60.0,
    ) -> None:
        self.url = url.rstrip("/")
        self._server = Connection(
            self.url, key=key, timeout=timeout, patience_s=patience_s, blocks=self._blocks
        )

    async def _read(
        self,
        declared: type[T],
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> T:
        """Send a request and return the declared body of the answer."""
        return ANSWERS.read(declared, await self._server.call(method, path, body, **options))

    async def _pages(
        self, declared: type[T], path: str, params: Mapping[str, str] | None = None
    ) -> AsyncStream[T]:
        """Yield the items of a list as the declared body."""
        async with aclosing(self._server.pages(path, params)) as items:
            async for item in items:
                yield ANSWERS.read(declared, item)

    async def _pages_of(
        self, declared: type[T], study: str, name: str, params: Mapping[str, str] | None = None
    ) -> AsyncStream[T]:
        """Yield the items of a list that belongs to a study."""
        path = await self._path_of(study)
        async with aclosing(self._pages(declared, f"{path}/{name}", params)) as items:
            async for item in items:
                yield item

    async def _events(
        self, declared: type[T], path: str, seconds: int | None
    ) -> AsyncStream[T | ProgressBody]:
        """Yield the state and progress of a job as they change, then the ended job."""
        query = "" if seconds is None else f"?seconds={seconds}"
        async with aclosing(self._server.events(f"{path}/events{query}")) as events:
            async for name, data in events:
                if name in ("state", "progress"):
                    progress = ANSWERS.read(ProgressBody, data)
                    if progress.state not in FINAL_STATES:
                        yield progress
                elif name == "result":
                    yield ANSWERS.read(declared, data)
                    return

    async def find_study(self, study: str) -> str:
        """Return the id of a study, given its name or first digits.

        Raises
        ------
        NotFoundError, ConfigError
            No study fits, or more than one; the error lists the candidates.
        """
        if is_identity(study):
            return study
        return await self._look_up(study, "study")

    async def _find(self, reference: str, kind: str) -> str:
        """Return an id, given all of it or its first digits; raises as :meth:`find_study`."""
        if is_identity(require_beginning(reference, kind)):
            return reference
        return await self._look_up(reference, kind)

    async def _look_up(self, reference: str, kind: str) -> str:
        params = {"kind": kind, "reference": reference}
        found = await self._read(ReferenceBody, "GET", "/v1/references", params=params)
        return found.identity

    async def _path_of(self, study: str) -> str:
        return "/v1/studies/" + await self.find_study(study)
