"""Registry of the files that this device has seen, by identity."""

from __future__ import annotations

from collections.abc import Container, Sequence, Set

from device_agent.sources.interface import KnownPosition, Position, SourceChanges
from shared.errors import LedgerError
from shared.file_identity import birth_of, device_of, inode_of

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
                f"its records were already sketched in stream {other!r}; nothing was released",
                field=name,
                fix=f"name the stream {other!r}, or remove it here",
            )
        position = self._own.get(source)
        if position is not None and key not in position.place:
            raise LedgerError(
                "was read as another kind of source; nothing was released",
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
