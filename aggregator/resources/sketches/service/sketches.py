"""Receive sketches: the checks in the order of the protocol, then one transaction."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from sfumato.aggregator.base.group_commit import Batcher
from sfumato.aggregator.base.store import Store
from sfumato.aggregator.base.transaction import PageKey
from sfumato.aggregator.resources.devices.record import DeviceRecord
from sfumato.aggregator.resources.devices.service.keys import find_signer
from sfumato.aggregator.resources.parts import Parts, Service
from sfumato.aggregator.resources.plans import require_present, require_study
from sfumato.aggregator.resources.sketches.record import SketchRecord
from sfumato.aggregator.resources.sketches.service.plausibility import require_plausible
from sfumato.aggregator.resources.sketches.service.writer import (
    Upload,
    UploadWriter,
    require_author,
)
from sfumato.aggregator.resources.studies.record import StudyRecord
from sfumato.shared.errors import MalformedMessageError, SignatureError, SketchError, TransportError
from sfumato.shared.wire import PayloadForm, SketchMessage, decode_message, problem_type_of

ENVELOPE_BYTES = 2048
"""Number of bytes by which a message may be longer than its payload."""
_MOST_LIMITS = 4096
_MOST_AUTHORS = 20_000
_AUTHORS_AT_ONCE = 64
_Address = tuple[bytes, bytes]


@dataclass(frozen=True, kw_only=True)
class Author:
    """A study and a device as they were at some time, if there were any."""

    study: StudyRecord | None
    device: DeviceRecord | None


class Authors:
    """A cache of the devices that uploaded last, with their studies.

    An entry may be out of date. It serves to verify a signature before a write transaction is
    opened; inside that, every decision is made again from the rows.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: OrderedDict[_Address, Author] = OrderedDict()
        self._reads = Batcher[_Address, Author](
            self._read, most=_AUTHORS_AT_ONCE, key=lambda item: item
        )

    def recall(self, study_id: bytes, device_id: bytes) -> Author | None:
        """Return a cached author."""
        found = self._known.get((study_id, device_id))
        if found is not None:
            self._known.move_to_end((study_id, device_id))
        return found

    async def find(self, study_id: bytes, device_id: bytes) -> Author:
        """Look an author up, and cache one that is enrolled in the study."""
        found = await self._reads.submit((study_id, device_id))
        self._known.pop((study_id, device_id), None)
        if found.study is not None and found.device and found.device.study_id == study_id:
            self._known[study_id, device_id] = found
        while len(self._known) > _MOST_AUTHORS:
            self._known.popitem(last=False)
        return found

    async def _read(self, addresses: Sequence[_Address]) -> Sequence[Author]:
        async with self._store.begin() as transaction:
            devices = await transaction.get_many(DeviceRecord, [device for _, device in addresses])
            studies = {
                study: await transaction.get(StudyRecord, study)
                for study in sorted({study for study, _ in addresses})
            }
        return [
            Author(study=studies[study], device=devices.get(device)) for study, device in addresses
        ]


class SketchService(Service):
    """Stores sketches and lists them."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._authors = Authors(parts.store)
        self._writer = UploadWriter(parts)
        self._limits: OrderedDict[bytes, int] = OrderedDict()

    async def find_limit(self, study_id: bytes) -> int:
        """Return the largest message in bytes; for an unknown study the limit of the server."""
        known = await self._find_known_limit(study_id)
        return self._settings.max_body_bytes if known is None else known

    async def _find_known_limit(self, study_id: bytes) -> int | None:
        """Return the limit of a study, which never changes."""
        if study_id not in self._limits:
            async with self._store.begin() as transaction:
                study = await transaction.get(StudyRecord, study_id)
            if study is None:
                return None
            plan = await self._plans.get(study)
            self._limits[study_id] = PayloadForm.of(plan).length + ENVELOPE_BYTES
        self._limits.move_to_end(study_id)
        while len(self._limits) > _MOST_LIMITS:
            self._limits.popitem(last=False)
        return self._limits[study_id]

    async def note_refusal(self, study_id: bytes, error: SketchError) -> None:
        """Count a refusal, if the database answers."""
        try:
            if await self._find_known_limit(study_id) is not None:
                self._tallies.note_refusal(study_id, problem_type_of(type(error)).slug)
        except TransportError:
            return

    async def receive(self, study_id: bytes, sketch_id: bytes, body: bytes) -> bool:
        """Store a sketch once; return whether this call stored it.

        Parameters
        ----------
        study_id, sketch_id
            From the address of the request.
        body
            The message, no longer than :meth:`find_limit`.

        Raises
        ------
        MalformedMessageError, UnsupportedVersionError, NotFoundError, AccessError, SignatureError
            The message is not from an enrolled device, or not for this address.
        DuplicateUploadError
            Another sketch is stored under this identity.
        OverloadedError
            The device sends too often.
        StudyClosedError, PlanMismatchError, ImplausibleSketchError, TooEarlyError, StoreError
            The study refuses it.

        Guarantees
        ----------
        When it returns, the sketch is committed. Of concurrent calls with one identity exactly one
        stores, and a refusal changes nothing but its own count. No write transaction is opened
        before the signature has been verified.
        """
        try:
            message = decode_message(body)
            upload = await self._verify(study_id, sketch_id, message)
            self._device_rate.spend(upload.device_id)
            return await self._writer.store(upload)
        except SketchError as error:
            await self.note_refusal(study_id, error)
            raise

    async def _verify(self, study_id: bytes, sketch_id: bytes, message: SketchMessage) -> Upload:
        """Verify that a device of the study signed a message, without holding up any writer."""
        device_id = message.header.device
        author = self._authors.recall(study_id, device_id)
        if author is not None:
            with suppress(SignatureError):
                return await self._verify_by(author, study_id, sketch_id, message)
        author = await self._authors.find(study_id, device_id)
        return await self._verify_by(author, study_id, sketch_id, message, retired_too=True)

    async def _verify_by(
        self,
        author: Author,
        study_id: bytes,
        sketch_id: bytes,
        message: SketchMessage,
        *,
        retired_too: bool = False,
    ) -> Upload:
        study = require_present(author.study)
        _require_address(message, study_id, sketch_id)
        device = require_author(message, author.device)
        signer = None
        try:
            message.verify(device.public_key)
        except SignatureError:
            if not retired_too:
                raise
            async with self._store.begin() as transaction:
                signer = await find_signer(transaction, device, message)
        plan = await self._plans.get(study)
        # Computed here, outside the write transaction, because it takes longest; raised there.
        implausible: SketchError | None = None
        try:
            require_plausible(message.header, message.payload, plan)
        except SketchError as error:
            implausible = error
        return Upload(
            message=message,
            public_key=device.public_key,
            signer=signer,
            implausible=implausible,
        )

    async def list_page(
        self, study_id: bytes, *, after: PageKey | None, limit: int
    ) -> Sequence[SketchRecord]:
        """Return sketches of a study in the order of arrival.

        Raises
        ------
        NotFoundError
            There is no such study.
        """
        async with self._store.begin() as transaction:
            await require_study(transaction, study_id)
            return await transaction.list_page(
                SketchRecord, study_id=study_id, after=after, limit=limit
            )


def _require_address(message: SketchMessage, study_id: bytes, sketch_id: bytes) -> None:
    fix = "send the message to the address that its header gives"
    if message.header.study != study_id:
        raise MalformedMessageError("is not the study in the address", field="study", fix=fix)
    if message.header.sketch_id != sketch_id:
        raise MalformedMessageError("is not the one in the address", field="sketch_id", fix=fix)
