"""The journal of answers: lines that survive a restored database, best on another volume.

A helper whose database was restored from a backup has forgotten what it answered, and could add a
second noise to the same reports. The journal remembers, so that such a helper does not serve.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from dataclasses import dataclass, field
from pathlib import Path

from sfumato.shared.durable_files import write_all
from sfumato.shared.errors import ConfigError, DiskError

_FIRST = "0" * 64


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One line: an answer that was given, a total that took its place, or a restored database.

    Parameters
    ----------
    kind
        ``answer``, ``total`` or ``restored``.
    values
        For an answer, the batch, its members and the digest of the body, hexadecimal, and when its
        slot begins; of a total the batch and the digest of the total; of a restored database its
        generation.
    """

    kind: str
    values: tuple[str, ...]

    def encode(self, before: str) -> str:
        """Return the line: the entry, and a digest of it and of the line before."""
        text = " ".join((self.kind, *self.values))
        return f"{text} {hashlib.sha256(f'{before} {text}'.encode()).hexdigest()}"


@dataclass
class Journal:
    """The journal file; every line carries the digest of the line before."""

    path: Path
    entries: list[Entry] = field(default_factory=list)
    _last: str = _FIRST
    _answered: set[str] = field(default_factory=set)
    _totals: set[str] = field(default_factory=set)
    _lock_file: int | None = None

    @classmethod
    def open(cls, path: Path, *, is_alone: bool = False) -> Journal:
        """Read a journal, or begin one; a last line that a crash cut off is removed.

        Parameters
        ----------
        is_alone
            Keep every other process that asks for this from the journal, until this one ends.

        Raises
        ------
        ConfigError
            A line was altered or is missing, or another process keeps the journal.
        """
        # Before reading: another process may be writing.
        lock_file = _lock(path) if is_alone else None
        journal = cls(path, _lock_file=lock_file)
        text = path.read_text("ascii", errors="replace") if path.exists() else ""
        whole, newline, cut = text.rpartition("\n")
        for number, line in enumerate(whole.split("\n") if newline else [], 1):
            kind, *values, digest = line.split(" ") if line.count(" ") > 1 else ("", "")
            entry = Entry(kind=kind, values=tuple(values))
            if entry.encode(journal._last) != line:
                raise ConfigError(
                    f"was altered, or a line before it is missing, at line {number}",
                    field=str(path),
                    fix="restore the journal; do not serve without it: run `sfumato helper "
                    "restored` if it is lost",
                )
            journal._last = digest
            journal._note(entry)
        if cut:
            os.truncate(path, len(whole) + len(newline))
        return journal

    def close(self) -> None:
        """Let other processes have the journal."""
        if self._lock_file is not None:
            os.close(self._lock_file)
            self._lock_file = None

    def append(self, entry: Entry) -> None:
        """Write a line, and wait until it is on the disk.

        Raises
        ------
        DiskError
            It cannot be written; the journal is as it was.
        """
        line = entry.encode(self._last)
        file = os.open(self.path, os.O_CREAT | os.O_APPEND | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        data = f"{line}\n".encode("ascii")
        try:
            size = os.fstat(file).st_size
            try:
                write_all(file, data)
            except OSError as error:
                os.ftruncate(file, size)
                raise DiskError(
                    f"cannot be written ({error.strerror}), so the answer is not given",
                    field=str(self.path),
                    fix="free space on the disk, and ask again",
                ) from error
        finally:
            os.close(file)
        self._last = line.rpartition(" ")[2]
        self._note(entry)

    def has_answer(self, batch: str) -> bool:
        """Return whether there is a line about the answer for a batch."""
        return batch in self._answered

    def has_total(self, batch: str) -> bool:
        """Return whether there is a line about the total of a batch."""
        return batch in self._totals

    def _note(self, entry: Entry) -> None:
        self.entries.append(entry)
        if entry.kind == "answer":
            self._answered.add(entry.values[0])
        elif entry.kind == "total":
            self._totals.add(entry.values[0])


def _lock(path: Path) -> int:
    """Lock a file until the process ends, however it ends; return the open file."""
    file = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(file)
        raise ConfigError(
            "is in use by another process",
            field=str(path),
            fix="stop the other helper first: one process serves a helper",
        ) from error
    return file
