"""Manual operations of the owner: export a sketch, resume a stream, forget the device."""

from __future__ import annotations

import errno
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from sfumato.device_agent.agent.campaign import find_next
from sfumato.device_agent.agent.device import Clock
from sfumato.device_agent.agent.exchange.comparison import COPIED
from sfumato.device_agent.settings.agent_settings import Settings
from sfumato.device_agent.store.database import check_folder, open_database, sum_ledger, transaction
from sfumato.device_agent.store.disk import lock_folder
from sfumato.device_agent.store.identity import (
    Identity,
    erase_database,
    erase_device,
    erase_key,
    erase_set_aside,
    is_forgotten,
    list_studies,
    load_identity,
    require_identity,
)
from sfumato.device_agent.store.key import KEY_FOLDERS, key_folder
from sfumato.device_agent.store.outbox import (
    OutboxSketch,
    count_sketches,
    find_sketch,
    offer_sketch,
)
from sfumato.device_agent.store.repair import holding, repair
from sfumato.device_agent.store.streams import list_streams, load_stream, resume_stream
from sfumato.shared.durable_files import write_new_file
from sfumato.shared.errors import ConfigError, DiskError, LedgerError, NotFoundError
from sfumato.shared.plan import decode_plan


@dataclass(frozen=True, kw_only=True)
class ForgetReport:
    """Result of forgetting: unsent sketches that were erased, ledger entries that stay.

    Both are None if the ledger could not be read. ``device`` is the identity in hexadecimal; None
    if the device was forgotten before.
    """

    n_unsent: int | None
    n_entries: int | None
    device: str | None = None


@dataclass(frozen=True, kw_only=True)
class ExportReport:
    """An exported sketch: its length, and its row in the outbox."""

    n_bytes: int
    sketch: OutboxSketch


def export_sketch(
    settings: Settings, *, stream: str, sequence: int, path: Path, clock: Clock
) -> ExportReport:
    """Write a sketch's signed message to a new file; its state in the outbox does not change.

    Raises
    ------
    NotFoundError
        There is no such sketch, or its bytes were dropped long after it was sent.
    ConfigError, DiskError
        The file exists, or cannot be written.
    LedgerError
        The sketch never left the device, and must not: another copy of this state was at work.
    """
    folder = settings.state_dir
    check_folder(folder, create=False)
    _mend_if_free(folder)
    with closing(open_database(folder, settings.study)) as connection:
        require_identity(connection, folder)
        found = find_sketch(connection, stream, sequence)
        if found is None or found[1] is None:
            raise NotFoundError(
                "was not released" if found is None else "was sent, and its bytes are kept 30 days",
                field=f"sketch {sequence} of stream {stream}",
                fix="see `sfumato-agent budget` for what was released",
            )
        sketch = found[0]
        if sketch.offered_at is None:
            if sketch.problem == COPIED:
                raise LedgerError(
                    "cannot be exported: another copy of this state has released the same window",
                    field=f"sketch {sequence} of stream {stream}",
                    fix="see `sfumato-agent status` and `budget`",
                )
            load_stream(connection, stream).require_not_suspended()
        # Whoever carries it may bring it to the server.
        message = offer_sketch(connection, sketch.sketch_id, now=clock())
    _write_new(path, message)
    return ExportReport(n_bytes=len(message), sketch=sketch)


def _mend_if_free(folder: Path) -> None:
    """Repair the state as at every start, unless a running agent has done so."""
    try:
        with holding(folder):
            pass
    except LedgerError as error:
        if error.field != "state_dir":
            raise


def lift_suspension(settings: Settings, *, stream: str) -> str:
    """Resume a suspended stream, and return why it was suspended.

    Raises
    ------
    NotFoundError
        The stream is not suspended.
    """
    check_folder(settings.state_dir, create=False)
    with (
        holding(settings.state_dir),
        closing(open_database(settings.state_dir, settings.study)) as connection,
    ):
        reason = load_stream(connection, stream).suspended
        if reason is None:
            names = [n for n in list_streams(connection) if load_stream(connection, n).suspended]
            raise NotFoundError(
                "is not suspended",
                field=f"stream {stream}",
                fix=f"these are: {', '.join(names)}" if names else "there is nothing to do",
            )
        with transaction(connection):
            resume_stream(connection, stream)
    return reason


def forget_device(settings: Settings, *, also_the_ledger: bool) -> ForgetReport:
    """Erase the key, the open windows and the sketches; the ledger only on request.

    Raises
    ------
    ConfigError
        There is nothing to forget.
    LedgerError
        The ledger cannot be trusted, so nothing certain could be kept.
    """
    folder, keys = settings.state_dir, key_folder(settings.state_dir, settings.study)
    check_folder(folder, create=False)
    with lock_folder(folder):
        try:
            repair(folder)
        except LedgerError:
            # This is the decision that a ledger which nobody can trust waits for.
            if not also_the_ledger:
                raise
            # Nobody can tell any more which studies it was in.
            for path in folder.glob(f"{KEY_FOLDERS}*"):
                erase_key(path)
            erase_database(folder)
            return ForgetReport(n_unsent=None, n_entries=None)
        with closing(open_database(folder, settings.study)) as connection:
            identity = load_identity(connection)
            was_forgotten = is_forgotten(connection)
            if identity is None and not (also_the_ledger and was_forgotten):
                what = "was forgotten already; its ledger is kept"
                raise ConfigError(
                    f"the device of {folder} {what if was_forgotten else 'never enrolled'}",
                    field="study",
                    fix="there is nothing to forget",
                )
            others = [s.hex() for s in list_studies(connection) if s != settings.study]
            if also_the_ledger and others:
                raise ConfigError(
                    f"cannot be erased while the device is in studies {', '.join(others)}, whose "
                    "releases it counts too",
                    field="--also-the-ledger",
                    fix="forget the device in those studies first",
                )
            report = ForgetReport(
                n_unsent=count_sketches(connection).waiting,
                n_entries=sum(event.count for event in sum_ledger(connection)),
                device=identity.device.hex() if identity else None,
            )
            # The key first: without it, what a crash leaves behind can release nothing.
            erase_key(keys)
            if identity is not None:
                _erase_begun(folder, connection, identity)
            erase_device(connection)
        erase_set_aside(folder)
        if also_the_ledger:
            erase_database(folder)
    return report


def _erase_begun(folder: Path, connection: sqlite3.Connection, identity: Identity) -> None:
    """Erase the key for the next phase of a campaign, where the device had begun to join it."""
    following = find_next(connection, identity.study, decode_plan(identity.plan_bytes))
    if following is not None and following not in list_studies(connection):
        erase_key(key_folder(folder, following))


def _write_new(path: Path, data: bytes) -> None:
    try:
        write_new_file(path, data)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskError(
                f"{path} cannot be written: the disk is full",
                field="--to",
                fix=f"free space on the disk of {path.parent}, or name a file on another disk",
            ) from error
        raise ConfigError(
            f"{path} cannot be written ({error.strerror})",
            field="--to",
            fix="name a file that does not exist yet, in a folder of this user",
        ) from error
