"""Store verified uploads: group commit, in which each upload is judged by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sfumato.aggregator.base.group_commit import Batcher
from sfumato.aggregator.base.transaction import Transaction
from sfumato.aggregator.resources.batches.store.batches import join_batches
from sfumato.aggregator.resources.devices.record import DeviceRecord, RetiredKeyRecord
from sfumato.aggregator.resources.devices.service.keys import find_signer, require_valid
from sfumato.aggregator.resources.devices.service.signed import not_enrolled
from sfumato.aggregator.resources.devices.store import touch_devices
from sfumato.aggregator.resources.parts import Parts, Service
from sfumato.aggregator.resources.plans import require_present, require_study
from sfumato.aggregator.resources.sketches.record import SketchRecord
from sfumato.aggregator.resources.sketches.service.plausibility import (
    require_begun,
    require_disjoint,
    require_in_time,
    require_not_replaced,
)
from sfumato.aggregator.resources.sketches.store.sketches import (
    add_sketches,
    count_sketch,
    list_neighbours,
)
from sfumato.aggregator.resources.sketches.store.streams import count_streams
from sfumato.aggregator.resources.studies.record import StudyRecord
from sfumato.shared.errors import (
    AccessError,
    DuplicateUploadError,
    NotFoundError,
    PlanMismatchError,
    SketchError,
    StudyClosedError,
    TransportError,
)
from sfumato.shared.plan import SketchPlan
from sfumato.shared.sharing.batches import BatchKey, choose_part
from sfumato.shared.wire import SketchMessage, shorten_header

_MOST = 64
"""Uploads in one transaction: the last waits about as long as a slow disk takes to commit."""
_Neighbours = tuple[SketchRecord | None, SketchRecord | None]


@dataclass(frozen=True, kw_only=True, eq=False)
class Upload:
    """A message whose signature was verified.

    Parameters
    ----------
    public_key
        The device's key when it was verified.
    signer
        The retired key that signed, if one did.
    implausible
        Why the plan refuses the sketch by itself, if it does.
    """

    message: SketchMessage
    public_key: bytes
    signer: RetiredKeyRecord | None
    implausible: SketchError | None

    @property
    def sketch_id(self) -> bytes:
        """The identity of the sketch."""
        return self.message.header.sketch_id

    @property
    def device_id(self) -> bytes:
        """The identity of its device."""
        return self.message.header.device


class UploadWriter(Service):
    """Group commit: store queued uploads in one transaction, in order of arrival."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        # At most one of each device, so that uploads of a batch need not be compared.
        self._batches = Batcher[Upload, bool](
            self._store_batch, most=_MOST, key=lambda upload: upload.device_id
        )

    async def store(self, upload: Upload) -> bool:
        """Store an upload; return false if it was stored before.

        Raises
        ------
        SketchError
            It is refused, or the database does not answer.

        Guarantees
        ----------
        When it returns, the sketch is committed. A fault of one upload refuses no other.
        """
        return await self._batches.submit(upload)

    async def _store_batch(self, uploads: Sequence[Upload]) -> Sequence[bool | Exception]:
        try:
            async with self._store.begin(write=True) as transaction:
                return await self._store_all(transaction, uploads)
        except TransportError:
            raise
        except Exception:
            if len(uploads) == 1:
                raise
        return [await self._store_alone(upload) for upload in uploads]

    async def _store_alone(self, upload: Upload) -> bool | Exception:
        try:
            (result,) = await self._store_batch([upload])
        except Exception as error:
            return error
        return result

    async def _store_all(
        self, transaction: Transaction, uploads: Sequence[Upload]
    ) -> Sequence[bool | Exception]:
        # Locked, so that two windows of one stream are checked one after the other.
        devices = await transaction.get_many(
            DeviceRecord, [u.device_id for u in uploads], lock=True
        )
        studies = await _get_studies(transaction, uploads)
        present = await transaction.get_many(SketchRecord, [upload.sketch_id for upload in uploads])
        neighbours = await list_neighbours(
            transaction,
            [(u.device_id, u.message.header.stream, u.message.header.sequence) for u in uploads],
        )
        now = self._clock.now()
        judged: list[bool | Exception] = []
        for upload, both in zip(uploads, neighbours, strict=True):
            study = studies.get(upload.message.header.study)
            device = devices.get(upload.device_id)
            same = present.get(upload.sketch_id)
            try:
                judged.append(
                    await self._judge(transaction, now, upload, study, device, same, both)
                )
            except SketchError as error:
                judged.append(error)
        new = [u for u, verdict in zip(uploads, judged, strict=True) if verdict is True]
        labels = {identity: device.labels for identity, device in devices.items()}
        await self._write(transaction, new, studies, labels, now)
        return judged

    async def _judge(
        self,
        transaction: Transaction,
        now: float,
        upload: Upload,
        study: StudyRecord | None,
        device: DeviceRecord | None,
        present: SketchRecord | None,
        neighbours: _Neighbours,
    ) -> bool:
        """Return whether an upload is new; raise the reason if it is refused."""
        message = upload.message
        study = require_present(study)
        device = require_author(message, device)
        signer = upload.signer
        if signer is not None or device.public_key != upload.public_key:
            signer = await find_signer(transaction, device, message)
        if present is not None:
            _require_same(present, message, study)
            return False
        _require_included(device)
        require_valid(device, signer)
        _require_accepted(study, message, now)
        if upload.implausible is not None:
            raise upload.implausible
        plan = await self._plans.get(study)
        await _require_share(transaction, device, plan, is_first=neighbours == (None, None))
        require_disjoint(message.header, *neighbours, plan)
        require_not_replaced(message.header, device)
        require_in_time(message.header, plan, now=now)
        # Last: the device sends again after this refusal, and not after those before.
        require_begun(message.header, plan, now=now)
        return True

    async def _write(
        self,
        transaction: Transaction,
        uploads: Sequence[Upload],
        studies: Mapping[bytes, StudyRecord],
        labels: Mapping[bytes, Mapping[str, str]],
        now: float,
    ) -> None:
        if not uploads:
            return
        joined = await self._join_batches(transaction, uploads, studies, labels, now)
        await add_sketches(
            transaction,
            [
                (
                    replace(SketchRecord.of(upload.message, received=now), **more),
                    upload.message.payload,
                )
                for upload, more in zip(uploads, joined, strict=True)
            ],
        )
        devices = [upload.device_id for upload in uploads]
        await touch_devices(transaction, devices, now=now, n_sketches=1)
        # Last: this row stays locked until the commit, and every upload to the study needs it.
        for study_id in sorted({upload.message.header.study for upload in uploads}):
            sizes = [
                upload.message.header.n_records or 0
                for upload in uploads
                if upload.message.header.study == study_id
            ]
            await self._count(transaction, studies[study_id], sizes, now)

    async def _join_batches(
        self,
        transaction: Transaction,
        uploads: Sequence[Upload],
        studies: Mapping[bytes, StudyRecord],
        labels: Mapping[bytes, Mapping[str, str]],
        now: float,
    ) -> Sequence[Mapping[str, Any]]:
        """Find the batches of masked sums; return the columns of each upload that say so."""
        groups: dict[bytes, tuple[BatchKey, list[int]]] = {}
        for position, upload in enumerate(uploads):
            header = upload.message.header
            plan = await self._plans.get(studies[header.study])
            if plan.sum_release is None or header.slots is None:
                continue
            key = BatchKey(
                plan_digest=header.plan_digest,
                slot=header.slots[0],
                labels=labels[upload.device_id],
                part=choose_part(header.sketch_id, plan.sum_release.parts),
                number=0,
            )
            groups.setdefault(key.batch_id, (key, []))[1].append(position)
        joined: list[Mapping[str, Any]] = [{} for _ in uploads]
        # In one order everywhere, because each batch stays locked.
        for _, (key, positions) in sorted(groups.items()):
            study = studies[uploads[positions[0]].message.header.study]
            batch_ids = await join_batches(
                transaction,
                await self._plans.get(study),
                key,
                study_id=study.study_id,
                n_reports=len(positions),
                now=now,
            )
            for position, batch_id in zip(positions, batch_ids, strict=True):
                joined[position] = {"state": "waiting", "batch_id": batch_id}
        return joined

    async def _count(
        self, transaction: Transaction, study: StudyRecord, sizes: Sequence[int], now: float
    ) -> None:
        plan = await self._plans.get(study)
        if await count_sketch(
            transaction,
            study.study_id,
            n_sketches=len(sizes),
            n_records=sum(sizes),
            most_sketches=plan.most_sketches,
            now=now,
        ):
            return
        _require_open(await require_study(transaction, study.study_id), now)
        raise _study_full(plan)


