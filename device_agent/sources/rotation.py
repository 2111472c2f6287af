"""Search for rotated files by identity and birth time."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Container, Iterator
from pathlib import Path

from shared.file_identity import FileIdentity, birth_of, identify, inode_of


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
    path: Path, source: str, *, since_ns: int | None, known: Container[str]
) -> Path | None:
    """Return the first file that followed another at a path and was renamed unread.

    Parameters
    ----------
    path
        The path of both; the names of files in between begin with it.
    source
        The source of the other file.
    since_ns
        The time of its last write, for file systems without birth times; None where it is gone.
    known
        Sources of the files that were seen.
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
