"""One file that grows, and the files that take its place.

A resumed reading is exact: positions are byte offsets, and the digest of everything before them.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from device_agent.settings import StreamSettings
from device_agent.source_settings import FileSettings, TextSettings
from device_agent.sources.interface import (
    Guarantee,
    KnownPosition,
    ReadingReport,
    RecordBatch,
    RecordSource,
)
from device_agent.sources.line_file import FileCutError, LineFile
from device_agent.sources.locking import lock_open_file
from device_agent.sources.mapping import RecordMapping
from device_agent.sources.parsers import make_parser
from device_agent.sources.prefix import (
    FilePlace,
    find_place,
    find_same_tail,
    refuse_changed,
    refuse_older_copy,
)
from shared.errors import RecordError

_GENERATION = re.compile(r"(csv|jsonl)(?:#(\d+))?:(.*)", re.DOTALL)


class FileSource(RecordSource):
    """The new records of one CSV or JSON-lines file; see ``RecordSource``.

    Raises
    ------
    RecordError
        The file cannot be opened, or its header lacks a column: before any record is read.
    LedgerError
        The file is not the one that was read before, or another stream has read it.
    """

    def __init__(
        self, stream: StreamSettings, dimensions: Sequence[str], known: Sequence[KnownPosition]
    ) -> None:
        assert isinstance(stream.source, FileSettings)
        self.report = ReadingReport()
        self._settings = stream.source
        self._path = stream.source.path
        self._stream = stream.name
        self._mapping = RecordMapping(stream, dimensions)
        self._known = list(known)
        self._generation = 0
        self._waiting = False  # for the file to be there
        self._current: LineFile | None = None
        with naming(self._path):
            self._open_first()

    @property
    def guarantee(self) -> Guarantee:
        """See ``RecordSource``."""
        loses = "nothing while the file only grows"
        if self._settings.replaced == "follow":
            loses = (
                "nothing by renaming; what was written between the last look and a truncation, and "
                "what was compressed or deleted before it was read"
            )
        return Guarantee(delivery="exactly once", loses=loses)

    def close(self) -> None:
        """See ``RecordSource``."""
        if self._current is not None:
            self._current.close()
            self._current = None

    def read_batch(self) -> RecordBatch | None:
        """See ``RecordSource``."""
        with naming(self._path):
            while True:
                if self._current is None and not self._open_awaited():
                    self._say(f"{self._path} is not there yet; it is awaited")
                    return None
                assert self._current is not None
                batch = self._read_current(self._current)
                if batch is not None:
                    return batch
                # Looked up before the old file is read to its end, so that nothing is left in it.
                following = self._find_following()
                if following is None:
                    self._note_end()
                    return None
                batch = self._read_current(self._current, finish=not self._continues(following))
                if batch is not None:
                    return batch
                self._leave()
                self._open(open_regular(following), following)

    def _read_current(self, file: LineFile, *, finish: bool = False) -> RecordBatch | None:
        try:
            return file.read_batch(finish=finish)
        except FileCutError:
            if self._settings.replaced == "refuse":
                raise refuse_changed(str(self._path)) from None
            self.report.notes.append(
                f"{file.name} was truncated; went on at its new start behind line {file.place.line}"
            )
            self._restart()
            return self._current.read_batch() if self._current else None

    def _restart(self) -> None:
        """Begin again with the file that was cut, under a new position."""
        assert self._current is not None
        file, name = self._current.reopen(), Path(self._current.name)
        self._leave()
        self._open(file, name)

    def _note_end(self) -> None:
        file = self._current
        assert file is not None
        self.report.unfinished_line = None
        if file.place.offset == 0 and file.size == 0:
            self._say("the file is empty")
        elif file.place.offset == 0:
            self._say("the header line has no end yet")
        elif file.has_partial_line:
            self.report.unfinished_line = file.place.line + 1

    def _say(self, note: str) -> None:
        if note not in self.report.notes:
            self.report.notes.append(note)

    def _open_first(self) -> None:
        last = self._find_last()
        if last is None:
            if not self._wait_for_file():
                self._open(open_regular(self._path), self._path, never_seen=True)
            return
        self._generation = generation_of(last.position.source)
        try:
            found = self._open_known(self._path, last)
        except FileNotFoundError:
            if self._settings.missing == "error":
                raise
            found, self._waiting = False, True
        if found:
            return
        if self._settings.replaced == "refuse":
            if self._waiting:
                return
            raise refuse_changed(str(self._path))
        for path in self._list_rotated():
            if self._open_known(path, last):
                self._waiting = False
                return
        self._generation += 1
        if any(self._open_cut(path, last) for path in self._list_rotated()):
            self._waiting = False
            return
        if not self._waiting:
            self.report.notes.append(
                f"another file is at {self._path}; what was left in the one before is lost"
            )
            self._open(open_regular(self._path), self._path)

    def _find_last(self) -> KnownPosition | None:
        """Return the latest position of this path and stream."""
        own = [
            k
            for k in self._known
            if k.stream == self._stream and path_of(k.position.source) == str(self._path)
        ]
        return max(own, key=lambda k: generation_of(k.position.source), default=None)

    def _open_known(self, path: Path, last: KnownPosition) -> bool:
        """Open a file if it is the one that was read last."""
        file = open_regular(path)
        try:
            if find_place(file, self._stream, [last], name=str(path))[1] is not None:
                # A copy may have been read further under another name.
                place = find_place(file, self._stream, self._known, name=str(path))[0]
            else:
                same = self._settings.replaced == "follow" and is_inode_of(file, last)
                place_there = find_same_tail(file, last) if same else None
                if place_there is None:
                    file.close()
                    return False
                place = place_there
            self._use(file, path, place)
        except BaseException:
            file.close()
            raise
        return True

    def _open_cut(self, path: Path, last: KnownPosition) -> bool:
        """Open the file that was read last, if it was cut and then renamed before a new record."""
        file = open_regular(path)
        if not is_inode_of(file, last):
            file.close()
            return False
        self.report.notes.append(f"{path} was truncated; went on at its new start")
        self._open(file, path)
        return True

    def _open(self, file: BinaryIO, path: Path, *, never_seen: bool = False) -> None:
        """Read a file that was not the current one, behind whatever is known of it."""
        try:
            place, found = find_place(file, self._stream, self._known, name=str(path))
            if never_seen:
                # Where a file took another's place, that it is new is certain.
                header = has_header(self._settings)
                refuse_older_copy(file, place, self._known, has_header=header, name=str(path))
            if found is not None and path_of(found.position.source) != str(self._path):
                self.report.notes.append(
                    "begins with records already read from "
                    f"{path_of(found.position.source)}; went on behind line {place.line}"
                )
            self._use(file, path, place)
        except BaseException:
            file.close()
            raise

    def _use(self, file: BinaryIO, path: Path, place: FilePlace) -> None:
        if self._settings.lock and (note := lock_open_file(file.fileno(), path)):
            self._say(note)
        self._current = make_line_file(
            file,
            path=path,
            source=source_of(self._settings.format, self._path, self._generation),
            place=place,
            settings=self._settings,
            mapping=self._mapping,
            report=self.report,
        )

    def _leave(self) -> None:
        """Close the current file; what was read of it stays known, under its own position."""
        file = self._current
        assert file is not None
        if file.identified:
            position = file.place.to_position(file.source, file.inode)
            self._known.append(KnownPosition(stream=self._stream, position=position))
            self._generation += 1
        file.close()
        self._current = None

    def _wait_for_file(self) -> bool:
        self._waiting = self._settings.missing == "wait" and not self._path.exists()
        return self._waiting

    def _open_awaited(self) -> bool:
        if self._waiting and self._path.exists():
            self._waiting = False
            never_seen = self._find_last() is None
            self._open(open_regular(self._path), self._path, never_seen=never_seen)
        return self._current is not None

    def _find_following(self) -> Path | None:
        """Return the file that took the current one's place, if one did and holds anything."""
        file = self._current
        assert file is not None
        try:
            at_path = os.stat(self._path)
        except FileNotFoundError:
            return None
        if at_path.st_ino == file.inode or at_path.st_size == 0:
            return None
        if self._continues(self._path):
            return self._path
        if self._settings.replaced == "refuse":
            raise refuse_changed(str(self._path))
        between = [
            path
            for path in self._list_rotated()
            if path.stat().st_ino not in (file.inode, at_path.st_ino)
            and self._is_unread(path, file.modified_ns)
        ]
        return between[0] if between else self._path

    def _continues(self, path: Path) -> bool:
        """Tell whether a file begins with all that was read of the current one: a new version."""
        file = self._current
        assert file is not None
        position = file.place.to_position(file.source, file.inode)
        own = KnownPosition(stream=self._stream, position=position)
        with open_regular(path) as other:
            place, found = find_place(other, self._stream, [own], name=str(path))
            if found is None or file.identified:
                return found is not None
            # All files begin with the header: what follows has to agree too.
            rest = file.partial_line
            return bool(rest) and os.pread(other.fileno(), len(rest), place.offset) == rest

    def _is_unread(self, path: Path, since_ns: int) -> bool:
        status = path.stat()
        if status.st_mtime_ns < since_ns or status.st_size == 0:
            return False
        with open_regular(path) as file:
            place, _ = find_place(file, self._stream, self._known, name=str(path))
        return place.offset < status.st_size

    def _list_rotated(self) -> list[Path]:
        """Return the files beside it that were it once, as their names say, oldest first."""
        pattern = re.compile(re.escape(self._path.name) + r"[.-]\d[\d.T_:-]*")
        found = [
            path
            for path in self._path.parent.iterdir()
            if pattern.fullmatch(path.name) and path.is_file()
        ]
        return sorted(found, key=lambda path: (path.stat().st_mtime_ns, path.name))


