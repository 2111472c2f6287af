"""How a file is known again: by the SHA-256 of the part of it that was read.

A path proves nothing: files are copied, renamed, rotated and restored. A record must not be
sketched twice, so reading goes on only behind a prefix whose digest is known.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol

import numpy as np

from device_agent.sources.interface import KnownPosition, Position
from shared.errors import LedgerError

_CHUNK_BYTES = 1 << 20
_OLDER_BYTES = 64 << 20
TAIL_BYTES = 256
"""How many bytes before a place are compared whenever reading goes on."""


class Hash(Protocol):
    """A running digest, as ``hashlib`` makes it."""

    def update(self, data: bytes, /) -> None:
        """Add bytes."""
        ...

    def copy(self) -> Hash:
        """Return an independent copy."""
        ...

    def hexdigest(self) -> str:
        """Return the digest of the bytes so far."""
        ...


@dataclass(frozen=True, kw_only=True)
class FilePlace:
    """A place in a file: bytes and lines before it, and the running digest of those bytes.

    ``tail`` are the last of those bytes: cheap to compare, they show whether the file was cut.
    ``marks`` are short digests of the first 1, 2, 4, ... lines: they tell an older copy.
    """

    offset: int
    line: int
    running: Hash
    tail: bytes = b""
    marks: tuple[str, ...] = ()

    def behind(self, data: bytes) -> FilePlace:
        """Return the place behind these bytes."""
        running, marks = self.running.copy(), self.marks
        n_lines, done = data.count(b"\n"), 0
        if self.line + n_lines >= 1 << len(marks):
            ends = (np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == ord("\n")) + 1).tolist()
            while self.line + n_lines >= (mark := 1 << len(marks)):
                end = ends[mark - self.line - 1]
                running.update(data[done:end])
                marks, done = (*marks, running.hexdigest()[:16]), end
        running.update(data[done:])
        return FilePlace(
            offset=self.offset + len(data),
            line=self.line + n_lines,
            running=running,
            tail=(self.tail + data[-TAIL_BYTES:])[-TAIL_BYTES:],
            marks=marks,
        )

    def to_position(self, source: str, inode: int) -> Position:
        """Return it in the form that is stored."""
        place: dict[str, int | str] = {
            "offset": self.offset,
            "line": self.line,
            "sha256": self.running.hexdigest(),
            "tail": hash_tail(self.tail),
            "marks": ",".join(self.marks),
            "inode": inode,
        }
        return Position(source=source, place=place)


def hash_tail(tail: bytes) -> str:
    """Return a short digest of the bytes before a place."""
    return hashlib.sha256(tail).hexdigest()[:16]


def begin() -> FilePlace:
    """Return the place at the start of a file."""
    return FilePlace(offset=0, line=0, running=hashlib.sha256())


def find_place(
    file: BinaryIO, stream: str, known: Sequence[KnownPosition], *, name: str
) -> tuple[FilePlace, KnownPosition | None]:
    """Find where to go on in a file; one pass over the part that was read before.

    Parameters
    ----------
    file
        The file.
    stream
        The stream that wants to read it.
    known
        Positions, those of other sources among them.
    name
        What the file is called, for messages.

    Returns
    -------
    place, known
        The place, and the known position that led there, or None for a file never seen.

    Raises
    ------
    LedgerError
        Another stream has read it.
    """
    candidates = [k for k in known if is_file_position(k)]
    digests = _hash_prefixes(file, {offset_of(k) for k in candidates})
    matching = [k for k in candidates if _matches(k, digests)]
    if not matching:
        return begin(), None
    furthest = max(matching, key=lambda k: (offset_of(k), k.stream == stream))
    if furthest.stream != stream:
        raise LedgerError(
            f"its records were already sketched in stream {furthest.stream!r}; "
            "nothing was released",
            field=name,
            fix=f"name the stream {furthest.stream!r}, or remove it here",
        )
    place = FilePlace(
        offset=offset_of(furthest),
        line=int(furthest.position.place["line"]),
        running=digests[offset_of(furthest)],
        tail=_read_tail(file, offset_of(furthest)),
        marks=_marks_of(furthest),
    )
    return place, furthest


def find_same_tail(file: BinaryIO, known: KnownPosition) -> FilePlace | None:
    """Return a known place in a file that has changed before it, but has the same bytes there.

    So looks a file that was truncated and grew again unnoticed: what is before the place was read,
    or is lost.
    """
    offset, place = offset_of(known), known.position.place
    running = _hash_prefixes(file, {offset}).get(offset)
    tail = _read_tail(file, offset)
    if running is None or hash_tail(tail) != place.get("tail"):
        return None
    line = int(place["line"])
    return FilePlace(offset=offset, line=line, running=running, tail=tail, marks=_marks_of(known))


def refuse_older_copy(
    file: BinaryIO,
    place: FilePlace,
    known: Sequence[KnownPosition],
    *,
    has_header: bool,
    name: str,
) -> None:
    """Refuse a file that is an older copy of one that was read further, or forked from it.

    Not all that was read of the other is in it, so that no digest agrees; but at least half of its
    lines, from the first, are those of the other.

    Parameters
    ----------
    file
        The file; its first 64 MiB are read.
    place
        Where reading would go on.
    known
        Positions of all files.
    has_header
        Whether the first line is that of many files and tells nothing.
    name
        What the file is called.

    Raises
    ------
    LedgerError
        It is one.
    """
    file.seek(0)
    marks = begin().behind(file.read(_OLDER_BYTES)).marks
    if len(marks) <= has_header:
        return
    for other in known:
        if not is_file_position(other) or int(other.position.place["line"]) <= place.line:
            continue
        if marks[-1] in _marks_of(other):
            raise LedgerError(
                f"begins with records already read from {other.position.source}, but not with all "
                "of them: an older copy, or changed; it was left alone",
                field=name,
                fix="remove it; give new records a file of their own",
            )


def _marks_of(known: KnownPosition) -> tuple[str, ...]:
    return tuple(filter(None, str(known.position.place.get("marks", "")).split(",")))


def refuse_changed(name: str) -> LedgerError:
    """Return the complaint about a file whose part that was read is no longer as it was."""
    return LedgerError(
        "the part that was already read has changed, or the file has become shorter; "
        "nothing was released",
        field=name,
        fix="put the file back as it was and only append to it, or give new records another file "
        'name; where files are rotated, state replaced = "follow"',
    )


def is_file_position(known: KnownPosition) -> bool:
    """Tell whether a position is one of a file of lines."""
    return "line" in known.position.place and "sha256" in known.position.place


def offset_of(known: KnownPosition) -> int:
    """Return how many bytes of its file were read."""
    return int(known.position.place["offset"])


def _matches(known: KnownPosition, digests: dict[int, Hash]) -> bool:
    running = digests.get(offset_of(known))
    return running is not None and running.hexdigest() == known.position.place["sha256"]


def _read_tail(file: BinaryIO, offset: int) -> bytes:
    file.seek(max(0, offset - TAIL_BYTES))
    return file.read(min(offset, TAIL_BYTES))


def _hash_prefixes(file: BinaryIO, offsets: Iterable[int]) -> dict[int, Hash]:
    """Return the running digest at each offset that the file reaches."""
    running: Any = hashlib.sha256()
    found: dict[int, Hash] = {}
    done = 0
    size = os.fstat(file.fileno()).st_size
    file.seek(0)
    for offset in sorted(o for o in offsets if o <= size):
        while done < offset and (chunk := file.read(min(_CHUNK_BYTES, offset - done))):
            running.update(chunk)
            done += len(chunk)
        if done < offset:
            break
        found[offset] = running.copy()
    return found
