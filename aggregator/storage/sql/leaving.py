"""Shares of excluded devices that cells still hold, and the part that stays there."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select

from aggregator.ports import Selection
from aggregator.storage.cells import Cell, to_bits
from aggregator.storage.leaving import Kept, subtract_leaving
from aggregator.storage.merging import Layout, encode_labels
from aggregator.storage.models import Device, LeavingDevice, Sketch
from aggregator.storage.sql.entries import EntryRows, inside, select_leaving, stays

_EVERYTHING = Selection()


class LeavingRows(EntryRows):
    """Statements on sketches that leave cells."""

    async def _subtract_leaving(
        self, study_id: bytes, selection: Selection, total: Cell, layout: Layout
    ) -> Cell:
        """Take what leaves from the sum over the cells of a selection."""
        leaving = await self._read_leaving(study_id)
        if not leaving:
            return total
        less = await self._sum_entries(select_leaving(study_id), selection, layout)
        kept = to_bits(place.device for place in await self._list_kept(study_id, selection))
        return subtract_leaving(total, less, leaving=leaving, kept=kept)

    async def _read_leaving(self, study_id: bytes) -> int:
        """Return the devices of a study that leave, as bits."""
        statement = (
            select(Device.number)
            .join(LeavingDevice, LeavingDevice.device_id == Device.device_id)
            .where(LeavingDevice.study_id == study_id)
        )
        return to_bits((await self._connection.execute(statement)).scalars())

    async def _list_kept(
        self, study_id: bytes, selection: Selection = _EVERYTHING
    ) -> Sequence[Kept]:
        """Return where the sketches of devices that leave lie that stay."""
        statement = (
            select(
                Sketch.first_slot,
                Sketch.last_slot,
                Device.number,
                Device.labels.label("device_labels"),
            )
            .distinct()
            .select_from(LeavingDevice)
            .join(Device, Device.device_id == LeavingDevice.device_id)
            .join(Sketch, Sketch.device_id == LeavingDevice.device_id)
            .where(LeavingDevice.study_id == study_id, *stays(), *inside(selection))
        )
        return [
            Kept(row.first_slot, row.last_slot, encode_labels(row.device_labels), row.number)
            for row in await self._connection.execute(statement)
            if selection.matches_labels(row.device_labels)
        ]
