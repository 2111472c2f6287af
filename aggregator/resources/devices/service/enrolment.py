"""Enrolment: a token, a public key and a proof become a device."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sfumato.aggregator.base.group_commit import Batcher
from sfumato.aggregator.base.transaction import PageKey, Transaction
from sfumato.aggregator.resources.devices.record import DeviceRecord, TokenRecord, TokenState
from sfumato.aggregator.resources.devices.store import add_device, use_token
from sfumato.aggregator.resources.keys.record import LOCAL_ACTOR
from sfumato.aggregator.resources.keys.service.audit import write_entry
from sfumato.aggregator.resources.keys.service.keys import hash_secret
from sfumato.aggregator.resources.parts import Parts, Service
from sfumato.aggregator.resources.plans import require_study
from sfumato.aggregator.resources.sketches.store.streams import list_streams
from sfumato.aggregator.resources.studies.record import StudyRecord
from sfumato.shared.errors import (
    AccessError,
    ConfigError,
    NotFoundError,
    StoreError,
    StudyClosedError,
    TransportError,
)
from sfumato.shared.plan import SketchPlan
from sfumato.shared.wire import device_id_of, encode_proof_input, verify_proof

TOKEN_PREFIX = "sfe_"
_TOKEN_BYTES = 32
_SECONDS_A_DAY = 86_400.0
_ACTOR_DIGITS = 16
"""Digits of an id in the audit log, whose actors are short."""
_MOST = 64
"""Enrolments in one transaction."""
_REFUSALS: dict[TokenState, str] = {
    "used-up": "is used up",
    "expired": "has expired",
    "revoked": "was revoked",
}


@dataclass(frozen=True, kw_only=True)
class Continuation:
    """A device in the phase before of a campaign, and its signature over the proof's input."""

    device_id: bytes
    proof: bytes


@dataclass(frozen=True, kw_only=True, eq=False)
class _Enrolment:
    """A request whose proof was verified."""

    token: str
    study_id: bytes
    public_key: bytes
    labels: Mapping[str, str]
    replaces: bytes | None
    continues: Continuation | None


_Known = dict[tuple[bytes, str], tuple[StudyRecord, TokenRecord]]
"""Studies and tokens that a transaction has read, by identity and secret."""


