"""Identity of a state folder, its device, studies and keys; and how a device is forgotten."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sfumato.device_agent.sources.passed import PASSED_NAME
from sfumato.device_agent.store.database import (
    DATABASE_NAME,
    Connection,
    note_later,
    transaction,
    translating,
    truncate_log,
)
from sfumato.device_agent.store.joined import JOINED_NAME
from sfumato.device_agent.store.journal import JOURNAL_NAME
from sfumato.device_agent.store.key import DIGEST_KEY_NAME, KEY_NAME
from sfumato.device_agent.store.ledger import study_of
from sfumato.device_agent.store.positions import PLACES_NAME
from sfumato.device_agent.store.published import RESULT_NAME
from sfumato.device_agent.store.schema import write_sealed
from sfumato.shared.errors import ConfigError

_HOLDER = "holder"
_HOLDER_BYTES = 16
_NEXT = "next"
"""The key of the study that follows in a campaign."""
FORGOTTEN = "forgotten"
"""The one key of an identity that was erased while its ledger stayed."""


@dataclass(frozen=True, kw_only=True)
class RetiredKey:
    """A replaced key: its public half, and the last sketch of each stream that it signed."""

    public: bytes
    last_sequences: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class KeyState:
    """Keys that a device signs with.

    Parameters
    ----------
    present
        Public half of the key in use, 32 bytes.
    following
        Public half of the key that the server is asked to take in its place; None without a change.
    retired
        Replaced keys that are still kept, the latest last.
    n_changes
        Grows with every write, so that a database which has lost a change is detected.
    """

    present: bytes
    following: bytes | None = None
    retired: tuple[RetiredKey, ...] = ()
    n_changes: int = 0

    def to_text(self) -> str:
        """Return the stored form."""
        following = None if self.following is None else self.following.hex()
        retired = [[key.public.hex(), dict(key.last_sequences)] for key in self.retired]
        return json.dumps([self.n_changes, self.present.hex(), following, retired], sort_keys=True)

    @classmethod
    def from_text(cls, text: str) -> KeyState:
        """Read the stored form."""
        n_changes, present, following, retired = json.loads(text)
        return cls(
            present=bytes.fromhex(present),
            following=None if following is None else bytes.fromhex(following),
            retired=tuple(
                RetiredKey(public=bytes.fromhex(public), last_sequences=last)
                for public, last in retired
            ),
            n_changes=n_changes,
        )


@dataclass(frozen=True, kw_only=True)
class Identity:
    """The settled facts of an enrolment.

    Parameters
    ----------
    study, device
        32 bytes each.
    plan_bytes
        The study's plan, exactly as it was verified.
    labels
        The device's labels.
    ordinal
        The number that the server gave the device: 0, 1, 2, ... in the order of enrolment.
    generation
        Generation of the server's database; it changes when a backup is restored.
    keys
        The device's keys; its identity stays that of the first.
    begins
        The first slot that it releases: a device that it replaces has released those before.
    """

    study: bytes
    device: bytes
    plan_bytes: bytes
    labels: Mapping[str, str]
    ordinal: int
    generation: str
    keys: KeyState
    begins: int = 0


def load_identity(connection: sqlite3.Connection) -> Identity | None:
    """Load the identity; None before the device has enrolled, and after it was forgotten."""
    with translating():
        rows = connection.execute(
            "SELECT key, value FROM meta WHERE study = ?", (study_of(connection),)
        )
        meta = {row["key"]: row["value"] for row in rows}
    if "device" not in meta:
        return None
    return Identity(
        study=study_of(connection),
        device=meta["device"],
        plan_bytes=meta["plan"],
        labels=json.loads(meta["labels"]),
        ordinal=int(meta["ordinal"]),
        generation=meta["generation"],
        keys=KeyState.from_text(meta["keys"]),
        begins=int(meta["begins"]),
    )


def list_plans(connection: sqlite3.Connection) -> list[bytes]:
    """Return the plans of all studies that devices of this folder are enrolled in."""
    rows = connection.execute("SELECT value FROM meta WHERE key = 'plan' ORDER BY study")
    return [row["value"] for row in rows]


def require_identity(connection: sqlite3.Connection, folder: Path) -> Identity:
    """Load the identity, or refuse with a ``ConfigError`` if the device has not enrolled."""
    identity = load_identity(connection)
    if identity is None:
        others = [study.hex() for study in list_studies(connection)]
        raise ConfigError(
            f"{folder} holds no enrolled device of this study"
            + (f"; it holds those of {', '.join(others)}" if others else ""),
            field="study" if others else "state_dir",
            fix="run `sfumato-agent init`" + (", or correct study" if others else ""),
        )
    return identity


def load_holder(connection: sqlite3.Connection) -> bytes:
    """Return this state's name in an owner's ledger, 16 random bytes; made at the first call.

    It belongs to no study and outlives all of them, as the ledger does.
    """
    found = _load_meta(connection, b"", _HOLDER)
    if found is not None:
        return bytes(found)
    holder = os.urandom(_HOLDER_BYTES)
    with transaction(connection):
        note_later(connection)
        write_meta(connection, b"", [(_HOLDER, holder)])
    return holder


def load_ledger_id(connection: sqlite3.Connection, path: Path) -> bytes | None:
    """Return the identity of the owner's ledger at a path; None before its first use."""
    found = _load_meta(connection, b"", f"ledger {path}")
    return None if found is None else bytes(found)


def save_ledger_id(connection: sqlite3.Connection, path: Path, identity: bytes) -> None:
    """Note the ledger at a path, so that a new file in its place is detected."""
    with transaction(connection):
        note_later(connection)
        write_meta(connection, b"", [(f"ledger {path}", identity)])