async def _get_studies(
    transaction: Transaction, uploads: Sequence[Upload]
) -> dict[bytes, StudyRecord]:
    wanted = sorted({upload.message.header.study for upload in uploads})
    found = [await transaction.get(StudyRecord, study_id) for study_id in wanted]
    return {study.study_id: study for study in found if study is not None}


def require_author(message: SketchMessage, device: DeviceRecord | None) -> DeviceRecord:
    """Return the device of a message, enrolled in the message's study.

    Raises
    ------
    AccessError, NotFoundError
        It is not enrolled, or is in another study.
    """
    if device is None:
        raise not_enrolled()
    if device.study_id != message.header.study:
        raise NotFoundError(
            "is not enrolled in this study",
            field="device",
            fix="enrol with a token of this study",
        )
    return device


def _require_same(present: SketchRecord, message: SketchMessage, study: StudyRecord) -> None:
    """Check that the stored sketch is the same; a rotated key may have signed it again."""
    header = message.header
    same_payload = present.payload_digest == header.payload_digest
    same_plan = header.plan_digest == study.plan_digest
    if same_payload and same_plan and present.header == shorten_header(header):
        return
    raise DuplicateUploadError(
        "is stored with another payload or header",
        field="sketch_id",
        fix="stop this stream: the device was cloned, or restored from a backup",
    )


