"""Taking sketches in: every check, in the order that the protocol gives, then one transaction."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from aggregator.ports import (
    Clock,
    DeviceRecord,
    PageKey,
    RetiredKeyRecord,
    SketchRecord,
    Store,
    StudyRecord,
    Transaction,
)
from aggregator.services.device_keys import find_signer, require_valid
from aggregator.services.devices import require_device
from aggregator.services.plans import PlanCache, require_study
from aggregator.services.plausibility import require_disjoint, require_plausible
from aggregator.services.rates import RateLimit
from aggregator.services.tallies import Tallies
from shared.errors import (
    AccessError,
    DuplicateUploadError,
    MalformedMessageError,
    NotFoundError,
    PlanMismatchError,
    SketchError,
    StoreError,
    StudyClosedError,
    TransportError,
)
from shared.plan import SketchPlan
from shared.wire import SketchMessage, decode_message, problem_type_of

ENVELOPE_BYTES = 2048
"""What a message may be longer than its payload."""
_MOST_LIMITS = 4096


class _Author(NamedTuple):
    """A device, and the key that signed if the device has replaced it since."""

    device: DeviceRecord
    signer: RetiredKeyRecord | None


class SketchService:
    """Stores sketches and lists them."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        plans: PlanCache,
        *,
        max_unknown_bytes: int,
        tallies: Tallies,
        rate: RateLimit,
    ) -> None:
        self._store = store
        self._clock = clock
        self._plans = plans
        self._max_unknown_bytes = max_unknown_bytes
        self._tallies = tallies
        self._rate = rate
        self._limits: OrderedDict[bytes, int] = OrderedDict()

    async def find_limit(self, study_id: bytes) -> int:
        """Return the largest message in bytes; for an unknown study the server's own limit."""
        known = await self._find_known_limit(study_id)
        return self._max_unknown_bytes if known is None else known

    async def _find_known_limit(self, study_id: bytes) -> int | None:
        """Return the limit of a study, which never changes; None for an unknown study."""
        if study_id not in self._limits:
            async with self._store.begin() as transaction:
                study = await transaction.get_study(study_id)
            if study is None:
                return None
            plan = await self._plans.get(study)
            self._limits[study_id] = plan.payload_bytes + ENVELOPE_BYTES
        self._limits.move_to_end(study_id)
        while len(self._limits) > _MOST_LIMITS:
            self._limits.popitem(last=False)
        return self._limits[study_id]

    async def note_refusal(self, study_id: bytes, error: SketchError) -> None:
        """Count a refusal; a database that is away does not hide it."""
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
            The message is not one of an enrolled device for this address.
        DuplicateUploadError
            Another sketch is stored under this identity.
        OverloadedError
            The device sends too often.
        StudyClosedError, PlanMismatchError, ImplausibleSketchError, StoreError
            The study does not take it.

        Guarantees
        ----------
        When it returns, the sketch is committed. However many calls with one identity run at the
        same time, exactly one stores, and every refusal changes nothing but its own count. No
        write transaction is opened before the signature has been verified.
        """
        try:
            message = decode_message(body)
            author = await self._authenticate(study_id, sketch_id, message)
            self._rate.spend(author.device.device_id)
            async with self._store.begin(write=True) as transaction:
                return await self._store_once(transaction, message, author)
        except SketchError as error:
            await self.note_refusal(study_id, error)
            raise

    async def _authenticate(
        self, study_id: bytes, sketch_id: bytes, message: SketchMessage
    ) -> _Author:
        """Return who signed a message, without holding up any writer."""
        async with self._store.begin() as transaction:
            await require_study(transaction, study_id)
            _require_address(message, study_id, sketch_id)
            device = await _require_author(transaction, message)
            return _Author(device, await find_signer(transaction, device, message))

    async def _store_once(
        self, transaction: Transaction, message: SketchMessage, author: _Author
    ) -> bool:
        study = await require_study(transaction, message.header.study)
        # Locked, so that two windows of one stream are checked one after the other.
        device = await _require_author(transaction, message, lock=True)
        signer = author.signer
        if signer is not None or device.public_key != author.device.public_key:
            signer = await find_signer(transaction, device, message)
        if await _is_stored(transaction, message):
            return False
        _require_included(device)
        require_valid(device, signer)
        plan = await self._plans.get(study)
        now = self._clock.now()
        _require_accepted(study, message, now)
        require_plausible(message.header, message.payload, plan)
        below, above = await transaction.find_neighbours(
            device.device_id, message.header.stream, message.header.sequence
        )
        require_disjoint(message.header, below, above, most_records=plan.most_records)
        if not await transaction.add_sketch(_to_record(message, now), message.payload):
            # Another request stored this identity since it was looked up.
            if await _is_stored(transaction, message):
                return False
            raise StoreError("is stored already", field="sequence")
        await self._count(transaction, plan, message, now)
        return True

    async def _count(
        self, transaction: Transaction, plan: SketchPlan, message: SketchMessage, now: float
    ) -> None:
        header = message.header
        # Last, for this row is locked until the commit and every upload to the study needs it.
        await transaction.touch_device(header.device, now=now, n_sketches=1)
        if await transaction.count_sketch(
            header.study,
            n_records=header.n_records or 0,
            most_sketches=plan.most_sketches,
            now=now,
        ):
            return
        study = await require_study(transaction, header.study)
        _require_open(study, now)
        raise _study_full(plan)

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
            return await transaction.list_sketches(study_id, after=after, limit=limit)


async def _require_author(
    transaction: Transaction, message: SketchMessage, *, lock: bool = False
) -> DeviceRecord:
    device = await require_device(transaction, message.header.device, lock=lock)
    if device.study_id != message.header.study:
        raise NotFoundError(
            "is not enrolled in this study",
            field="device",
            fix="enrol with a token of this study",
        )
    return device


async def _is_stored(transaction: Transaction, message: SketchMessage) -> bool:
    """Tell whether this very sketch is stored.

    Envelopes are not compared: a device whose key was rotated may sign the same release again.
    """
    present = await transaction.get_sketch(message.header.sketch_id)
    if present is None:
        return False
    same_payload = present.payload_digest == message.header.payload_digest
    if same_payload and present.header == message.header_bytes:
        return True
    raise DuplicateUploadError(
        "is stored with another payload or header",
        field="sketch_id",
        fix="stop this stream: the device was cloned, or restored from a backup",
    )


def _require_address(message: SketchMessage, study_id: bytes, sketch_id: bytes) -> None:
    fix = "send the message to the address that its header gives"
    if message.header.study != study_id:
        raise MalformedMessageError("is not the study in the address", field="study", fix=fix)
    if message.header.sketch_id != sketch_id:
        raise MalformedMessageError("is not the one in the address", field="sketch_id", fix=fix)


def _require_accepted(study: StudyRecord, message: SketchMessage, now: float) -> None:
    _require_open(study, now)
    if message.header.plan_digest != study.plan_digest:
        raise PlanMismatchError(
            "is not the digest of the study's plan",
            field="plan_digest",
            fix="fetch the study's plan again",
        )


def _require_included(device: DeviceRecord) -> None:
    if device.excluded is not None:
        raise AccessError(
            "is excluded from the study", field="device", fix="ask the operator for the reason"
        )


def _require_open(study: StudyRecord, now: float) -> None:
    if not study.accepts_sketches(now):
        raise StudyClosedError("accepts no more sketches", field="study")


def _study_full(plan: SketchPlan) -> StudyClosedError:
    return StudyClosedError(
        f"holds {plan.most_sketches} sketches, the most that its plan allows",
        field="most_sketches",
        fix="publish a new study",
    )


def _to_record(message: SketchMessage, now: float) -> SketchRecord:
    header = message.header
    first, last = header.slots or (None, None)
    return SketchRecord(
        sketch_id=header.sketch_id,
        study_id=header.study,
        device_id=header.device,
        stream=header.stream,
        sequence=header.sequence,
        first_slot=first,
        last_slot=last,
        n_records=header.n_records,
        payload_digest=header.payload_digest,
        header=message.header_bytes,
        signature=message.signature,
        received=now,
    )
