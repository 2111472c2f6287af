"""Calls about batches of masked sums."""

from __future__ import annotations

from collections.abc import AsyncIterator

from sfumato.analyst.client.studies import AsyncStudies
from sfumato.shared.wire.objects.batches import BatchBody, BatchDetailsBody, SuspectsBody
from sfumato.shared.wire.references import require_beginning


class AsyncBatches(AsyncStudies):
    """Calls about batches of masked sums."""

    def batches(self, study: str) -> AsyncIterator[BatchBody]:
        """Yield the batches of a study with a secure sum, newest first."""
        return self._pages_of(BatchBody, study, "batches")

    async def batch(self, study: str, batch_id: str) -> BatchDetailsBody:
        """Return a batch, with the numbers of its reports by state."""
        return await self._read(BatchDetailsBody, "GET", await self._path_of_batch(study, batch_id))

    async def open_batch(self, study: str, batch_id: str) -> BatchDetailsBody:
        """Close a batch before its time, so that its total is opened now.

        Later reports of its slot form the next batch, with a noise of its own.
        """
        path = await self._path_of_batch(study, batch_id)
        return await self._read(BatchDetailsBody, "POST", f"{path}/open")

    async def admit_batch(self, study: str, batch_id: str, *, reason: str) -> BatchDetailsBody:
        """Count the total of a batch that was flagged or set aside."""
        path = await self._path_of_batch(study, batch_id)
        return await self._read(BatchDetailsBody, "POST", f"{path}/admit", {"reason": reason})

    async def set_batch_aside(self, study: str, batch_id: str, *, reason: str) -> BatchDetailsBody:
        """Take the total of a batch out of every sum, exactly."""
        path = await self._path_of_batch(study, batch_id)
        return await self._read(BatchDetailsBody, "POST", f"{path}/set-aside", {"reason": reason})

    async def give_batch_up(self, study: str, batch_id: str, *, reason: str) -> BatchDetailsBody:
        """Drop the reports of a batch that will not be opened: its helper is gone for good."""
        path = await self._path_of_batch(study, batch_id)
        return await self._read(BatchDetailsBody, "POST", f"{path}/give-up", {"reason": reason})

    async def suspects(self, study: str) -> SuspectsBody:
        """Return the devices that were in a flagged part each time that parts were compared."""
        path = await self._path_of(study)
        return await self._read(SuspectsBody, "GET", f"{path}/batches/suspects")

    async def find_batch(self, study: str, reference: str) -> str:
        """Return the id of a batch, given all of it or its first 6 or more digits.

        Raises
        ------
        NotFoundError, ConfigError
            No batch of the study fits, or more than one; the error lists the candidates.
        """
        return (await self.batch(study, reference)).batch_id

    async def _path_of_batch(self, study: str, reference: str) -> str:
        # The server finds it by its first digits.
        batch = require_beginning(reference, "batch")
        return f"{await self._path_of(study)}/batches/{batch}"
