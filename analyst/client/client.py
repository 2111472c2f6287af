"""The client: its parts together, on one set of connections."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from sfumato.analyst.client.analyses import AsyncAnalyses
from sfumato.analyst.client.looks import AsyncLooks
from sfumato.analyst.client.operation import AsyncOperation
from sfumato.analyst.client.publications import AsyncPublications


class AsyncClient(AsyncAnalyses, AsyncLooks, AsyncOperation, AsyncPublications):
    """Client of an aggregator.

    A ``study`` is given by its id, its name, or the first 6 or more digits of its id. Names and
    digits take one more request.

    Parameters
    ----------
    url
        Address, such as ``http://127.0.0.1:8750``.
    key
        API key of a scope that allows the calls, such as viewer; public resources need none.
    timeout
        Seconds to wait for one answer.
    patience_s
        Longest time in seconds for which one call retries while the server is busy.

    Raises
    ------
    ConfigError
        From the constructor: the address or the key is malformed. From every call: the client is
        closed, or an argument is malformed.
    TransportError
        From every call: the server did not answer, or is not an aggregator.
    SketchError
        From every call: the server refused; its problem document names the class.
    """

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._server.aclose()

    async def find_batch(self, study: str, reference: str) -> str:
        """Return the id of a batch, given all of it or its first 6 or more digits.

        Raises
        ------
        NotFoundError, ConfigError
            No batch of the study fits, or more than one; the error lists the candidates.
        """
        return (await self.batch(study, reference)).batch_id

    async def is_ready(self) -> bool:
        """Return whether the server and its database answer."""
        return await self._server.is_answering("/readyz")
