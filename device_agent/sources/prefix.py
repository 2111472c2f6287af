"""How a file is known again: by the SHA-256 of the part of it that was read.

A path proves nothing: files are copied, renamed, rotated and restored. A record must not be
sketched twice, so reading goes on only behind a prefix whose digest is known.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol

from device_agent.sources.interface import KnownPosition, Position
from shared.errors import LedgerError

_CHUNK_BYTES = 1 << 20


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
    """A place in a file: bytes and lines before it, and the running digest of those bytes."""

    offset: int
    line: int
    running: Hash

    def behind(self, lines: Sequence[bytes]) -> FilePlace:
        """Return the place behind these lines."""
        running = self.running.copy()
        for line in lines:
            running.update(line)
        return FilePlace(
            offset=self.offset + sum(map(len, lines)),
            line=self.line + len(lines),
            running=running,
        )

    def to_position(self, source: str) -> Position:
        """Return it in the form that is stored."""
        place: dict[str, int | str] = {
            "offset": self.offset,
            "line": self.line,
            "sha256": self.running.hexdigest(),
        }
        return Position(source=source, place=place)


def begin() -> FilePlace:
    """Return the place at the start of a file."""
    return FilePlace(offset=0, line=0, running=hashlib.sha256())


def resume(
    file: BinaryIO, source: str, stream: str, known: Sequence[KnownPosition]
) -> tuple[FilePlace, Position | None]:
    """Find where to go on in a file; one pass over the part that was read before.

    Returns
    -------
    place, position
        The place; and the known position that led there, or None for a file never seen.

    Raises
    ------
    LedgerError
        The file at this path is not the one that was read, or another stream has read it.
    """
    candidates = [k for k in known if k.position.source.startswith("csv:")]
    digests = _hash_prefixes(file, {_offset(k) for k in candidates})
    matching = [k for k in candidates if _matches(k, digests)]
    for own in candidates:
        if own.stream == stream and own.position.source == source and own not in matching:
            raise LedgerError(
                "the part that was already read has changed, or the file has become shorter; "
                "nothing was released",
                field=source.removeprefix("csv:"),
                fix="put the file back as it was and only append to it, or give new records "
                "another file name",
            )
    if not matching:
        return begin(), None
    furthest = max(matching, key=lambda k: (_offset(k), k.stream == stream))
    if furthest.stream != stream:
        raise LedgerError(
            f"its records were already sketched in stream {furthest.stream!r}; "
            "nothing was released",
            field=source.removeprefix("csv:"),
            fix=f"name the stream {furthest.stream!r}, or remove it here",
        )
    place = FilePlace(
        offset=_offset(furthest),
        line=int(furthest.position.place["line"]),
        running=digests[_offset(furthest)],
    )
    return place, furthest.position


def _offset(known: KnownPosition) -> int:
    return int(known.position.place["offset"])


def _matches(known: KnownPosition, digests: dict[int, Hash]) -> bool:
    running = digests.get(_offset(known))
    return running is not None and running.hexdigest() == known.position.place["sha256"]


def _hash_prefixes(file: BinaryIO, offsets: Iterable[int]) -> dict[int, Hash]:
    """Return the running digest at each offset that the file reaches."""
    running: Any = hashlib.sha256()
    found: dict[int, Hash] = {}
    done = 0
    file.seek(0)
    for offset in sorted(offsets):
        while done < offset and (chunk := file.read(min(_CHUNK_BYTES, offset - done))):
            running.update(chunk)
            done += len(chunk)
        if done < offset:
            break
        found[offset] = running.copy()
    return found