class EnrolmentService(Service):
    """Creates, lists and revokes tokens, and enrols devices; many at once in one transaction."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        # At most one of each key, so that no two of a batch are of one device.
        self._batches = Batcher[_Enrolment, tuple[DeviceRecord, bool]](
            self._enrol_batch, most=_MOST, key=lambda wanted: wanted.public_key
        )

    async def create_token(
        self,
        study_id: bytes,
        *,
        max_uses: int,
        labels: Mapping[str, str] | None,
        actor: str = LOCAL_ACTOR,
    ) -> tuple[str, TokenRecord]:
        """Create an enrolment token; return its secret, which is shown once, and the token.

        Parameters
        ----------
        labels
            Labels that every device of this token must have.

        Raises
        ------
        NotFoundError
            There is no such study.
        ConfigError
            A label or value is not declared in the plan.
        """
        secret = TOKEN_PREFIX + secrets.token_urlsafe(_TOKEN_BYTES)
        now = self._clock.now()
        async with self._store.begin(write=True) as transaction:
            study = await require_study(transaction, study_id)
            _require_declared(await self._plans.get(study), labels or {})
            record = TokenRecord(
                token_hash=hash_secret(secret),
                study_id=study_id,
                max_uses=max_uses,
                created=now,
                expires=now + self._settings.token_days * _SECONDS_A_DAY,
                labels=labels,
            )
            await transaction.add(record)
            about = {"study": study_id.hex(), "max_uses": max_uses, "labels": labels}
            target = record.token_hash.hex()
            await write_entry(
                transaction, now, actor, "token.create", target, **about, expires=record.expires
            )
        return secret, record

    async def list_tokens(
        self, study_id: bytes, *, after: PageKey | None, limit: int
    ) -> Sequence[TokenRecord]:
        """Return the tokens of a study in the order of creation, revoked ones too.

        Raises
        ------
        NotFoundError, StudyWithdrawnError
            There is no such study, or it was withdrawn.
        """
        async with self._store.begin() as transaction:
            await require_study(transaction, study_id)
            return await transaction.list_page(
                TokenRecord, study_id=study_id, after=after, limit=limit
            )

    async def revoke_token(self, token_hash: bytes, *, actor: str = LOCAL_ACTOR) -> TokenRecord:
        """Revoke a token, at once and for good.

        Its devices stay enrolled, and a repeated request of theirs is answered again.

        Raises
        ------
        NotFoundError, StudyWithdrawnError
            There is no such token, or its study was withdrawn.
        """
        now = self._clock.now()
        async with self._store.begin(write=True) as transaction:
            known = await transaction.get(TokenRecord, token_hash, lock=True)
            if known is None:
                raise NotFoundError("is unknown", field="token", fix="see `sfumato study tokens`")
            await require_study(transaction, known.study_id)
            if await transaction.revoke(TokenRecord, token_hash, now=now):
                study, target = known.study_id.hex(), token_hash.hex()
                await write_entry(transaction, now, actor, "token.revoke", target, study=study)
            revoked = await transaction.get(TokenRecord, token_hash)
        assert revoked is not None, "it was found in this transaction"
        return revoked

    async def enrol(
        self,
        *,
        token: str,
        study_id: bytes,
        public_key: bytes,
        labels: Mapping[str, str],
        proof: bytes,
        replaces: bytes | None = None,
        continues: Continuation | None = None,
    ) -> tuple[DeviceRecord, bool]:
        """Enrol a device; the same key with the same labels gets the same answer again.

        Parameters
        ----------
        replaces
            A silent device that is revoked, and whose slots are not taken again.
        continues
            The same device in the phase before of a campaign, in place of a token.

        Returns
        -------
        device, is_new
            The device, and whether this call enrolled it.

        Raises
        ------
        NotFoundError, SignatureError, AccessError, StudyClosedError, ConfigError, StoreError
            The study, the proof, the token or the labels are refused, or the key is in use.
        """
        proof_input = encode_proof_input(
            token=token, study=study_id, public_key=public_key, labels=labels
        )
        # Verified in a read transaction, so that invalid requests block no writer.
        async with self._store.begin() as transaction:
            await require_study(transaction, study_id)
            verify_proof(proof_input, public_key=public_key, proof=proof)
            if continues is None:
                await self._find_token(transaction, token, study_id)
            else:
                await _require_continued(transaction, study_id, continues, proof_input)
        return await self._batches.submit(
            _Enrolment(
                token=token,
                study_id=study_id,
                public_key=public_key,
                labels=labels,
                replaces=replaces,
                continues=continues,
            )
        )

    async def _enrol_batch(
        self, wanted: Sequence[_Enrolment]
    ) -> Sequence[tuple[DeviceRecord, bool] | Exception]:
        """Enrol devices in one transaction; if one is refused, each in one of its own."""
        try:
            async with self._store.begin(write=True) as transaction:
                # In one order everywhere, because studies and tokens stay locked.
                order = sorted(
                    range(len(wanted)), key=lambda i: (wanted[i].study_id, wanted[i].token)
                )
                known: _Known = {}
                done = {i: await self._enrol(transaction, wanted[i], known) for i in order}
            return [done[i] for i in range(len(wanted))]
        except TransportError:
            raise
        except Exception:
            if len(wanted) == 1:
                raise
        return [await self._enrol_alone(each) for each in wanted]

    async def _enrol_alone(self, wanted: _Enrolment) -> tuple[DeviceRecord, bool] | Exception:
        try:
            (result,) = await self._enrol_batch([wanted])
        except Exception as error:
            return error
        return result

    async def _enrol(
        self,
        transaction: Transaction,
        wanted: _Enrolment,
        known: _Known,
    ) -> tuple[DeviceRecord, bool]:
        # Once for all that share a token, which stays locked; a refusal ends the transaction.
        place, token = (wanted.study_id, wanted.token), None
        if wanted.continues is not None:
            study = await require_study(transaction, wanted.study_id)
        elif place in known:
            study, token = known[place]
        else:
            study = await require_study(transaction, wanted.study_id)
            token = await self._find_token(transaction, wanted.token, wanted.study_id, lock=True)
            known[place] = study, token
        present = await transaction.get(DeviceRecord, device_id_of(wanted.public_key))
        if present is None:
            return await self._add(transaction, study, token, wanted), True
        _require_same(present, wanted.study_id, wanted.labels)
        return present, False

    async def _find_token(
        self, transaction: Transaction, token: str, study_id: bytes, *, lock: bool = False
    ) -> TokenRecord:
        # Locked: of two equal requests at once, the second finds the device of the first.
        known = await transaction.get(TokenRecord, hash_secret(token), lock=lock)
        if known is None or known.study_id != study_id:
            raise AccessError(
                "must be a token of this study", field="token", fix="ask the operator for a token"
            )
        return known

    async def _add(
        self,
        transaction: Transaction,
        study: StudyRecord,
        token: TokenRecord | None,
        wanted: _Enrolment,
    ) -> DeviceRecord:
        if study.state != "open":
            raise StudyClosedError(
                "is closed and accepts no more devices",
                field="study_id",
                fix="ask the study's operator whether it opens again",
            )
        now = self._clock.now()
        plan = await self._plans.get(study)
        public_key, labels = wanted.public_key, wanted.labels
        _require_declared(plan, labels)
        _require_complete(plan, labels, (token and token.labels) or {})
        begins, replaces = 0, wanted.replaces
        if token is None:
            before = await _require_single(transaction, wanted)
            replaces, begins = await _end_continued(transaction, before, wanted, now=now)
        elif not await use_token(transaction, token.token_hash, now=now):
            raise AccessError(
                _REFUSALS[token.state_at(now)],
                field="token",
                fix="ask the operator for another token",
            )
        else:
            begins = await _end_replaced(transaction, plan, token, wanted, now=now)
        device = DeviceRecord(
            device_id=device_id_of(public_key),
            study_id=study.study_id,
            public_key=public_key,
            labels=dict(labels),
            enrolled=now,
            continues=wanted.continues.device_id if wanted.continues else None,
            replaces=replaces,
            begins=begins,
        )
        if await add_device(transaction, device):
            return device
        # Another request enrolled the same key meanwhile. The error rolls the use back.
        raise StoreError(
            "is being enrolled by another request", field="public_key", fix="send the same again"
        )


async def _require_continued(
    transaction: Transaction, study_id: bytes, continues: Continuation, proof_input: bytes
) -> None:
    """Check that a device of the phase before asks, and that its study leads to this one.

    Raises
    ------
    AccessError, SignatureError
        It does not.
    """
    before = await transaction.get(DeviceRecord, continues.device_id)
    if before is None or before.revoked is not None or before.excluded is not None:
        raise _refuse_continuation("must be a device that may take part in its study")
    study = await transaction.get(StudyRecord, before.study_id)
    if study is None or study.next_study != study_id:
        raise _refuse_continuation("must be of the phase before, in the same campaign")
    verify_proof(proof_input, public_key=before.public_key, proof=continues.proof)


async def _require_single(transaction: Transaction, wanted: _Enrolment) -> DeviceRecord:
    """Refuse a second device in the place of one: it could count its records twice.

    Returns
    -------
    DeviceRecord
        The device in the phase before.
    """
    assert wanted.continues is not None, "it has no token"
    before = await transaction.get(DeviceRecord, wanted.continues.device_id, lock=True)
    if before is None or dict(before.labels) != dict(wanted.labels):
        raise _refuse_continuation("must have the labels that it enrolled with")
    others = {"study_id": wanted.study_id, "continues": wanted.continues.device_id}
    if wanted.replaces is not None or await transaction.find(DeviceRecord, **others) is not None:
        raise _refuse_continuation("is continued by another key already")
    return before


async def _end_continued(
    transaction: Transaction, before: DeviceRecord, wanted: _Enrolment, *, now: float
) -> tuple[bytes | None, int]:
    """End what a replaced device has sent in this phase too.

    Returns
    -------
    replaces, begins
        The replaced device here, if it went on before it was replaced, and the first slot that it
        has not sent.
    """
    if before.replaces is None:
        return None, 0
    gone = {"study_id": wanted.study_id, "continues": before.replaces}
    old = await transaction.find(DeviceRecord, **gone)
    if old is None:
        return None, 0
    actor = f"device {before.device_id.hex()[:_ACTOR_DIGITS]}"
    return old.device_id, await _revoke_replaced(transaction, old, wanted, actor, now=now)


def _refuse_continuation(rule: str) -> AccessError:
    return AccessError(
        rule,
        field="continues",
        fix="put back the newest state folder; or ask the operator for a token of this study, and "
        "enrol anew with --replaces",
    )


async def _end_replaced(
    transaction: Transaction,
    plan: SketchPlan,
    token: TokenRecord,
    wanted: _Enrolment,
    *,
    now: float,
) -> int:
    """Revoke the device that another replaces, and return the first slot that it has not sent.

    Who has a token could end any device, so only one that was silent since the token was created.
    """
    if wanted.replaces is None:
        return 0
    old = await transaction.get(DeviceRecord, wanted.replaces, lock=True)
    if old is None or old.study_id != wanted.study_id or dict(old.labels) != dict(wanted.labels):
        raise ConfigError(
            "must be a device of this study with the same labels",
            field="replaces",
            fix="see `sfumato device list`",
        )
    if plan.releases_count:
        raise ConfigError(
            "cannot be used where the plan hides presence: each device sends every slot",
            field="replaces",
            fix="enrol without it, and let the operator exclude the old device",
        )
    if max(old.enrolled, old.last_seen or 0.0) >= token.created:
        raise ConfigError(
            "must be a device that was silent since the token was created",
            field="replaces",
            fix="stop it, and then ask the operator for another token",
        )
    actor = f"token {token.token_hash.hex()[:_ACTOR_DIGITS]}"
    return await _revoke_replaced(transaction, old, wanted, actor, now=now)


async def _revoke_replaced(
    transaction: Transaction, old: DeviceRecord, wanted: _Enrolment, actor: str, *, now: float
) -> int:
    """Revoke a device that was replaced; return the first slot that it has not sent."""
    if await transaction.revoke(DeviceRecord, old.device_id, now=now):
        about = {"reason": "replaced", "by": device_id_of(wanted.public_key).hex()}
        await write_entry(transaction, now, actor, "device.revoke", old.device_id.hex(), **about)
    slots = [stream.last_slot for stream in await list_streams(transaction, old.device_id)]
    return max([old.begins, *(slot + 1 for slot in slots if slot is not None)])


def _require_same(present: DeviceRecord, study_id: bytes, labels: Mapping[str, str]) -> None:
    if present.study_id != study_id:
        raise StoreError(
            "is enrolled in another study", field="public_key", fix="make a key for each study"
        )
    if dict(present.labels) != dict(labels):
        raise StoreError(
            "must be those that this key enrolled with",
            field="labels",
            fix="keep the labels, or enrol a new key",
        )


def _require_declared(plan: SketchPlan, labels: Mapping[str, str]) -> None:
    declared = {label.name: label.values for label in plan.labels}
    for name, value in labels.items():
        if name not in declared:
            raise ConfigError(
                "must be a label that the plan declares",
                field=f"labels.{name}",
                fix=f"use: {', '.join(declared) or 'no labels'}",
            )
        if value not in declared[name]:
            raise ConfigError(
                "must have a value that the plan declares",
                field=f"labels.{name}",
                fix=f"use one of: {', '.join(declared[name])}",
            )


def _require_complete(
    plan: SketchPlan, labels: Mapping[str, str], forced: Mapping[str, str]
) -> None:
    for label in plan.labels:
        if label.name not in labels:
            raise ConfigError(
                "is missing: the plan declares it",
                field=f"labels.{label.name}",
                fix=f"give one of: {', '.join(label.values)}",
            )
    for name, value in forced.items():
        if labels.get(name) != value:
            raise ConfigError(
                f"must be {value!r} with this token",
                field=f"labels.{name}",
                fix="correct the label, or ask for another token",
            )
