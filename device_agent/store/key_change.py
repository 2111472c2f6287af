"""Change of the key that a device signs with, safe against a crash of either side.

::

    next key on the disk -> noted in database and journal -> offered to the server
        -> moved over the present key -> noted that it is the present one

Until the server has said which key it takes, both are kept, and offering the same key again changes
nothing.

The old key is kept under another name, for a server that is restored from a backup of before the
change. It needs no erasing: once it is replaced, it verifies nothing that it had not signed before.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from sfumato.device_agent.store.database import catch_up
from sfumato.device_agent.store.disk import naming_file
from sfumato.device_agent.store.identity import (
    Identity,
    KeyState,
    RetiredKey,
    load_identity,
    save_keys,
)
from sfumato.device_agent.store.key import (
    KEY_NAME,
    NEXT_KEY_NAME,
    DeviceKey,
    create_key,
    keep_key,
    key_id_of,
    load_key,
    move_next_key,
    retired_name,
)
from sfumato.device_agent.store.ledger import study_of
from sfumato.shared.errors import ConfigError, LedgerError

MOST_KEPT = 8
"""Number of replaced keys that are kept: a backup of before all of them brings none back."""


def load_keys(folder: Path, identity: Identity) -> tuple[DeviceKey, DeviceKey | None]:
    """Load the present key, and the next one while a change is open.

    Raises
    ------
    LedgerError
        One of them is missing.
    """
    key, following = load_key(folder), identity.keys.following
    if key is None or key.public_bytes not in (identity.keys.present, following):
        raise _missing(KEY_NAME)
    if following is None or key.public_bytes == following:
        return key, None
    next_key = load_key(folder, NEXT_KEY_NAME)
    if next_key is None or next_key.public_bytes != following:
        raise _missing(NEXT_KEY_NAME)
    return key, next_key


def begin_key_change(
    connection: sqlite3.Connection, folder: Path, keys: KeyState
) -> tuple[KeyState, DeviceKey]:
    """Make the next key; when this returns, nothing can lose it any more."""
    with naming_file(folder / NEXT_KEY_NAME):
        next_key = create_key(folder, NEXT_KEY_NAME)
    keys = save_keys(connection, replace(keys, following=next_key.public_bytes))
    # What is offered to the server must be in the journal too.
    catch_up(connection)
    return keys, next_key


def finish_key_change(connection: sqlite3.Connection, folder: Path, keys: KeyState) -> KeyState:
    """Make the next key, which the server has taken, the present one."""
    assert keys.following is not None
    with naming_file(folder / KEY_NAME):
        keep_key(folder, key_id_of(keys.present))
        move_next_key(folder)
    return _note_successor(connection, folder, keys)


def abandon_key_change(connection: sqlite3.Connection, folder: Path, keys: KeyState) -> KeyState:
    """Erase the next key, which the server does not take."""
    keys = save_keys(connection, replace(keys, following=None))
    with naming_file(folder / NEXT_KEY_NAME):
        (folder / NEXT_KEY_NAME).unlink(missing_ok=True)
    return keys


def note_moved_key(connection: sqlite3.Connection, folder: Path) -> None:
    """Note that the next key is the present one, if a crash came between move and note."""
    identity = load_identity(connection)
    if identity is None or identity.keys.following is None:
        return
    key = load_key(folder)
    if key is not None and key.public_bytes == identity.keys.following:
        # Nothing was signed since it was moved.
        _note_successor(connection, folder, identity.keys)


def load_retired(folder: Path, keys: KeyState) -> list[tuple[DeviceKey, Mapping[str, int]]]:
    """Load the replaced keys with what each has signed, the latest last.

    If one is missing or cannot be read, those before it are of no use.
    """
    found: list[tuple[DeviceKey, Mapping[str, int]]] = []
    for retired in reversed(keys.retired):
        try:
            key = load_key(folder, retired_name(key_id_of(retired.public)))
        except ConfigError:
            break
        if key is None or key.public_bytes != retired.public:
            break
        found.insert(0, (key, retired.last_sequences))
    return found


def list_signed(connection: sqlite3.Connection) -> dict[str, int]:
    """Return the number of the last sketch of each stream that has any."""
    rows = connection.execute(
        "SELECT name, next_sequence FROM streams WHERE study = ? AND next_sequence > 0",
        (study_of(connection),),
    )
    return {row["name"]: row["next_sequence"] - 1 for row in rows}


def _note_successor(connection: sqlite3.Connection, folder: Path, keys: KeyState) -> KeyState:
    """Note that the next key is the present one, and drop replaced ones beyond the most kept."""
    assert keys.following is not None
    replaced = RetiredKey(public=keys.present, last_sequences=list_signed(connection))
    every = (*keys.retired, replaced)
    done = save_keys(
        connection,
        replace(keys, present=keys.following, following=None, retired=every[-MOST_KEPT:]),
    )
    for dropped in every[:-MOST_KEPT]:
        (folder / retired_name(key_id_of(dropped.public))).unlink(missing_ok=True)
    return done


def _missing(name: str) -> LedgerError:
    return LedgerError(
        f"must hold {name}, the key of the device that the ledger belongs to",
        field="state_dir",
        fix="put the key back where it was, or use another state_dir",
    )
