"""The files of a folder, each consumed once, known by their identity.

Content decides nothing. A file that may be a copy by its name and age is not read, unless the owner
says that files repeat nothing; what files hold is compared only for the owner's look.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from sfumato.device_agent.sources.file_source import PLACE_KEY
from sfumato.device_agent.sources.interface import FileCopy, Guarantee, RecordBatch
from sfumato.device_agent.sources.known_files import is_older, list_originals
from sfumato.device_agent.sources.line_file import LineFile, LineFileSettings, LineFileSource
from sfumato.device_agent.sources.positions import (
    FilePlace,
    Position,
    begin,
    refuse_changed,
    refuse_copied,
    refuse_replaced,
    resume,
)
from sfumato.shared.errors import ConfigError, RecordError, SketchError
from sfumato.shared.file_identity import FileIdentity, identify
from sfumato.shared.privacy import Origin
from sfumato.shared.reading import TextFile, naming
from sfumato.shared.structure import Rule, Text, declared, member

_Stamp = tuple[int, int, int, int, int]
"""Device, inode, size, times of writing and change: a file with the same ones has nothing new."""
_MOST_PLACES = 64
_COMPARED_BYTES = 1 << 16
_COPY_KEY = "copy_of"
"""Key in the place of a file that is left as a copy; reading it removes the key."""


@declared
class FolderSettings(LineFileSettings):
    """Settings of the files of a folder."""

    format: Literal["csv", "jsonl", "influx"] = member(
        "`csv`, `jsonl`, or `influx`: line protocol.", default="csv"
    )
    glob: Annotated[
        Text, Rule(lambda text: "/" not in text, "must not have a /", 'write "*.csv"')
    ] = member("The pattern of the files' names.", default="*")
    whole: bool = member(
        "Whether files appear whole, so that a last line needs no end.", default=False
    )
    replaced: Literal["refuse", "join_successors"] | None = member(
        "The meaning of another file under a known name: `refuse` or `join_successors`. "
        'Default: `refuse` with `released = "keep"`, and `join_successors` otherwise, because '
        "names are used again once their file is gone.",
        default=None,
    )
    released: Literal["keep", "delete", "move"] = member(
        "The fate of a file once all of it was released: `keep`, `delete` or `move`.",
        default="keep",
    )
    move_to: Annotated[Path, Path.resolve] | None = member("The folder for `move`.", default=None)

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.released == "move") != (self.move_to is not None) or self.move_to == self.path:
            raise ConfigError(
                'must be another folder with released = "move", and absent otherwise',
                field="move_to",
                fix='write move_to = "done"' if self.move_to is None else 'add released = "move"',
            )
        if self.released != "keep" and not self.whole:
            raise ConfigError(
                "cannot be combined with whole = false: lines that are written to a file later "
                "would be deleted with it",
                field="released",
                fix="let files appear whole, by renaming them into the folder, and add "
                "whole = true",
            )

    @property
    def refuses_others(self) -> bool:
        """Whether another file under a known name is refused."""
        return self.replaced == "refuse" or (self.replaced is None and self.released == "keep")

    @property
    def origins(self) -> tuple[Origin, ...]:
        """See ``SourceSettings``; names change, so which files match decides nothing."""
        return (self._origin("folder", str(self.path)),)


class FolderSource(LineFileSource):
    """The new records of every file that matches; see ``RecordSource``.

    Files are read in the order of their names. One that grows, or is renamed, goes on behind what
    was read. A file that cannot be read, lacks a column or was changed is reported and left alone,
    and the others are read.

    Raises
    ------
    RecordError
        The folder cannot be listed.
    """

    settings = FolderSettings
    _settings: FolderSettings

    def _open(self) -> None:
        # What was stored before: the next release holds it, or did.
        self._consumed = {
            k.position.source: int(k.position.place[PLACE_KEY])
            for k in self._known
            if k.stream == self._stream and PLACE_KEY in k.position.place
        }
        self._identities: dict[Path, tuple[_Stamp, FileIdentity]] = {}
        self._looked: dict[str, _Stamp] = {}  # by source, as all below
        self._sizes: dict[str, int] = {}  # of their lines
        self._paths: dict[str, Path] = {}
        self._places: dict[str, tuple[FilePlace, bytes]] = {}  # of files that may grow
        self._waiting: list[Path] = []
        self._current: LineFile | None = None
        self._caveats: list[str] = []
        self._resources.callback(self._leave)
        with naming(self._settings.path):
            self._hold_lock(self._settings.path)
        self._list()

    @property
    def guarantee(self) -> Guarantee:
        """See ``RecordSource``."""
        return Guarantee(
            delivery="exactly once",
            loses="a file that was deleted before it was read; not noticed: a copy of a file "
            "under a name of its own",
        )

    @property
    def caveats(self) -> list[str]:
        """See ``RecordSource``; of the files that were read."""
        return list(self._caveats)

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
            path = Path(self._current.name) if self._current else self._waiting.pop(0)
            try:
                with naming(path):
                    if self._current is None:
                        self._current = self._open_file(path)
                    batch = self._read_current()
            except SketchError as error:
                self._leave()
                self.report.note(str(error))
                continue
            if batch is not None:
                return batch
        return None

    def released(self, positions: Iterable[Position]) -> None:
        """Delete or move the files that are in released sketches to their last byte."""
        if self._settings.released == "keep":
            return
        for position in positions:
            self._consumed[position.source] = int(position.place[PLACE_KEY])
        for source, offset in list(self._consumed.items()):
            if self._is_whole(source, offset):
                self._dispose(self._paths[source])
                del self._consumed[source]

    def _list(self) -> list[Path]:
        """Return the files that are new or have changed since they were looked at."""
        folder = self._settings.path
        with naming(folder):
            # What is still being written is often hidden.
            names = sorted(
                name
                for name in os.listdir(folder)
                if not name.startswith(".") and Path(name).match(self._settings.glob)
            )
            device = folder.stat().st_dev
        found: dict[str, Path] = {}
        present: dict[str, Path] = {}
        identities: dict[Path, tuple[_Stamp, FileIdentity]] = {}
        for path in (folder / name for name in names):
            known = self._identify(path)
            if known is None:
                continue
            identities[path] = known
            stamp, source = known[0], known[1].source
            # Two names of one file are one file.
            if source not in present:
                present[source] = path
                if self._looked.get(source) != stamp:
                    found[source] = path
        self._identities, self._paths = identities, present
        self._looked = {s: stamp for s, stamp in self._looked.items() if s in present}
        self._sizes = {s: size for s, size in self._sizes.items() if s in present}
        self._files.drop_gone(present, device=device)
        # Before any is read, which forgets under which name it was known.
        if self._settings.copies != "new_records":
            self._note_copies(found.items())
        return list(found.values())

    def _identify(self, path: Path) -> tuple[_Stamp, FileIdentity] | None:
        try:
            status = path.stat()
            if not stat.S_ISREG(status.st_mode):
                return None
            stamp = _stamp_of(status)
            known = self._identities.get(path)
            # The same file under the same stamp: a folder may hold very many.
            return known if known and known[0] == stamp else (stamp, identify(path))
        except FileNotFoundError:
            return None

    def _open_file(self, path: Path) -> LineFile | None:
        try:
            file = TextFile(path, self._settings)
        except FileNotFoundError:
            return None
        except RecordError:
            # Looked at again once it has changed.
            stamp, identity = self._identities[path]
            self._looked[identity.source] = stamp
            raise
        try:
            source = identify(file.file.fileno()).source
            self._looked[source] = _stamp_of(os.fstat(file.file.fileno()))
            place = self._choose_place(file, path, source)
            return self._read_lines(file, place, name=str(path), path=str(path))
        except BaseException:
            file.close()
            raise

    def _choose_place(self, file: TextFile, path: Path, source: str) -> FilePlace:
        """Return the place in a file to resume from."""
        position = self._files.find(source, PLACE_KEY, name=str(path))
        if position is None:
            at_path = {p.source for p in self._files.list_at(str(path))}
            if self._settings.refuses_others and at_path - self._paths.keys():
                raise refuse_replaced(str(path))
            return begin(self._key)
        if _COPY_KEY in position.place and self._settings.copies != "new_records":
            raise refuse_copied(str(path), str(position.place[_COPY_KEY]))
        if source in self._places:
            # What was read in this run needs no second look at all of it.
            place, tail = self._places.pop(source)
            if os.pread(file.fileno(), len(tail), place.offset - len(tail)) != tail:
                raise refuse_changed(str(path))
            return place
        return resume(file, position, self._key, name=str(path))

    def _find_original(self, path: Path, source: str) -> str | None:
        """Return the name of the file of which another may be a copy, by names and ages."""
        position = self._files.own.get(source)
        if position is not None:
            found = position.place.get(_COPY_KEY)
            return None if found is None else str(found)
        for original in list_originals(path):
            known = self._identities.get(original)
            sources = [known[1].source] if known else []
            if self._settings.refuses_others:
                # No name is used again: what was there before may have been copied, too.
                sources += [each.source for each in self._files.list_at(str(original))]
            if any(each != source and not is_older(source, each) for each in sources):
                return original.name
        return None

    def _note_copies(self, found: Iterable[tuple[str, Path]]) -> None:
        """Note new files that may be copies: they are left, whatever becomes of the other ones."""
        for source, path in found:
            original = self._find_original(path, source)
            if original is not None:
                first = begin(self._key).to_position(source, self._key, path=str(path))
                self._files.note(replace(first, place={**first.place, _COPY_KEY: original}))

    def find_copies(self) -> list[FileCopy]:
        """See ``RecordSource``: by names and ages, and by how files begin."""
        if self._settings.copies == "new_records":
            return []
        found: list[FileCopy] = []
        first: dict[bytes, Path] = {}
        for source, path in self._paths.items():
            original, is_left = self._find_original(path, source), True
            if original is None:
                with suppress(OSError, RecordError):
                    line = self._read_beginning(path)
                    if line and (other := first.setdefault(line, path)) != path:
                        original = other.name if self._begin_alike(path, other) else None
                        is_left = False
            if original is not None and not (is_left and self._settings.copies == "refuse"):
                found.append(FileCopy(name=str(path), original=original, is_left=is_left))
        return found

    def _read_beginning(self, path: Path) -> bytes:
        """Return the first record with all before it; nothing if it has no end."""
        has_header = self._settings.format == "csv" and not self._settings.header
        lines = self._read_first(path).split(b"\n", 1 + has_header)
        return b"\n".join(lines[:-1]) if len(lines) > 1 + has_header else b""

    def _read_first(self, path: Path) -> bytes:
        with closing(TextFile(path, self._settings)) as file:
            return os.pread(file.fileno(), _COMPARED_BYTES, 0)

    def _begin_alike(self, one: Path, other: Path) -> bool:
        """Return whether one of two files begins with all of the other, as far as is compared."""
        beginnings = self._read_first(one), self._read_first(other)
        n_common = min(map(len, beginnings))
        return beginnings[0][:n_common] == beginnings[1][:n_common]

    def _read_current(self) -> RecordBatch | None:
        file = self._current
        if file is None:
            return None
        batch = file.read_batch(finish=self._settings.whole)
        if file.is_begun and file.source not in self._files.sources:
            self._files.note(file.first_position)
        if batch is None:
            if file.is_begun:
                self._files.note(file.position)
                self._places[file.source] = (file.place, file.tail)
                self._sizes[file.source] = file.size
            while len(self._places) > _MOST_PLACES:
                del self._places[next(iter(self._places))]
            if file.has_partial_line:
                self.report.note(f"{file.name}: its last line has no end yet and is read later")
            self._caveats += [text for text in file.caveats if text not in self._caveats]
            self._leave()
        return batch

    def _is_whole(self, source: str, offset: int) -> bool:
        """Return whether a file is unchanged since it was listed, and ends at an offset."""
        path = self._paths.get(source)
        if path is None or not offset:
            return False
        known = self._identify(path)
        if known is None or known[1].source != source:
            return False
        return self._looked.get(source) == known[0] and self._sizes.get(source) == offset

    def _dispose(self, path: Path) -> None:
        try:
            if self._settings.move_to is None:
                path.unlink()
            else:
                self._settings.move_to.mkdir(parents=True, exist_ok=True)
                path.replace(_free_name(self._settings.move_to / path.name))
        except OSError as error:
            # The release is stored, and the file stays known: it is only in the way.
            self.report.note(f"{path}: {self._settings.released} failed ({error.strerror})")


def _free_name(path: Path) -> Path:
    n, free = 0, path
    while free.exists():
        n += 1
        free = path.with_name(f"{path.stem}.{n}{path.suffix}")
    return free


def _stamp_of(status: os.stat_result) -> _Stamp:
    return (
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    )
