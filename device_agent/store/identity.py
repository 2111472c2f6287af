"""Which device and study a state folder belongs to."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from device_agent.store.database import note_later, transaction
from device_agent.store.seals import compute_seal
from shared.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class RetiredKey:
    """A key that was replaced: its public half, and the last sketch of each stream it signed."""

    public: bytes
    last_sequences: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class KeyState:
    """Which key a device signs with.

    Parameters
    ----------
    present
        Its public half, 32 bytes.
    following
        That of the key which the server is asked to take in its place; None if it is not.
    retired
        Those that it has replaced and still keeps, the latest last.
    n_changes
        Grows whenever this is written, so that a database which has lost a change is known.
    """

    present: bytes
    following: bytes | None = None
    retired: tuple[RetiredKey, ...] = ()
    n_changes: int = 0

    def to_text(self) -> str:
        """Return it in the form that is stored."""
        following = None if self.following is None else self.following.hex()
        retired = [[key.public.hex(), dict(key.last_sequences)] for key in self.retired]
        return json.dumps([self.n_changes, self.present.hex(), following, retired], sort_keys=True)

    @classmethod
    def from_text(cls, text: str) -> KeyState:
        """Read what :meth:`to_text` has written."""
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
    """What enrolling has settled.

    Parameters
    ----------
    study, device
        32 bytes each.
    plan_bytes
        The study's plan, exactly as it was verified.
    labels
        The device's labels.
    generation
        Which life of the server's database knows this device; it changes when a backup is restored.
    keys
        Which keys it signs with; its identity stays that of the first.
    """

    study: bytes
    device: bytes
    plan_bytes: bytes
    labels: Mapping[str, str]
    generation: str
    keys: KeyState


def load_identity(connection: sqlite3.Connection) -> Identity | None:
    """Load the identity; None before the device has enrolled, and after it was forgotten."""
    meta = {row["key"]: row["value"] for row in connection.execute("SELECT key, value FROM meta")}
    if "device" not in meta:
        return None
    return Identity(
        study=meta["study"],
        device=meta["device"],
        plan_bytes=meta["plan"],
        labels=json.loads(meta["labels"]),
        generation=meta["generation"],
        keys=KeyState.from_text(meta["keys"]),
    )


def require_identity(connection: sqlite3.Connection, folder: Path) -> Identity:
    """Load the identity of a device that has enrolled.

    Raises
    ------
    ConfigError
        It never has.
    """
    identity = load_identity(connection)
    if identity is None:
        raise ConfigError(
            f"{folder} holds no enrolled device",
            field="state_dir",
            fix="run `sfumato-agent init`",
        )
    return identity


def save_identity(connection: sqlite3.Connection, identity: Identity) -> None:
    """Save the identity, once and for all."""
    rows: dict[str, bytes | str] = {
        "study": identity.study,
        "device": identity.device,
        "plan": identity.plan_bytes,
        "labels": json.dumps(dict(identity.labels), sort_keys=True),
        "generation": identity.generation,
        "keys": identity.keys.to_text(),
    }
    with transaction(connection):
        note_later(connection)
        write_meta(connection, rows.items())


def save_generation(connection: sqlite3.Connection, generation: str) -> None:
    """Note the server's generation; to be called inside a transaction."""
    note_later(connection)
    write_meta(connection, [("generation", generation)])


def save_keys(connection: sqlite3.Connection, keys: KeyState) -> KeyState:
    """Save which keys the device signs with, and return it as it is now."""
    keys = replace(keys, n_changes=keys.n_changes + 1)
    with transaction(connection):
        note_later(connection)
        write_meta(connection, [("keys", keys.to_text())])
    return keys


def write_meta(connection: sqlite3.Connection, rows: Iterable[tuple[str, bytes | str]]) -> None:
    """Write keys and values of the identity; to be called inside a transaction."""
    connection.executemany(
        "INSERT INTO meta (key, value, seal) VALUES (?, ?, ?)"
        " ON CONFLICT (key) DO UPDATE SET value = excluded.value, seal = excluded.seal",
        [(key, value, compute_seal(key, value)) for key, value in rows],
    )