def make_line_file(
    file: BinaryIO,
    *,
    path: Path,
    source: str,
    place: FilePlace,
    settings: TextSettings,
    mapping: RecordMapping,
    report: ReadingReport,
) -> LineFile:
    """Return the reader of an open file."""
    return LineFile(
        file,
        name=str(path),
        source=source,
        place=place,
        parser=make_parser(settings, mapping),
        report=report,
        multiline=settings.multiline,
        n_dimensions=len(mapping.names),
    )


def has_header(settings: TextSettings) -> bool:
    """Tell whether the first line of a file names its columns."""
    return settings.format == "csv" and not settings.header


def source_of(form: str, path: Path, generation: int = 0) -> str:
    """Return the source of a file's positions; each file that was at a path has its own."""
    return f"{form}#{generation}:{path}" if generation else f"{form}:{path}"


def path_of(source: str) -> str:
    """Return the path in a source, or the source itself if it is no file of lines."""
    match = _GENERATION.fullmatch(source)
    return match[3] if match else source


def generation_of(source: str) -> int:
    """Return which of the files at its path a source is."""
    match = _GENERATION.fullmatch(source)
    return int(match[2] or 0) if match else 0


def is_inode_of(file: BinaryIO, known: KnownPosition) -> bool:
    """Tell whether a file has the inode of a known one."""
    return os.fstat(file.fileno()).st_ino == known.position.place.get("inode")


def open_regular(path: Path) -> BinaryIO:
    """Open a file for reading; refuse pipes, folders and the like."""
    # A pipe would block here until someone writes to it.
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise RecordError("is not a regular file", field=str(path), fix="name a file of records")
    return open(path, "rb")


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Turn the system's complaints about a file into ours."""
    try:
        yield
    except OSError as error:
        raise RecordError(
            f"cannot be read ({error.strerror})",
            field=str(path),
            fix="name a file that exists and that this user may read",
        ) from error
