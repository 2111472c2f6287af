"""Taking sketches in: every check, in the order that the protocol gives, then one transaction."""

from __future__ import annotations

from collections.abc import Sequence

from aggregator.ports import (
    Clock,
    DeviceRecord,
    PageKey,
    SketchRecord,
    Store,
    StudyRecord,
    Transaction,
)
from aggregator.services.enrolment import require_device
from aggregator.services.plans import PlanCache, require_study
from aggregator.services.plausibility import require_disjoint, require_plausible
from shared.errors import (
    DuplicateUploadError,
    MalformedMessageError,
    NotFoundError,
    PlanMismatchError,
    SketchError,
    StoreError,
    StudyClosedError,
    TransportError,
    WireError,
)
from shared.plan import SketchPlan
from shared.wire import SketchMessage, decode_message, problem_type_of

ENVELOPE_BYTES = 2048
"""What a message may be longer than its payload."""


class SketchService:
    """Stores sketches and lists them."""

    def __init__(
        self, store: Store, clock: Clock, plans: PlanCache, *, max_unknown_bytes: int
    ) -> None:
        self._store = store
        self._clock = clock
        self._plans = plans
        self._max_unknown_bytes = max_unknown_bytes

    async def find_limit(self, study_id: bytes) -> int:
        """Return the largest message in bytes; for an unknown study the server's own limit."""
        async with self._store.begin() as transaction:
            study = await transaction.get_study(study_id)
        if study is None:
            return self._max_unknown_bytes
        return (await self._plans.get(study)).payload_bytes + ENVELOPE_BYTES

    async def refuse_large(self, study_id: bytes, limit: int) -> WireError:
        """Count a message that is too large, and return the error to answer with."""
        error = WireError(
            f"is larger than {limit} bytes",
            field="body",
            fix="send a sketch of the study's plan, uncompressed",
        )
        await self._count_refusal(study_id, error)
        return error

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
        StudyClosedError, PlanMismatchError, ImplausibleSketchError, StoreError
            The study does not take it.

        Guarantees
        ----------
        When it returns, the sketch is committed. However many calls with one identity run at the
        same time, exactly one stores, and every refusal changes nothing but its own count.
        """
        try:
            message = decode_message(body)
            async with self._store.begin(write=True) as transaction:
                return await self._store_once(transaction, study_id, sketch_id, message)
        except SketchError as error:
            await self._count_refusal(study_id, error)
            raise

    async def _store_once(
        self,
        transaction: Transaction,
        study_id: bytes,
        sketch_id: bytes,
        message: SketchMessage,
    ) -> bool:
        study = await require_study(transaction, study_id)
        _require_address(message, study_id, sketch_id)
        device = await self._require_author(transaction, message)
        if await _is_stored(transaction, message):
            return False
        plan = await self._plans.get(study)
        _require_accepted(study, message)
        require_plausible(message.header, message.payload, plan)
        below, above = await transaction.find_neighbours(
            device.device_id, message.header.stream, message.header.sequence
        )
        require_disjoint(message.header, below, above, most_records=plan.most_records)
        now = self._clock.now()
        if not await transaction.add_sketch(_to_record(message, now), message.payload):
            # Another request stored this identity since it was looked up.
            if await _is_stored(transaction, message):
                return False
            raise StoreError("is stored already", field="sequence")
        await self._count(transaction, plan, message, now)
        return True

    async def _require_author(
        self, transaction: Transaction, message: SketchMessage
    ) -> DeviceRecord:
        header = message.header
        # Locked, so that two windows of one stream are checked one after the other.
        device = await require_device(transaction, header.device, lock=True)
        if device.study_id != header.study:
            raise NotFoundError(
                "is not enrolled in this study",
                field="device",
                fix="enrol with a token of this study",
            )
        message.verify(device.public_key)
        return device

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
            state="open",
        ):
            return
        study = await require_study(transaction, header.study)
        _require_open(study)
        raise _study_full(plan)

    async def _count_refusal(self, study_id: bytes, error: SketchError) -> None:
        """Count a refusal on its own; a database that is away does not hide the refusal."""
        slug = problem_type_of(type(error)).slug
        try:
            async with self._store.begin(write=True) as transaction:
                if await transaction.get_study(study_id) is not None:
                    await transaction.count_refusal(study_id, slug)
        except TransportError:
            return

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


def _require_accepted(study: StudyRecord, message: SketchMessage) -> None:
    _require_open(study)
    if message.header.plan_digest != study.plan_digest:
        raise PlanMismatchError(
            "is not the digest of the study's plan",
            field="plan_digest",
            fix="fetch the study's plan again",
        )


def _require_open(study: StudyRecord) -> None:
    if study.state != "open":
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
