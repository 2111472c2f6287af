"""Signers of messages: looked up for many at once, and remembered."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from aggregator.records import DeviceRecord, StudyRecord
from aggregator.services.batching import Batcher
from aggregator.storage import Store

_MOST = 20_000
_BATCH = 64
_Address = tuple[bytes, bytes]


@dataclass(frozen=True, kw_only=True)
class Author:
    """A study and a device as they were at some time; None where there was none."""

    study: StudyRecord | None
    device: DeviceRecord | None


class Authors:
    """The devices that uploaded last, with their studies.

    A remembered one may have changed since. So it serves to verify a signature before a write
    transaction is opened, and every decision is made again on the rows inside that.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: OrderedDict[_Address, Author] = OrderedDict()
        self._reads = Batcher[_Address, Author](self._read, most=_BATCH, key=lambda item: item)

    def recall(self, study_id: bytes, device_id: bytes) -> Author | None:
        """Return a remembered author."""
        found = self._known.get((study_id, device_id))
        if found is not None:
            self._known.move_to_end((study_id, device_id))
        return found

    async def find(self, study_id: bytes, device_id: bytes) -> Author:
        """Look an author up, and remember one that is enrolled in the study."""
        found = await self._reads.submit((study_id, device_id))
        self._known.pop((study_id, device_id), None)
        if found.study is not None and found.device and found.device.study_id == study_id:
            self._known[study_id, device_id] = found
        while len(self._known) > _MOST:
            self._known.popitem(last=False)
        return found

    async def _read(self, addresses: Sequence[_Address]) -> Sequence[Author]:
        async with self._store.begin() as transaction:
            devices = await transaction.get_devices([device for _, device in addresses])
            studies = {
                study: await transaction.get_study(study)
                for study in sorted({study for study, _ in addresses})
            }
        return [
            Author(study=studies[study], device=devices.get(device)) for study, device in addresses
        ]