def list_studies(connection: sqlite3.Connection) -> list[bytes]:
    """Return the studies that a device of this folder is enrolled in."""
    rows = connection.execute("SELECT study FROM meta WHERE key = 'device' ORDER BY study")
    return [row["study"] for row in rows]


def save_identity(
    connection: sqlite3.Connection, identity: Identity, *, follows: bytes | None = None
) -> None:
    """Save the identity, once and for all.

    Parameters
    ----------
    follows
        The study of the phase before, which names this one from then on; the window that is open
        there dies with its phase.
    """
    rows: dict[str, bytes | str] = {
        "device": identity.device,
        "plan": identity.plan_bytes,
        "labels": json.dumps(dict(identity.labels), sort_keys=True),
        "ordinal": str(identity.ordinal),
        "generation": identity.generation,
        "keys": identity.keys.to_text(),
        "begins": str(identity.begins),
    }
    with transaction(connection):
        note_later(connection)
        # A device that was forgotten may come back under another key.
        connection.execute("DELETE FROM meta WHERE study = ?", (identity.study,))
        write_meta(connection, identity.study, rows.items())
        if follows is not None:
            for table in ("open_windows", "open_slots"):
                connection.execute(f"DELETE FROM {table} WHERE study = ?", (follows,))
            write_meta(connection, follows, [(_NEXT, identity.study)])
    load_holder(connection)


def load_next(connection: sqlite3.Connection, study: bytes) -> bytes | None:
    """Return the study that the device joined after this one; None if it has joined none."""
    return _load_meta(connection, study, _NEXT)  # type: ignore[no-any-return]


def load_previous(connection: sqlite3.Connection, study: bytes) -> bytes | None:
    """Return the study that the device left for this one; None if it left none."""
    row = connection.execute(
        "SELECT study FROM meta WHERE key = ? AND value = ?", (_NEXT, study)
    ).fetchone()
    return None if row is None else bytes(row["study"])


def load_first_device(connection: sqlite3.Connection, study: bytes) -> bytes:
    """Return the device's identity in the first study that it joined of this study's campaign."""
    while (before := load_previous(connection, study)) is not None:
        study = before
    return bytes(_load_meta(connection, study, "device"))


def load_generation(connection: sqlite3.Connection) -> str:
    """Load the last noted generation of the server."""
    return str(_load_meta(connection, study_of(connection), "generation"))


def save_generation(connection: sqlite3.Connection, generation: str) -> None:
    """Note the server's generation; to be called inside a transaction."""
    note_later(connection)
    write_meta(connection, study_of(connection), [("generation", generation)])


def save_keys(connection: sqlite3.Connection, keys: KeyState) -> KeyState:
    """Save the device's keys, and return them with their new number of changes."""
    keys = replace(keys, n_changes=keys.n_changes + 1)
    with transaction(connection):
        note_later(connection)
        write_meta(connection, study_of(connection), [("keys", keys.to_text())])
    return keys


def write_meta(
    connection: sqlite3.Connection, study: bytes, rows: Iterable[tuple[str, bytes | str]]
) -> None:
    """Write keys and values of a study's identity; to be called inside a transaction."""
    write_sealed(connection, "meta", [(study, key, value) for key, value in rows])


def _load_meta(connection: sqlite3.Connection, study: bytes, key: str) -> Any:
    row = connection.execute(
        "SELECT value FROM meta WHERE study = ? AND key = ?", (study, key)
    ).fetchone()
    return None if row is None else row["value"]


def erase_device(connection: Connection) -> None:
    """Erase identity, sums and sketches in one study; ledger and positions stay.

    The positions keep a device that enrols here again from sketching the same records, and the
    ledger keeps what they have cost.
    """
    with transaction(connection):
        for table in (
            "open_windows",
            "open_slots",
            "outbox",
            "study_notice",
            "agreed_time",
            "meta",
        ):
            connection.execute(f"DELETE FROM {table} WHERE study = ?", (connection.study,))
        write_meta(connection, connection.study, [(FORGOTTEN, "yes")])
    truncate_log(connection)
    if connection.journal is not None:
        connection.journal.rewrite(connection)


def is_forgotten(connection: sqlite3.Connection) -> bool:
    """Return whether a device of this study was forgotten and its ledger is still here."""
    row = connection.execute(
        "SELECT 1 FROM meta WHERE study = ? AND key = ?", (study_of(connection), FORGOTTEN)
    ).fetchone()
    return row is not None


def erase_key(folder: Path) -> None:
    """Overwrite and remove every key and the digest secret; flash memory may keep old cells.

    With them goes how streams have joined: who enrols again looks at their records again.
    """
    for name in (KEY_NAME, DIGEST_KEY_NAME, JOINED_NAME, RESULT_NAME, PASSED_NAME):
        for path in sorted(folder.glob(f"{name}*")):
            _erase(path)
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def erase_database(folder: Path) -> None:
    """Overwrite and remove database, journal and ledger, and copies that were set aside."""
    for name in (DATABASE_NAME, JOURNAL_NAME, PLACES_NAME):
        for path in sorted(folder.glob(f"{name}*")):
            _erase(path)


def erase_set_aside(folder: Path) -> None:
    """Overwrite and remove databases that were set aside: they hold sketches, and perhaps a sum."""
    for path in sorted(folder.glob(f"{DATABASE_NAME}.damaged-*")):
        _erase(path)


def _erase(path: Path) -> None:
    try:
        with path.open("r+b") as file:
            file.write(bytes(path.stat().st_size))
            os.fsync(file.fileno())
    except FileNotFoundError:
        return
    path.unlink()
