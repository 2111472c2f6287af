"""Enrolling: a key, the verified plan, and the server's acceptance. Doing it again is harmless."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass

from device_agent.agent.device import (
    Clock,
    connect,
    make_event,
    require_same_study,
    require_suitable,
)
from device_agent.agent.policy import require_plan_allowed, require_server_allowed
from device_agent.messages import PlanAnswer
from device_agent.settings import Settings
from device_agent.store import (
    DeviceKey,
    Identity,
    KeyState,
    check_folder,
    create_database,
    create_key,
    find_forgotten_study,
    holding,
    load_identity,
    load_key,
    load_keys,
    load_stream,
    save_identity,
    sum_ledger,
)
from device_agent.transport import ServerClient
from shared.errors import AccessError, ConfigError, NotFoundError, PlanMismatchError, TransportError
from shared.plan import SketchPlan, compute_plan_digest, decode_plan
from shared.privacy import require_within_budget
from shared.wire import compute_study_id, encode_proof_input


@dataclass(frozen=True, kw_only=True)
class EnrolReport:
    """What came of enrolling; ``was_enrolled`` if there was nothing left to do."""

    device: bytes
    study: bytes
    plan: SketchPlan
    was_enrolled: bool


def enrol_device(settings: Settings, *, token: str, clock: Clock) -> EnrolReport:
    """Enrol this device in its study.

    The key is saved before anything is sent, so that an attempt that broke off is completed, not
    doubled, by the next one.

    Raises
    ------
    ConfigError, PlanError, PrivacyError
        Settings, policy, plan or budget do not allow it; nothing was sent.
    AccessError, TransportError
        The server does not accept the token, or did not answer.
    """
    require_server_allowed(settings)
    check_folder(settings.state_dir, create=True)
    with (
        holding(settings.state_dir),
        closing(create_database(settings.state_dir)) as connection,
    ):
        key, identity = _load(connection, settings)
        device = identity.device if identity else key.key_id
        with connect(settings, device, key, clock) as client:
            answer = client.fetch_plan(settings.study)
            plan = verify_plan(answer, settings.study)
            _require_unchanged(identity, answer, settings)
            require_plan_allowed(settings, plan)
            require_suitable(settings, plan)
            if identity is None:
                _require_allowed(settings, plan, connection)
            was_enrolled = identity is not None and _is_known(client)
            if not was_enrolled:
                _enrol(client, settings, key, token)
            generation = client.ask_device().generation
        if identity is None:
            identity = Identity(
                study=settings.study,
                device=device,
                plan_bytes=answer.plan_bytes,
                labels=settings.labels,
                generation=generation,
                keys=KeyState(present=key.public_bytes),
            )
            save_identity(connection, identity)
    return EnrolReport(device=device, study=settings.study, plan=plan, was_enrolled=was_enrolled)


def verify_plan(answer: PlanAnswer, study: bytes) -> SketchPlan:
    """Decode a fetched plan, recompute all that follows from its fields, and compare digests.

    Raises
    ------
    PlanError, PlanMismatchError, WireError
        It is no valid plan, or not this study's.
    """
    plan = decode_plan(answer.plan_bytes)
    if compute_plan_digest(plan).hex() != answer.plan_digest:
        raise _mismatch("plan_digest", "is not the digest of the plan that the server sent")
    if compute_study_id(answer.name, plan) != study:
        raise _mismatch("study", "is not the identity of the study that the server sent")
    return plan


def _mismatch(field: str, rule: str) -> PlanMismatchError:
    return PlanMismatchError(rule, field=field, fix="ask the study's operator; nothing was sent")


def _load(connection: sqlite3.Connection, settings: Settings) -> tuple[DeviceKey, Identity | None]:
    identity = load_identity(connection)
    if identity is not None:
        require_same_study(identity, settings)
        key, next_key = load_keys(settings.state_dir, identity)
        if next_key is not None:
            raise ConfigError(
                "a change of keys was begun and is not finished",
                field="state_dir",
                fix="run `sfumato-agent rotate-key`, which finishes it",
            )
        return key, identity
    forgotten = find_forgotten_study(connection)
    if forgotten not in (None, settings.study):
        raise ConfigError(
            f"{settings.state_dir} holds what a device of study {forgotten.hex()} has spent",
            field="study",
            fix="use one state_dir for each study",
        )
    return load_key(settings.state_dir) or create_key(settings.state_dir), None


def _require_unchanged(identity: Identity | None, answer: PlanAnswer, settings: Settings) -> None:
    if identity is None:
        return
    if identity.plan_bytes != answer.plan_bytes:
        raise _mismatch("plan", "is not the one that this device enrolled for")
    if dict(identity.labels) != dict(settings.labels):
        raise ConfigError(
            "are not those that this device enrolled with, and they are fixed",
            field="labels",
            fix="put them back, or enrol a new device with another state_dir",
        )


def _require_allowed(settings: Settings, plan: SketchPlan, connection: sqlite3.Connection) -> None:
    """Refuse a plan that the owner's budget cannot pay for, before anything is sent."""
    # There are entries where a device was forgotten.
    spent = sum_ledger(connection)
    for stream in settings.streams:
        next_sequence = load_stream(connection, stream.name).next_sequence
        event = make_event(plan, stream.name, next_sequence)
        require_within_budget(spent, event, settings.budget)


def _is_known(client: ServerClient) -> bool:
    try:
        client.ask_device()
    except (AccessError, NotFoundError):
        return False
    return True


def _enrol(client: ServerClient, settings: Settings, key: DeviceKey, token: str) -> None:
    proof_input = encode_proof_input(
        token=token, study=settings.study, public_key=key.public_bytes, labels=settings.labels
    )
    stated = client.enrol(
        token=token,
        study=settings.study,
        public_key=key.public_bytes,
        labels=settings.labels,
        proof=key.sign(proof_input),
    )
    if stated != key.key_id.hex():
        raise TransportError(
            "device_id of the answer is not this device's",
            field="server",
            fix="check the address; something else may be answering there",
        )
