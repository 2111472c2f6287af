"""What an owner does by hand: carry a sketch away, let a stream go on, forget the device."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from device_agent.settings import Settings
from device_agent.store import (
    check_folder,
    count_sketches,
    erase_database,
    erase_device,
    erase_key,
    erase_set_aside,
    find_forgotten_study,
    find_sketch,
    holding,
    list_streams,
    load_identity,
    load_stream,
    lock_folder,
    open_database,
    repair,
    require_identity,
    resume_stream,
    sum_ledger,
    transaction,
)
from shared.errors import ConfigError, LedgerError, NotFoundError


@dataclass(frozen=True, kw_only=True)
class ForgetReport:
    """What was erased: sketches that were never sent; and what stays: entries of the ledger."""

    n_unsent: int
    n_entries: int


def export_sketch(settings: Settings, *, stream: str, sequence: int, path: Path) -> int:
    """Write a sketch's signed message to a new file and return its bytes; it still waits.

    Raises
    ------
    NotFoundError
        There is no such sketch, or its bytes were dropped long after it was sent.
    ConfigError
        The file exists, or cannot be written.
    """
    check_folder(settings.state_dir, create=False)
    with closing(open_database(settings.state_dir)) as connection:
        require_identity(connection, settings.state_dir)
        found = find_sketch(connection, stream, sequence)
    if found is None or found[1] is None:
        raise NotFoundError(
            "was not released" if found is None else "was sent, and its bytes are kept 30 days",
            field=f"sketch {sequence} of stream {stream}",
            fix="see `sfumato-agent budget` for what was released",
        )
    _write_new(path, found[1])
    return len(found[1])


def lift_suspension(settings: Settings, *, stream: str) -> str:
    """Let a suspended stream go on, and return why it was suspended.

    Raises
    ------
    NotFoundError
        It is not suspended.
    """
    check_folder(settings.state_dir, create=False)
    with (
        holding(settings.state_dir),
        closing(open_database(settings.state_dir)) as connection,
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
    """Erase the key, the open windows and the sketches; the ledger only if told to.

    Raises
    ------
    ConfigError
        There is nothing to forget.
    LedgerError
        The ledger cannot be trusted, so there is nothing certain to be kept.
    """
    folder = settings.state_dir
    check_folder(folder, create=False)
    with lock_folder(folder):
        try:
            repair(folder)
        except LedgerError:
            # This is the decision that a ledger which nobody can trust waits for.
            if not also_the_ledger:
                raise
            erase_key(folder)
            erase_database(folder)
            return ForgetReport(n_unsent=0, n_entries=0)
        with closing(open_database(folder)) as connection:
            identity = load_identity(connection)
            study = identity.study if identity else find_forgotten_study(connection)
            if study is None or (identity is None and not also_the_ledger):
                raise ConfigError(
                    f"{folder} holds no enrolled device",
                    field="state_dir",
                    fix="there is nothing to forget",
                )
            report = ForgetReport(
                n_unsent=count_sketches(connection).waiting,
                n_entries=sum(event.count for event in sum_ledger(connection)),
            )
            # The key first: without it, what a crash leaves behind can release nothing.
            erase_key(folder)
            erase_device(connection, study)
        erase_set_aside(folder)
        if also_the_ledger:
            erase_database(folder)
    return report


def _write_new(path: Path, data: bytes) -> None:
    try:
        file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(file, "wb") as output:
                output.write(data)
                output.flush()
                os.fsync(file)
        except BaseException:
            path.unlink()
            raise
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written ({error.strerror})",
            field="--to",
            fix="name a file that does not exist yet, in a folder of this user",
        ) from error
