"""The files of a folder, each consumed once, known by what they hold and not by their names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO

from device_agent.settings import StreamSettings
from device_agent.source_settings import FolderSettings
from device_agent.sources.file_source import (
    generation_of,
    has_header,
    make_line_file,
    naming,
    open_regular,
    path_of,
    source_of,
)
from device_agent.sources.interface import (
    Guarantee,
    KnownPosition,
    Position,
    ReadingReport,
    RecordBatch,
    RecordSource,
)
from device_agent.sources.line_file import FileCutError, LineFile
from device_agent.sources.locking import SharedLock
from device_agent.sources.mapping import RecordMapping
from device_agent.sources.prefix import (
    FilePlace,
    find_place,
    is_file_position,
    refuse_changed,
    refuse_older_copy,
)
from shared.errors import SketchError

_Stamp = tuple[int, int, int]
"""Inode, size and time of writing: a file with the same ones has nothing new."""


class FolderSource(RecordSource):
    """The new records of every file that matches; see ``RecordSource``.

    Files are read in the order of their names. One that grows goes on behind what was read; one
    whose content was read under another name is passed over. A file that cannot be read, lacks a
    column or was changed is reported and left alone, and the others are read.

    Raises
    ------
    RecordError
        The folder cannot be listed.
    """

    def __init__(
        self, stream: StreamSettings, dimensions: Sequence[str], known: Sequence[KnownPosition]
    ) -> None:
        assert isinstance(stream.source, FolderSettings)
        self.report = ReadingReport()
        self._settings = stream.source
        self._stream = stream.name
        self._mapping = RecordMapping(stream, dimensions)
        self._known = {(k.stream, k.position.source): k for k in known if is_file_position(k)}
        self._looked: dict[Path, _Stamp] = {}
        self._verified: dict[Path, _Stamp] = {}
        self._waiting: list[Path] = []
        self._current: LineFile | None = None
        self._consumed = self._find_consumed()
        self._lock: SharedLock | None = None
        if self._settings.lock:
            with naming(self._settings.path):
                self._lock = SharedLock(self._settings.path)
            if self._lock.note:
                self._say(self._lock.note)
        try:
            self._list()
        except BaseException:
            self.close()
            raise

    @property
    def guarantee(self) -> Guarantee:
        """See ``RecordSource``."""
        return Guarantee(
            delivery="exactly once",
            loses="a file with the same content as one before, and one deleted before it was read",
        )

    def close(self) -> None:
        """See ``RecordSource``."""
        self._leave()
        if self._lock is not None:
            self._lock.close()

    def _leave(self) -> None:
        """Close the file that is being read."""
        if self._current is not None:
            self._current.close()
            self._current = None

    def read_batch(self) -> RecordBatch | None:
        """See ``RecordSource``."""
        batch = self._read_waiting()
        if batch is None:
            self._waiting = self._list()
            batch = self._read_waiting()
        return batch

    def _read_waiting(self) -> RecordBatch | None:
        while self._current is not None or self._waiting:
            try:
                batch = self._read_next()
            except SketchError as error:
                self._leave()
                self._say(str(error))
                continue
            if batch is not None:
                return batch
        return None

    def _read_next(self) -> RecordBatch | None:
        path = Path(self._current.name) if self._current else self._waiting.pop(0)
        with naming(path):
            if self._current is None:
                self._current = self._open(path)
            return self._read_current() if self._current else None

    def released(self, positions: Iterable[Position]) -> None:
        """Delete or move the files that are in released sketches to their last byte."""
        if self._settings.released == "keep":
            return
        for position in positions:
            path = Path(path_of(position.source))
            self._consumed[path] = int(position.place["offset"])
        for path, offset in list(self._consumed.items()):
            if self._is_whole(path, offset):
                self._dispose(path)
                del self._consumed[path]

    def _list(self) -> list[Path]:
        """Return the files that are new or have changed since they were looked at."""
        with naming(self._settings.path):
            entries = list(self._settings.path.iterdir())
        found = []
        # What is still being written is often hidden.
        entries = [path for path in entries if not path.name.startswith(".")]
        for path in sorted(path for path in entries if path.match(self._settings.glob)):
            stamp = _stamp_of(path)
            if stamp is not None and self._looked.get(path) != stamp:
                found.append(path)
        return found

    def _open(self, path: Path) -> LineFile | None:
        stamp = _stamp_of(path)
        if stamp is None:
            return None
        self._looked[path] = stamp
        file = open_regular(path)
        try:
            place, source = self._find_place(file, path)
            self._verified[path] = stamp
            if place.offset == stamp[1]:
                # All of it is stored; perhaps under the name that it had then.
                self._consumed[path] = place.offset
            return make_line_file(
                file,
                path=path,
                source=source,
                place=place,
                settings=self._settings,
                mapping=self._mapping,
                report=self.report,
            )
        except BaseException:
            file.close()
            raise

    def _find_place(self, file: BinaryIO, path: Path) -> tuple[FilePlace, str]:
        """Return where to go on in a file, and the source of its positions."""
        known = list(self._known.values())
        place, found = find_place(file, self._stream, known, name=str(path))
        own = [k for k in known if self._is_own(k, path)]
        last = max(own, key=lambda k: generation_of(k.position.source), default=None)
        header = has_header(self._settings)
        refuse_older_copy(file, place, known, has_header=header, name=str(path))
        if found is not None and found not in own:
            self._say(f"{path}: begins with records already read; went on behind them")
        if last is None:
            return place, source_of(self._settings.format, path)
        generation = generation_of(last.position.source)
        if find_place(file, self._stream, [last], name=str(path))[1] is None:
            if self._settings.replaced == "refuse":
                raise refuse_changed(str(path))
            generation += 1
        return place, source_of(self._settings.format, path, generation)

    def _is_own(self, known: KnownPosition, path: Path) -> bool:
        return known.stream == self._stream and path_of(known.position.source) == str(path)

    def _read_current(self) -> RecordBatch | None:
        file = self._current
        if file is None:
            return None
        try:
            batch = file.read_batch(finish=self._settings.whole)
        except FileCutError:
            self._leave()
            raise refuse_changed(file.name) from None
        except BaseException:
            self._leave()
            raise
        if batch is None:
            if file.identified:
                position = file.place.to_position(file.source, file.inode)
                key = (self._stream, file.source)
                self._known[key] = KnownPosition(stream=self._stream, position=position)
            if file.has_partial_line:
                self._say(f"{file.name}: its last line has no end yet and was left")
            self._leave()
        return batch

    def _say(self, note: str) -> None:
        if note not in self.report.notes:
            self.report.notes.append(note)

    def _find_consumed(self) -> dict[Path, int]:
        """Return how much of which files was stored before: the next release holds it, or did."""
        found = {}
        for known in self._known.values():
            path = Path(path_of(known.position.source))
            if known.stream == self._stream and path.parent == self._settings.path:
                found[path] = int(known.position.place["offset"])
        return found

    def _is_whole(self, path: Path, offset: int) -> bool:
        """Tell whether a file is still the one that was looked at, and ends there."""
        stamp = _stamp_of(path)
        return stamp is not None and self._verified.get(path) == stamp and stamp[1] == offset

    def _dispose(self, path: Path) -> None:
        try:
            if self._settings.move_to is None:
                path.unlink()
            else:
                self._settings.move_to.mkdir(parents=True, exist_ok=True)
                path.replace(_free_name(self._settings.move_to / path.name))
        except OSError as error:
            # The release is stored, and the file stays known: it is only in the way.
            self._say(f"{path}: {self._settings.released} failed ({error.strerror})")


def _free_name(path: Path) -> Path:
    n, free = 0, path
    while free.exists():
        n += 1
        free = path.with_name(f"{path.stem}.{n}{path.suffix}")
    return free


def _stamp_of(path: Path) -> _Stamp | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return (status.st_ino, status.st_size, status.st_mtime_ns) if path.is_file() else None
