"""The cursors that a source has left behind: pages that lead back to one of them are not read.

Their keyed digests lie in an append-only file of the device's state, in the order in which they
were left. A stored place says how many of them it is behind, and the running digest of these. So
what was appended after the last stored place is dropped when reading goes on from there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from sfumato.device_agent.sources.positions import DigestKey
from sfumato.shared.errors import DiskError, LedgerError

PASSED_NAME = "passed"
"""The names of such files begin so."""
MOST_CURSORS = 1 << 20
_BYTES = 8
_NEW_STREAM = "give new records an address and a stream of their own"


class PassedCursors:
    """The cursors behind a place, and the file that keeps them.

    Parameters
    ----------
    key
        The secret of the digests.
    file
        The file; None keeps them in memory, for a look at a source that stores nothing.
    place
        The stored place, which holds what :meth:`describe` gave; empty at the beginning.
    name
        What messages call the source.

    Guarantees
    ----------
    A cursor that was added before a place was stored is found by every later program that goes on
    from that place, or none goes on. Two cursors are taken for one with a probability of 2^-25
    among ``MOST_CURSORS``; then the source stops.

    Raises
    ------
    LedgerError
        The file is not the one that the place is of, or its key was erased.
    DiskError
        The file cannot be read.
    """

    def __init__(
        self, key: DigestKey, file: Path | None, place: Mapping[str, int | str], *, name: str
    ) -> None:
        self._key, self._file, self._name = key, file, name
        self._known: set[bytes] = set()
        self._running = key.begin()
        n_passed = int(place.get("passed", 0))
        if file is None or not n_passed:
            return
        if place.get("key") != key.key_id:
            raise self._refuse("cannot be told from new ones: the key of their digests was erased")
        with _naming(file):
            data = file.read_bytes() if file.exists() else b""
        self._take(data[: n_passed * _BYTES])
        if self._running.hexdigest() != place["behind"]:
            raise self._refuse(f"are not those that {file} should hold")

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, cursor: str | None) -> bool:
        """Whether a cursor was left before; None names no page."""
        return cursor is not None and self._compute(cursor) in self._known

    def add(self, cursor: str | None) -> None:
        """Note a new cursor that is left for another; it is on the disk when this returns.

        Raises
        ------
        LedgerError
            They are too many.
        DiskError
            It cannot be written; it is noted at the next call.
        """
        if len(self) >= MOST_CURSORS:
            raise self._refuse(f"are {MOST_CURSORS:,}, and no more of them can be remembered")
        digest = self._compute(cursor)
        if self._file is not None:
            with _naming(self._file):
                _write(self._file, len(self) * _BYTES, digest)
        self._take(digest)

    def describe(self) -> dict[str, int | str]:
        """Return what a stored place holds of them."""
        if not self._known:
            return {}
        return {"passed": len(self), "behind": self._running.hexdigest()}

    def _compute(self, cursor: str | None) -> bytes:
        return bytes.fromhex(self._key.compute(b"" if cursor is None else f"={cursor}".encode()))

    def _take(self, data: bytes) -> None:
        self._running.update(data)
        self._known |= {data[i : i + _BYTES] for i in range(0, len(data), _BYTES)}

    def _refuse(self, rule: str) -> LedgerError:
        return LedgerError(
            f"has cursors behind it that {rule}; nothing was released",
            field=self._name,
            fix='add order = "increasing" if each cursor is larger than the one before; otherwise '
            + _NEW_STREAM,
        )


def _write(path: Path, offset: int, digest: bytes) -> None:
    file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    try:
        os.ftruncate(file, offset)
        os.pwrite(file, digest, offset)
        os.fsync(file)
    finally:
        os.close(file)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DiskError(
            f"cannot be read or written now ({error.strerror})",
            field=str(path),
            fix="free space on its disk, and make it writable; nothing is lost",
        ) from error
