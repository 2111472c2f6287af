"""Registry of the files that this device has seen, and the search for rotated ones.

A file is known by its identity: inode, device and birth time.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Container, Iterator, Mapping, Sequence, Set
from pathlib import Path

from sfumato.device_agent.sources.positions import (
    KnownPosition,
    Position,
    SourceChanges,
    refuse_copied,
)
from sfumato.shared.errors import LedgerError
from sfumato.shared.file_identity import FileIdentity, birth_of, device_of, identify, inode_of

_COPY = re.compile(
    r"(?:[ ._-]+(?:\d[\d.T_:-]*|copy|bak|backup|old|orig)|~| ?\(\w*\))+", re.IGNORECASE
)
"""Parts of a name that rotation and backups add, at its end or before its suffix."""
MOST_GONE = 1000
"""Number of files that stay known when they are gone, so that none is read again."""


class KnownFiles:
    """Positions of files: stored ones, and their changes since.

    Parameters
    ----------
    stream
        The stream that reads.
    known
        Every position that this device has stored.
    """

    def __init__(self, stream: str, known: Sequence[KnownPosition]) -> None:
        files = [k for k in known if inode_of(k.position.source) is not None]
        self._own = {k.position.source: k.position for k in files if k.stream == stream}
        self._others = {k.position.source: k.stream for k in files if k.stream != stream}
        self._seen: list[Position] = []
        self._gone: list[str] = []

    @property
    def own(self) -> Mapping[str, Position]:
        """Positions of the files that this stream has seen, by source."""
        return self._own

    @property
    def sources(self) -> Set[str]:
        """Sources of the files that this stream has seen."""
        return self._own.keys()

    def find(self, source: str, key: str, *, name: str) -> Position | None:
        """Return the position of a file, or None if it was never seen.

        Parameters
        ----------
        source
            The source of its positions.
        key
            A key that every place of this kind of source has.
        name
            What messages call it.

        Raises
        ------
        LedgerError
            Another stream, or another kind of source, has read it.
        """
        if (other := self._others.get(source)) is not None:
            raise LedgerError(
                f"cannot be read: stream {other!r} has sketched its records; nothing was released",
                field=name,
                fix=f"name the stream {other!r}, or remove it here",
            )
        position = self._own.get(source)
        if position is not None and key not in position.place:
            raise LedgerError(
                "must be read as the kind of source that it was before; nothing was released",
                field=name,
                fix="state the kind that it had, or give new records a file of their own",
            )
        return position

    def list_at(self, path: str) -> list[Position]:
        """Return the positions of files that were at a path, oldest first."""
        found = [p for p in self._own.values() if p.place.get("path") == path]
        return sorted(found, key=lambda p: int(p.place.get("generation", 0)))

    def note(self, position: Position) -> None:
        """Note a position; a new file will be stored as seen."""
        if position.source not in self._own:
            self._seen.append(position)
            self._gone = [source for source in self._gone if source != position.source]
        self._own[position.source] = position

    def drop(self, sources: Sequence[str]) -> None:
        """Forget files, unless they are noted again."""
        for source in sources:
            if self._own.pop(source, None) is not None:
                self._gone.append(source)
        self._seen = [position for position in self._seen if position.source in self._own]

    def drop_gone(self, present: Container[str], *, device: int) -> None:
        """Forget files that are gone, except the last ones whose identity cannot come again.

        Parameters
        ----------
        present
            Sources of the files that are there.
        device
            The number of the device that they are on: what is not mounted now is not gone.
        """
        absent = [source for source in self._own if source not in present]
        # The inode alone may be that of another file by now.
        reusable = [source for source in absent if device_of(source) == device]
        lasting = sorted(
            (source for source in absent if birth_of(source) is not None),
            key=lambda source: (birth_of(source) or 0, source),
        )
        self.drop(reusable + lasting[:-MOST_GONE])

    def take_changes(self) -> SourceChanges:
        """See ``RecordSource``."""
        changes = SourceChanges(seen=tuple(self._seen), gone=tuple(self._gone))
        self._seen, self._gone = [], []
        return changes


def list_originals(path: Path) -> list[Path]:
    """Return the paths of which this one may be that of a copy or of a rotated file.

    Examples
    --------
    >>> [str(found) for found in list_originals(Path("f-20261126.csv.1"))]
    ['f-20261126.csv', 'f.csv']
    """
    ended = _strip(path.name)
    inner = [
        f"{stem}{Path(name).suffix}"
        for name in (path.name, *ended)
        for stem in _strip(Path(name).stem)
    ]
    return [path.with_name(name) for name in (*ended, *inner)]


def _strip(text: str) -> list[str]:
    return [text[:i] for i in range(1, len(text)) if _COPY.fullmatch(text, i)]


def is_older(one: str, other: str) -> bool:
    """Return whether a file is known to be older than another: then it is no copy of it."""
    births = birth_of(one), birth_of(other)
    return births[0] is not None and births[1] is not None and births[0] < births[1]


def find_renamed(path: Path, source: str) -> Path | None:
    """Return the present path of a file that was at a path, in the same folder."""
    for found, identity in _iterate_files(path, {inode_of(source)}):
        if identity.source == source:
            return found
    return None


def find_present(path: Path, sources: frozenset[str]) -> set[str]:
    """Return the sources whose files are in the folder of a path."""
    inodes = {inode_of(source) for source in sources}
    return {identity.source for _, identity in _iterate_files(path, inodes)} & sources


def find_between(
    path: Path, source: str, *, since_ns: int | None, known: Container[str], may_copy: bool
) -> Path | None:
    """Return the first file that followed another at a path and was renamed unread.

    Parameters
    ----------
    path
        The path of both; the names of files in between begin with it.
    source
        The source of the other file.
    since_ns
        The time of its last write; None where it is gone.
    known
        Sources of the files that were seen.
    may_copy
        Whether a file that was made while the other was still written is no copy of it.

    Raises
    ------
    LedgerError
        There is such a file, and it may be one.
    """
    pattern = re.compile(re.escape(path.name) + r"[.-]\d[\d.T_:-]*")
    birth_ns = birth_of(source)
    at_path = _identify_if_there(path)
    found: list[tuple[int, int, str]] = []
    for beside, identity in _iterate_files(path, None):
        if not pattern.fullmatch(beside.name) or identity == at_path or identity.source in known:
            continue
        written_ns = beside.stat().st_mtime_ns
        if birth_ns is not None and identity.birth_ns is not None:
            if identity.birth_ns >= birth_ns:
                if since_ns is not None and identity.birth_ns < since_ns and not may_copy:
                    raise refuse_copied(str(beside), path.name)
                found.append((identity.birth_ns, written_ns, beside.name))
        elif since_ns is not None and written_ns >= since_ns:
            found.append((written_ns, written_ns, beside.name))
    return path.with_name(min(found)[2]) if found else None


def _iterate_files(
    path: Path, inodes: Container[int | None] | None
) -> Iterator[tuple[Path, FileIdentity]]:
    """Yield the files beside a path and beside what it links to, of these inodes if any."""
    for folder in dict.fromkeys((path.parent, path.resolve().parent)):
        try:
            entries = list(os.scandir(folder))
        except FileNotFoundError:
            continue
        for entry in entries:
            if inodes is not None and not entry.is_symlink() and entry.inode() not in inodes:
                continue
            found = Path(entry.path)
            identity = _identify_if_there(found)
            if identity is not None:
                yield found, identity


def _identify_if_there(path: Path) -> FileIdentity | None:
    try:
        return identify(path) if stat.S_ISREG(path.stat().st_mode) else None
    except OSError:
        return None
