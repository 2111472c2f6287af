"""Taking sketches out again: those of an excluded device, and the payloads of old ones."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from sqlalchemy import Select, delete, func, insert, or_, select, update

from aggregator.records import ExcludedSketches
from aggregator.storage.models import Device, LeavingDevice, PendingSketch, Sketch, Study
from aggregator.storage.statements.cells import CellRows, to_root
from aggregator.storage.statements.entries import leaves, select_leaving, stays, to_entry
from aggregator.storage.statements.turns import in_turns
from aggregator.storage.sums.cells import has_device
from aggregator.storage.sums.leaving import Removal, sum_removal
from aggregator.storage.sums.merging import Layout


class ExclusionRows(CellRows):
    """Statements on what leaves the sums."""

    async def exclude_device(
        self, device_id: bytes, *, now: float, reason: str
    ) -> ExcludedSketches | None:
        """Let the sketches of a device count no more; None if that was done before.

        From then on they are in no total and in no count of their study; those whose payloads were
        dropped stay. What running sums hold of them is taken out by :meth:`apply_removal`. The
        device's row must be locked.
        """
        marked = await self._connection.execute(
            update(Device)
            .where(Device.device_id == device_id, Device.excluded.is_(None))
            .values(excluded=now, reason=reason)
            .returning(Device.study_id)
        )
        study_id = marked.scalar_one_or_none()
        if study_id is None:
            return None
        # Whoever sums in a transaction that writes sees all of this, or nothing.
        await self._lock_root(study_id)
        # Both are answered by an index alone, for uploads may wait meanwhile.
        counted = select(func.count(), func.sum(Sketch.n_records))
        held = counted.where(Sketch.device_id == device_id, *leaves())
        n_leaving, n_records = (await self._connection.execute(held)).one()
        n_all = await self._count_rows(select(Sketch).where(Sketch.device_id == device_id))
        if n_leaving:
            await self._connection.execute(
                insert(LeavingDevice).values(device_id=device_id, study_id=study_id)
            )
            await self._connection.execute(
                update(Study)
                .where(Study.study_id == study_id)
                .values(
                    n_sketches=Study.n_sketches - n_leaving,
                    n_records=Study.n_records - int(n_records or 0),
                )
            )
        return ExcludedSketches(n_subtracted=n_leaving, n_kept=n_all - n_leaving)

    async def count_excluded(self, device_id: bytes) -> ExcludedSketches:
        """Return what became of the sketches of an excluded device."""
        of_device = select(Sketch).where(Sketch.device_id == device_id)
        n_kept = await self._count_rows(of_device.where(*stays()))
        return ExcludedSketches(
            n_subtracted=await self._count_rows(of_device) - n_kept, n_kept=n_kept
        )

    async def _count_rows(self, rows: Select[Any]) -> int:
        return int(await self._scalar(rows.with_only_columns(func.count())))

    async def list_leaving(self) -> Sequence[bytes]:
        """Return the studies whose running sums hold, or will, sketches of excluded devices."""
        statement = select(LeavingDevice.study_id).distinct()
        return list((await self._connection.execute(statement)).scalars())

    async def prepare_removal(
        self, study_id: bytes, *, width: int, n_coordinates: int, most: int
    ) -> Removal | None:
        """Sum up to ``most`` sketches that are to leave, and change nothing; None if there is none.

        Those that wait still are merged first. As with merging, this takes long and reads.

        Raises
        ------
        StoreError
            A sum could leave 64 bits.
        """
        root = await self._read_root(study_id)
        found = await self._connection.execute(select_leaving(study_id).limit(most))
        entries = [to_entry(row) for row in found]
        if not entries:
            return None
        kept = await self._list_kept(study_id)
        layout = Layout(width=width, n_coordinates=n_coordinates)
        return await in_turns(partial(sum_removal, study_id, entries, kept, root, layout))

    async def apply_removal(self, prepared: Removal) -> int:
        """Take what was prepared out of the running sums; return how many sketches were.

        None, where something changed since, or another does the same. It changes no total.

        Raises
        ------
        StoreError
            A running sum that should be there is not.
        """
        study_id, n_leaving = prepared.study_id, len(prepared.sketch_ids)
        # Only who holds the root takes sketches out of cells.
        found = await self._lock_root(study_id, skip_locked=True)
        if found is None or to_root(found) != prepared.root:
            return 0
        which = Sketch.sketch_id.in_(prepared.sketch_ids)
        still = (
            select(Sketch)
            .join(LeavingDevice, LeavingDevice.device_id == Sketch.device_id)
            .where(which, *leaves())
        )
        if await self._count_rows(still) != n_leaving:
            return 0
        present = await self._load(study_id, {node for node, _ in prepared.cells})
        await self._save(study_id, prepared.take_out(present))
        await self._connection.execute(update(Sketch).where(which).values(state="excluded"))
        more = select(Sketch.sketch_id).where(
            Sketch.device_id == LeavingDevice.device_id, *leaves()
        )
        await self._connection.execute(
            delete(LeavingDevice).where(LeavingDevice.study_id == study_id, ~more.exists())
        )
        return n_leaving

    async def find_excluded(self, study_id: bytes, devices: bytes) -> Sequence[bytes]:
        """Return the identities of excluded devices among those of a snapshot."""
        statement = (
            select(Device.device_id, Device.number)
            .where(Device.study_id == study_id, Device.excluded.is_not(None))
            .order_by(Device.device_id)
        )
        found = await self._connection.execute(statement)
        return [row.device_id for row in found if has_device(devices, row.number)]

    async def drop_payloads(self, *, received_before: float, most: int) -> int:
        """Drop up to ``most`` payloads of old sketches; return how many.

        Of those alone that are in running sums to stay, or out of them for good. All else of a
        sketch stays, so a replay is still known.
        """
        waits = select(PendingSketch.sketch_id)
        old = (
            select(Sketch.sketch_id)
            .join(Device, Device.device_id == Sketch.device_id)
            .where(Sketch.received < received_before, Sketch.payload.is_not(None))
            .where(Sketch.sketch_id.not_in(waits))
            .where(or_(Device.excluded.is_(None), Sketch.state != "stored"))
            .limit(most)
            # The device too, so that none is excluded between finding its payloads and dropping
            # them: what it is said to take out would stay.
            .with_for_update(of=(Sketch, Device), key_share=True, skip_locked=True)
        )
        held = update(Sketch).where(Sketch.sketch_id.in_(old), Sketch.payload.is_not(None))
        return await self._change(held.values(payload=None))
