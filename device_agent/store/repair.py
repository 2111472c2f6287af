"""Repair of a damaged state: set the damaged part aside, and make it again from the rest.

Database and journal can each be made from the other. If neither can be trusted, the agent stops,
and only its owner can decide to forget what was spent.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from itertools import zip_longest
from pathlib import Path

from sfumato.device_agent.store.database import (
    DATABASE_NAME,
    Connection,
    connect,
    open_database,
    require_version,
    translating,
    truncate_log,
)
from sfumato.device_agent.store.disk import lock_folder, naming_file
from sfumato.device_agent.store.identity import FORGOTTEN, KeyState, list_studies
from sfumato.device_agent.store.journal import (
    JOURNAL_NAME,
    Meta,
    Noted,
    iterate_releases,
    list_origins,
    load_meta,
    read_journal,
    untag,
)
from sfumato.device_agent.store.key import key_folder
from sfumato.device_agent.store.key_change import note_moved_key
from sfumato.device_agent.store.positions import PLACES_NAME, Places, read_places
from sfumato.device_agent.store.rebuild import build_database
from sfumato.device_agent.store.schema import APPLICATION_ID, VERSION, find_broken_seals
from sfumato.shared.durable_files import sync_folder
from sfumato.shared.errors import LedgerError, StoreError

_SUFFIXES = ("-wal", "-shm", "")
_CHANGING = ("generation", "keys")
"""The parts of the identity that do not stay as they were at enrolling."""
_NOT_DAMAGE = ("full", "locked", "readonly", "unable to open", "disk I/O")


@contextmanager
def holding(folder: Path) -> Iterator[list[str]]:
    """Hold the folder's lock, with a state in it that can be trusted; yield the repairs made.

    Raises
    ------
    LedgerError
        Another process holds it, or neither ledger nor journal can be trusted.
    StoreError
        The state is of a later version, or cannot be read now.
    """
    with lock_folder(folder):
        yield repair(folder)


def repair(folder: Path) -> list[str]:
    """Check and repair the state of a folder whose lock is held; return the repairs made.

    Guarantees
    ----------
    Afterwards the database holds every release that may have left the device, and the journal all
    that the database holds. The next call makes good a crash at any point.

    Raises
    ------
    LedgerError, StoreError
        As :func:`holding`.
    """
    path = folder / DATABASE_NAME
    noted = read_journal(folder)
    is_missing = not path.exists() or not path.stat().st_size
    if is_missing and noted.is_empty and noted.damage is None:
        return []  # nothing was ever enrolled here
    damage = "is missing" if is_missing else _find_damage(folder, noted)
    places = _load_places(folder, noted)
    if damage is None:
        return _mend_journal(folder, noted, places)
    places = _require_whole(path, noted, places, damage)
    message = f"{path}: {damage}; the ledger was made again from {JOURNAL_NAME}"
    _set_aside(folder, DATABASE_NAME)
    kept = list_set_aside(folder)
    lines = build_database(folder, noted, places, damaged=kept)
    with closing(open_database(folder)) as connection:
        _note_moved_keys(connection, folder)
    if kept:
        message += (
            f". The file was set aside as {kept[0].name}: it may hold the exact sum of a window, "
            "so delete it when you have looked at it"
        )
    return [message, *lines]


def _find_damage(folder: Path, noted: Noted) -> str | None:
    """Return why the database cannot be trusted; None if it can.

    Raises
    ------
    StoreError
        It is of another version, or cannot be read now for a reason that may pass.
    """
    path = folder / DATABASE_NAME
    try:
        with closing(connect(path)) as connection, translating(folder):
            for name, value in (("application_id", APPLICATION_ID), ("user_version", VERSION)):
                found = int(connection.execute(f"PRAGMA {name}").fetchone()[0])
                if name == "user_version" and found:
                    require_version(connection, path)
                if found != value:
                    return "is not the state of an agent"
            truncate_log(connection)
            return _find_contradiction(connection, noted)
    except (StoreError, ValueError, TypeError, KeyError, AttributeError) as error:
        cause = error.__cause__
        if isinstance(error, StoreError) and not isinstance(cause, sqlite3.DatabaseError):
            raise
        if any(word in str(error) for word in _NOT_DAMAGE):
            raise
        return f"is damaged ({cause or type(error).__name__})"


def _find_contradiction(connection: sqlite3.Connection, noted: Noted) -> str | None:
    # Indices too: a place that its index does not find would be read again from the beginning.
    ((found,),) = connection.execute("PRAGMA integrity_check(1)").fetchall()
    if found != "ok":
        return "is damaged (its pages contradict each other)"
    for table in find_broken_seals(connection):
        return f"is damaged (a row of {table} is not as it was written)"
    meta = load_meta(connection)
    if lacks := _find_other_identity(noted.meta, meta):
        return lacks
    if list_origins(connection)[: len(noted.origins)] != noted.origins:
        return f"lacks an origin of records that {JOURNAL_NAME} holds"
    pairs = zip_longest(noted.iterate_releases(), iterate_releases(connection))
    for i, (said, held) in enumerate(pairs):
        if said is None:
            break
        if held is None:
            return f"lacks releases that {JOURNAL_NAME} holds, from the {i + 1}th on"
        # Where bytes were dropped after they were sent, or all of it by `forget`, less is known.
        known = {k: value for k, value in held.items() if k != "digest" or value is not None}
        is_forgotten = FORGOTTEN in meta.get(str(held["study"]), {})
        if not is_forgotten and {key: said.get(key) for key in known} != known:
            return f"holds another release than {JOURNAL_NAME} in the {i + 1}th place"
    return _find_wrong_number(connection)


def _find_other_identity(noted: Meta, held: Meta) -> str | None:
    """Describe an identity or a key change that the database lacks and the journal holds.

    Raises
    ------
    LedgerError
        The database holds another device's: both are whole, and nobody can say which is wrong.
    """
    for study, said in noted.items():
        found = held.get(study, {})
        if "device" not in said or FORGOTTEN in found:
            continue
        fixed = {key: value for key, value in said.items() if key not in _CHANGING}
        is_other = bool(found) and {key: found.get(key) for key in fixed} != fixed
        if is_other or (not found and held.keys() - noted.keys()):
            raise LedgerError(
                f"must belong to the same device and study as {JOURNAL_NAME} beside it",
                field=DATABASE_NAME,
                fix="put back the one that belongs to this device's key",
            )
        if not found:
            return f"lacks a device that {JOURNAL_NAME} holds"
        said_keys, held_keys = _read_keys(said), _read_keys(found)
        # Where the database has changed them since, it counts more changes.
        if held_keys.n_changes <= said_keys.n_changes and held_keys != said_keys:
            return f"lacks a change of keys that {JOURNAL_NAME} holds"
    return None


def _read_keys(meta: Mapping[str, str]) -> KeyState:
    return KeyState.from_text(str(untag(meta["keys"])))


def _find_wrong_number(connection: sqlite3.Connection) -> str | None:
    for row in connection.execute(
        "SELECT s.name FROM streams AS s"
        " JOIN events AS e ON e.study = s.study AND e.stream = s.name AND e.copy = 0"
        " GROUP BY s.study, s.name HAVING MAX(e.sequence) >= s.next_sequence"
    ):
        return f"is damaged (stream {row['name']} would use a number twice)"
    return None


def _note_moved_keys(connection: Connection, folder: Path) -> None:
    for study in list_studies(connection):
        connection.study = study
        note_moved_key(connection, key_folder(folder, study))


def _load_places(folder: Path, noted: Noted) -> Places | None:
    with naming_file(folder / PLACES_NAME, fix="make it readable for this user"):
        places = read_places(folder)
    if places is None:
        return None if noted.n_releases else Places()
    return places if places.n_releases >= noted.n_releases else None


def _mend_journal(folder: Path, noted: Noted, places: Places | None) -> list[str]:
    messages = []
    with closing(open_database(folder)) as connection:
        journal = connection.journal
        assert journal is not None
        with translating(folder):
            held = load_meta(connection)
            is_forgotten = any(
                "device" in said and FORGOTTEN in held.get(study, {})
                for study, said in noted.meta.items()
            )
            if noted.damage is not None and not noted.is_torn:
                kept = _set_aside(folder, JOURNAL_NAME)
                assert kept is not None
                messages.append(
                    f"{folder / JOURNAL_NAME}: {noted.damage}; it was set aside as {kept.name} "
                    "and made again from the ledger"
                )
                journal.rewrite(connection)
            elif is_forgotten:
                journal.rewrite(connection)
            else:
                if places is None:
                    messages.append(
                        f"{folder / PLACES_NAME}: is missing or damaged; made again from the ledger"
                    )
                    journal.rewrite_places(connection)
                journal.catch_up(connection)
        _note_moved_keys(connection, folder)
    return messages


def _require_whole(path: Path, noted: Noted, places: Places | None, damage: str) -> Places:
    is_journal_whole = not noted.is_empty and noted.damage is None
    if is_journal_whole and places is not None:
        return places
    if is_journal_whole:
        lacks = (
            f"{PLACES_NAME} beside it is missing or damaged: how far the sources were read is not "
            "known"
        )
    else:
        what = noted.damage or "is missing"
        lacks = f"{JOURNAL_NAME} beside it {what}: the ledger cannot be trusted"
    raise LedgerError(
        f"{damage}, and {lacks}, so nothing is released until you decide",
        field=str(path),
        fix="put one of the two files back as it was. Only if you accept that records may be "
        "released again: `sfumato-agent forget --yes --also-the-ledger "
        "--records-may-be-released-again`, then `init`",
    )


def list_set_aside(folder: Path) -> list[Path]:
    """Return the databases of a folder that were set aside, the latest first."""
    found = sorted(folder.glob(f"{DATABASE_NAME}.damaged-*"), reverse=True)
    return [path for path in found if not path.name.endswith(("-wal", "-shm"))]


def _set_aside(folder: Path, name: str) -> Path | None:
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    kept = folder / f"{name}.damaged-{stamp}"
    number = 1
    while any(kept.with_name(kept.name + suffix).exists() for suffix in _SUFFIXES):
        number += 1
        kept = folder / f"{name}.damaged-{stamp}-{number}"
    found = False
    with naming_file(folder / name):
        # The log before its database: a new database beside an old log would take it for its own.
        for suffix in _SUFFIXES:
            path = folder / f"{name}{suffix}"
            if path.exists():
                path.rename(kept.with_name(kept.name + suffix))
                found = True
        sync_folder(folder)
    return kept if found else None
