"""Positions in sources, keyed digests in them, and places in files.

A digest without a key reveals a record with few possible values: a thief tries them all.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sfumato.shared.errors import LedgerError
from sfumato.shared.reading import TextFile

_ALGORITHM = "sha256"
_KEY_ID = b"sfumato digest key id"
_DIGEST_CHARACTERS = 16
_CHUNK_BYTES = 1 << 20
TAIL_BYTES = 256
"""Number of bytes before a place that are compared whenever reading resumes."""


@dataclass(frozen=True, kw_only=True)
class Position:
    """A place in a source, behind the records that were read.

    Parameters
    ----------
    source
        Identity of the source: a file's identity (``file_identity``), or a name such as ``stdin``.
    place
        State that finds the next record and detects another source. Digests in it are keyed,
        because it is stored and may be stolen.
    """

    source: str
    place: Mapping[str, int | str]


@dataclass(frozen=True, kw_only=True)
class KnownPosition:
    """A stored position, and the stream whose sketches hold the records before it."""

    stream: str
    position: Position


JOINED = "join:cells"
"""Source of the positions of a stream that joins messages."""


def require_never_joined(stream: str, known: Sequence[KnownPosition]) -> None:
    """Refuse to read records where the stream has joined messages: some would be read again.

    Raises
    ------
    LedgerError
        It has.
    """
    if any(each.stream == stream and each.position.source == JOINED for each in known):
        raise LedgerError(
            "must stay: messages of cells that were given would be read again as records",
            field=f"stream {stream}: join",
            fix="restore it, or give the stream another name, whose epsilon adds",
        )


@dataclass(frozen=True, kw_only=True)
class SourceChanges:
    """Changes of a source to be stored apart from its records.

    Parameters
    ----------
    gone
        Sources whose positions can be forgotten.
    seen
        Positions of files that were opened, even without a record. They are stored unless a later
        place of their source is known: whether a file is known must not depend on whether it holds
        a record.
    """

    gone: tuple[str, ...] = ()
    seen: tuple[Position, ...] = ()


class DigestKey:
    """HMAC-SHA-256 under the secret of a device.

    Parameters
    ----------
    secret
        32 random bytes, which never leave the device; see ``sfumato.device_agent.store.key``.
    """

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self.key_id = self.compute(_KEY_ID)
        """Identity of the secret: digests under an erased one cannot be compared."""

    def begin(self) -> hmac.HMAC:
        """Return the running digest of no bytes."""
        return hmac.new(self._secret, digestmod=_ALGORITHM)

    def compute(self, data: bytes) -> str:
        """Return a short digest of some bytes."""
        return hmac.new(self._secret, data, _ALGORITHM).hexdigest()[:_DIGEST_CHARACTERS]


@dataclass(frozen=True, kw_only=True)
class FilePlace:
    """A place in a file: bytes and lines before it, and the running digest of those bytes."""

    offset: int
    line: int
    running: hmac.HMAC

    def advance(self, file: TextFile, *, offset: int, line: int) -> FilePlace:
        """Return a later place of the same file, of which the bytes between are read.

        Raises
        ------
        LedgerError
            It has become shorter.
        """
        running, done = self.running.copy(), self.offset
        while done < offset:
            chunk = os.pread(file.fileno(), min(_CHUNK_BYTES, offset - done), done)
            if not chunk:
                raise refuse_changed(file.name)
            running.update(chunk)
            done += len(chunk)
        return FilePlace(offset=offset, line=line, running=running)

    def to_position(
        self, source: str, key: DigestKey, *, path: str, generation: int = 0
    ) -> Position:
        """Return the position that is stored."""
        place: dict[str, int | str] = {
            "offset": self.offset,
            "line": self.line,
            "digest": self.running.hexdigest(),
            "key": key.key_id,
            "path": path,
        }
        if generation:
            place["generation"] = generation
        return Position(source=source, place=place)


def begin(key: DigestKey) -> FilePlace:
    """Return the place at the start of a file."""
    return FilePlace(offset=0, line=0, running=key.begin())


def resume(
    file: TextFile, position: Position, key: DigestKey, *, name: str, is_same: bool = True
) -> FilePlace:
    """Return the place of a position in a file; one pass over the part that was read.

    Parameters
    ----------
    file, name
        The file, and its name in messages.
    position
        Its known position.
    key
        The key of the digests.
    is_same
        Whether its identity says that it is the file that was read. Then a digest under a key that
        was erased, which nobody can check, is no reason to refuse it.

    Raises
    ------
    LedgerError
        It is shorter than what was read, or begins with something else.
    """
    place = position.place
    offset, line = int(place["offset"]), int(place["line"])
    if os.fstat(file.fileno()).st_size < offset:
        raise refuse_changed(name)
    found = begin(key).advance(file, offset=offset, line=line)
    if place["key"] != key.key_id:
        if is_same:
            return found
        raise LedgerError(
            "cannot be recognised: `forget` erased the key of its digest",
            field=name,
            fix="give new records a file of their own",
        )
    if found.running.hexdigest() != place["digest"]:
        raise refuse_changed(name)
    return found


def refuse_changed(name: str) -> LedgerError:
    """Return the error for a file that changed before the place that was read."""
    return LedgerError(
        "cannot be read on: the part that was read has changed, or the file is shorter; "
        "nothing was released",
        field=name,
        fix="put the file back as it was and only append to it, or give new records another file "
        "name; rotate by renaming, never by truncating (copytruncate), and state "
        'replaced = "join_successors"',
    )


def refuse_copied(name: str, original: str) -> LedgerError:
    """Return the error for a file that its name and age make a copy of another."""
    return LedgerError(
        f"may be a copy of {original}: it has such a name, and is not the older one; its records "
        "may have been counted already, and none was read",
        field=name,
        fix='move it elsewhere; or state copies = "new_records" if no file repeats records of '
        "another one; rotate by renaming, never by copying (copytruncate)",
    )


def refuse_replaced(name: str) -> LedgerError:
    """Return the error for another file at the path of one that was read."""
    return LedgerError(
        "must be the file that was read: the records of another one may have been counted already; "
        "nothing was released",
        field=name,
        fix='put the file back; or state replaced = "join_successors" if files are rotated by '
        'renaming and none repeats records, or replaced = "rewritten" if one file is always '
        "written anew with all that it held before",
    )
