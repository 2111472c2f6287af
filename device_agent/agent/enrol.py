"""Enrolment: make a key, verify the plan, offer the key to the server. Repeating it is harmless."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from sfumato.device_agent.agent.campaign import find_next, narrow, require_first_choice
from sfumato.device_agent.agent.device import (
    Clock,
    Device,
    connect,
    make_heartbeat,
    require_suitable,
)
from sfumato.device_agent.agent.dry_run import DryRun, SearchBox
from sfumato.device_agent.agent.exchange.clocks import ServerClock
from sfumato.device_agent.agent.exchange.comparison import require_no_copy
from sfumato.device_agent.agent.exchange.published_result import carry_pin, pin_at_enrolment
from sfumato.device_agent.agent.membership import (
    Show,
    carry_joined,
    examine_unjoined,
    note_joined,
    require_fit,
)
from sfumato.device_agent.agent.owners_ledger import SharedBudget, require_in_shared_budget
from sfumato.device_agent.agent.policy import require_plan_allowed, require_server_allowed
from sfumato.device_agent.server.messages import DeviceAnswer, PlanAnswer
from sfumato.device_agent.server.transport import ServerClient
from sfumato.device_agent.settings.agent_settings import Settings, find_absent, load_settings
from sfumato.device_agent.store.database import (
    check_folder,
    create_database,
    find_near,
    find_same_people,
    open_database,
    sum_ledger,
)
from sfumato.device_agent.store.identity import (
    Identity,
    KeyState,
    erase_key,
    list_studies,
    load_identity,
    save_identity,
)
from sfumato.device_agent.store.key import (
    DeviceKey,
    create_key,
    key_folder,
    load_digest_key,
    load_key,
)
from sfumato.device_agent.store.key_change import load_keys
from sfumato.device_agent.store.positions import load_positions
from sfumato.device_agent.store.repair import holding
from sfumato.device_agent.store.streams import load_stream
from sfumato.shared.errors import (
    AccessError,
    ConfigError,
    NotFoundError,
    PlanMismatchError,
    SketchError,
    TransportError,
)
from sfumato.shared.plan import (
    SketchPlan,
    compute_plan_digest,
    decode_plan,
    make_event,
    require_follows,
)
from sfumato.shared.privacy import require_within_budget
from sfumato.shared.wire import EnrolmentCode, compute_study_id, encode_proof_input

_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, kw_only=True)
class EnrolReport:
    """Result of an enrolment; ``was_enrolled`` if there was nothing left to do."""

    device: bytes
    study: bytes
    plan: SketchPlan
    was_enrolled: bool


def enrol_device(
    settings: Settings,
    *,
    token: str | None,
    clock: Clock,
    show: Show = lambda run, plan: None,
    replaces: bytes | None = None,
) -> EnrolReport:
    """Enrol this device in its study, and let its streams join.

    Streams that have not joined are looked at before anything but the plan is asked of the server;
    those that have are left alone, whatever their records say.

    The key is saved before anything is sent, so the next attempt completes one that broke off. If
    the server certainly did not take the key, what was made for it is removed. If that is not
    known, it stays, and the error says so.

    Parameters
    ----------
    token
        Token of the enrolment; None for a device that has enrolled.
    show
        Shows the owner what was found in a stream that would join.
    replaces
        A device that was lost: the server ends it, and this one leaves out records of its slots.

    Raises
    ------
    ConfigError, PlanError, PrivacyError, RecordError
        Settings, policy, plan, budget or the records of a source do not allow it; nothing was sent.
    AccessError, TransportError
        The server does not accept the token, or did not answer.
    LedgerError
        The server holds sketches of this device that the ledger never offered. The device is
        enrolled, and its streams are suspended.
    """
    require_server_allowed(settings)
    folder = settings.state_dir
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    before = set() if made else set(folder.iterdir())
    check_folder(folder, create=True)
    with holding(folder), _removing_what_is_refused(settings, before, made):
        return _enrol_in(settings, token=token, clock=clock, show=show, replaces=replaces)


def join_next(device: Device, settings: Settings, *, clock: Clock) -> bool:
    """Join the next phase of a campaign, if there is one; return whether there was.

    Its plan must keep the terms that this device joined, and its streams must be read as they were
    when they joined. To be called inside a held folder; repeating it is harmless.

    Parameters
    ----------
    settings
        The whole configuration, with the columns of every phase.

    Raises
    ------
    PlanMismatchError, PlanError, PrivacyError, ConfigError
        The plan, the policy, the budget or the settings do not allow it.
    AccessError, TransportError
        The server does not let it join, or did not answer.
    """
    study = find_next(device.connection, device.identity.study, device.plan)
    # A phase that is read is over by the clock first, whatever the server says.
    if study is None or (device.reads and clock() < (device.plan.window.end or 0)):
        return False
    require_first_choice(device.connection, device.identity.study, study)
    following = replace(settings, study=study)
    try:
        _enrol_in(
            following,
            token="",
            clock=clock,
            show=lambda run, plan: None,
            replaces=None,
            before=device,
        )
    except _MaybeKnownError:
        raise
    except SketchError:
        if study not in list_studies(device.connection):
            erase_key(key_folder(settings.state_dir, study))
        raise
    return True


class _MaybeKnownError(TransportError):
    """The server did not answer, and may have taken the key."""


@contextmanager
def _removing_what_is_refused(
    settings: Settings, before: Collection[Path], made: Collection[Path]
) -> Iterator[None]:
    """Restore a folder unless a device is enrolled in it, or may be.

    Parameters
    ----------
    before, made
        Files that were in the folder before; folders that were made, the innermost first.
    """
    try:
        yield
    except _MaybeKnownError:
        raise
    except SketchError:
        if not _holds_device(settings):
            with suppress(OSError):  # it is of no use to anyone, and does no harm
                for path in sorted(set(settings.state_dir.iterdir()) - set(before)):
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
                for path in made:
                    path.rmdir()
        raise


def _holds_device(settings: Settings) -> bool:
    try:
        with closing(open_database(settings.state_dir, settings.study)) as connection:
            # Of any study: another `init` may have ended while this one waited for the folder.
            return bool(list_studies(connection) or sum_ledger(connection))
    except SketchError:
        return False


def _enrol_in(
    settings: Settings,
    *,
    token: str | None,
    clock: Clock,
    show: Show,
    replaces: bytes | None,
    before: Device | None = None,
) -> EnrolReport:
    # To make a file closes it once, which would release the locks of the connection of before.
    make = create_database if before is None else open_database
    with closing(make(settings.state_dir, settings.study)) as connection:
        key, identity = _load(connection, settings)
        if identity is None and token is None:
            raise _describe_missing_code()
        device = identity.device if identity else key.key_id
        with connect(settings, device, key, clock) as client:
            answer = client.fetch_plan(settings.study)
            plan = verify_plan(answer, settings.study)
            _require_unchanged(identity, answer, settings)
            if before is not None:
                require_follows(before.plan, plan)
            require_plan_allowed(settings, plan)
            require_suitable(settings, plan)
            settings = narrow(settings, plan)
            if identity is None:
                _require_allowed(settings, plan, connection)
            # The owner's look at the records comes before the device is known to anyone.
            joining = (
                _look_at_streams(settings, plan, connection, answer.search_box, clock, show)
                if before is None
                else _go_on(before, settings)
            )
            was_enrolled = identity is not None and _is_known(client)
            if not was_enrolled:
                if token is None:
                    raise _describe_missing_code()
                known = _enrol(client, settings, key, token, replaces, before)
            else:
                known = client.fetch_device()
            # Now its owner decides to trust this server.
            pin_at_enrolment(client, settings)
            if settings.name is not None:
                with suppress(SketchError):  # `run` sends it again
                    client.put_heartbeat(make_heartbeat(settings, waiting=0))
        if identity is None:
            identity = Identity(
                study=settings.study,
                device=device,
                plan_bytes=answer.plan_bytes,
                labels=settings.labels,
                ordinal=known.ordinal,
                generation=known.generation,
                keys=KeyState(present=key.public_bytes),
                begins=known.begins,
            )
            save_identity(
                connection, identity, follows=None if before is None else before.identity.study
            )
        # Noted now, so that a check changes nothing.
        SharedBudget(settings, identity, connection)
        note_joined(settings, joining)
        ServerClock(connection).note(known.server_time, clock())
        # The key was here before, and what it had released is not in this ledger.
        require_no_copy(connection, settings, plan, known, now=clock())
    return EnrolReport(device=device, study=settings.study, plan=plan, was_enrolled=was_enrolled)


def _look_at_streams(
    settings: Settings,
    plan: SketchPlan,
    connection: sqlite3.Connection,
    box: SearchBox,
    clock: Clock,
    show: Show,
) -> dict[str, DryRun]:
    """Look at the records of streams that would join; raises as :func:`enrol_device`."""
    runs = examine_unjoined(
        settings,
        plan,
        known=load_positions(connection),
        digest_key=load_digest_key(key_folder(settings.state_dir, settings.study)),
        now=clock(),
        box=box,
    )
    return require_fit(runs, lambda run: show(run, plan))


def _go_on(before: Device, settings: Settings) -> dict[str, DryRun]:
    """Carry over what the owner decided on the whole campaign; no value is looked at again."""
    carry_joined(before.settings, settings)
    carry_pin(before.settings, settings)
    return {}


def _describe_missing_code() -> ConfigError:
    return ConfigError(
        "is missing, and this device has not enrolled yet",
        field="--code",
        fix="give the line that `sfumato study token --code` printed, or --token",
    )


def verify_plan(answer: PlanAnswer, study: bytes) -> SketchPlan:
    """Decode a fetched plan and compare its recomputed digests.

    Raises
    ------
    PlanError, PlanMismatchError, WireError
        The plan is not valid, or not this study's.
    """
    plan = decode_plan(answer.plan_bytes)
    if compute_plan_digest(plan).hex() != answer.plan_digest:
        raise _mismatch("plan_digest", "must be the digest of the plan that the server sent")
    if compute_study_id(answer.name, plan) != study:
        raise _mismatch("study", "must be the identity of the study that the server sent")
    return plan


def _mismatch(field: str, rule: str) -> PlanMismatchError:
    return PlanMismatchError(rule, field=field, fix="ask the study's operator; nothing was sent")


def _load(connection: sqlite3.Connection, settings: Settings) -> tuple[DeviceKey, Identity | None]:
    identity = load_identity(connection)
    folder = key_folder(settings.state_dir, settings.study)
    if identity is not None:
        key, next_key = load_keys(folder, identity)
        if next_key is not None:
            raise ConfigError(
                "cannot be enrolled while a change of keys is unfinished",
                field="state_dir",
                fix="run `sfumato-agent rotate-key` to finish it",
            )
        return key, identity
    return load_key(folder) or create_key(folder), None


def _require_unchanged(identity: Identity | None, answer: PlanAnswer, settings: Settings) -> None:
    if identity is None:
        return
    if identity.plan_bytes != answer.plan_bytes:
        raise _mismatch("plan", "must be the plan that this device enrolled for")
    if dict(identity.labels) != dict(settings.labels):
        raise ConfigError(
            "must stay those that this device enrolled with",
            field="labels",
            fix="put them back, or enrol a new device with another state_dir",
        )


def _require_allowed(settings: Settings, plan: SketchPlan, connection: sqlite3.Connection) -> None:
    # There are entries where a device was forgotten, and those of other studies.
    spent = sum_ledger(connection)
    for stream in settings.streams:
        next_sequence = load_stream(connection, stream.name).next_sequence
        event = make_event(plan, stream=stream.name, sequence=next_sequence, study=settings.study)
        origins = stream.find_origins(plan)
        near = find_near(connection, event.reader, origins)
        people = find_same_people(connection, event.reader, origins)
        require_within_budget(spent, event, settings.limits, readers=near, people=people)
        require_in_shared_budget(settings, connection, event, origins)


def _is_known(client: ServerClient) -> bool:
    try:
        client.fetch_device()
    except (AccessError, NotFoundError):
        return False
    return True


def _enrol(
    client: ServerClient,
    settings: Settings,
    key: DeviceKey,
    token: str,
    replaces: bytes | None,
    before: Device | None,
) -> DeviceAnswer:
    try:
        _offer(client, settings, key, token, replaces, before)
    except TransportError as error:
        raise _keep(error, settings.state_dir) from error
    try:
        return client.fetch_device()
    except SketchError as error:
        raise _keep(error, settings.state_dir) from error


def _keep(error: SketchError, folder: Path) -> _MaybeKnownError:
    return _MaybeKnownError(
        f"{error}. The server may have enrolled this device anyway, so its key stays in {folder}",
        fix="run the same command again; it completes the enrolment and needs no other token",
    )


def _offer(
    client: ServerClient,
    settings: Settings,
    key: DeviceKey,
    token: str,
    replaces: bytes | None,
    before: Device | None,
) -> None:
    proof_input = encode_proof_input(
        token=token, study=settings.study, public_key=key.public_bytes, labels=settings.labels
    )
    stated = client.enrol(
        token=token,
        study=settings.study,
        public_key=key.public_bytes,
        labels=settings.labels,
        proof=key.sign(proof_input),
        replaces=replaces,
        continues=None
        if before is None
        else (before.identity.device, before.key.sign(proof_input)),
    )
    if stated != key.key_id.hex():
        raise TransportError(
            "must answer with this device's id, and answered with another",
            field="server",
            fix="check the address; something else may be answering there",
        )


def load_settings_with_code(path: Path, code: EnrolmentCode) -> Settings:
    """Load a configuration, and write server and study into it if it lacks them.

    A server that the configuration names takes precedence over the code's: a device may reach it by
    another address. The owner's policy on servers holds for both.

    Raises
    ------
    ConfigError
        The configuration is wrong, is of another study, or cannot be written; nothing was changed.
    PrivacyError
        The owner does not allow this server; nothing was changed.
    """
    known = {"server": code.server, "study": code.study.hex()}
    settings = load_settings(path, absent=known)
    if settings.study != code.study:
        raise ConfigError(
            "must be the study of the code",
            field="study",
            fix="use another configuration and state_dir, or remove the line to take the code's",
        )
    require_server_allowed(settings)
    absent = find_absent(path, known)
    if absent:
        # The address holds neither spaces nor control characters, so JSON writes it as TOML does.
        _put_first(path, [f"{key} = {json.dumps(known[key])}" for key in absent])
    return settings


def _put_first(path: Path, lines: Sequence[str]) -> None:
    """Put lines before the first table; a crash leaves the old file or the new one."""
    target = path.resolve()
    text = "".join(f"{line}\n" for line in lines).encode()
    try:
        status = target.stat()
        text += target.read_bytes().removeprefix(_BOM)
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(text)
                os.fchmod(handle, status.st_mode & 0o7777)
                if (os.geteuid(), os.getegid()) != (status.st_uid, status.st_gid):
                    os.fchown(handle, status.st_uid, status.st_gid)
                file.flush()
                os.fsync(handle)
            os.replace(name, target)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written ({error.strerror})",
            field="--config",
            fix=f"put at its top: {', '.join(lines)}",
        ) from error