def _require_accepted(study: StudyRecord, message: SketchMessage, now: float) -> None:
    _require_open(study, now)
    if message.header.plan_digest != study.plan_digest:
        raise PlanMismatchError(
            "must be the digest of the study's plan",
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
        raise StudyClosedError(
            "is closed and accepts no more sketches",
            field="study",
            fix="ask the study's operator whether it opens again",
        )


async def _require_share(
    transaction: Transaction, device: DeviceRecord, plan: SketchPlan, *, is_first: bool
) -> None:
    """Check the quotas of a device; ``is_first`` for the first sketch of a stream."""
    fix = "exclude the device if it lies; otherwise publish a study that allows each device more"
    if device.n_sketches >= plan.most_sketches_per_device:
        raise StudyClosedError(
            f"allows {plan.most_sketches_per_device} sketches, and this device has sent them all",
            field="most_sketches_per_device",
            fix=fix,
        )
    most = plan.most_streams_per_device
    if is_first and await count_streams(transaction, device.device_id) >= most:
        raise StudyClosedError(
            f"allows {most} streams, and this device has that many",
            field="most_streams_per_device",
            fix=fix,
        )


def _study_full(plan: SketchPlan) -> StudyClosedError:
    return StudyClosedError(
        f"holds {plan.most_sketches} sketches, the most that its plan allows",
        field="most_sketches",
        fix="exclude the devices that fill it (`sfumato device list` counts the sketches of each), "
        "which makes room, or publish a new study",
    )
