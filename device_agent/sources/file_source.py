"""One file that grows, and the files that take its place.

Which file is read, and from where, follows from identities, names and sizes alone. A resumed
reading is exact: a position is a byte offset, and a keyed digest of everything before it, which
can only end the reading.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated, Literal

from sfumato.device_agent.sources.interface import Guarantee, RecordBatch
from sfumato.device_agent.sources.known_files import find_between, find_present, find_renamed
from sfumato.device_agent.sources.line_file import LineFile, LineFileSettings, LineFileSource
from sfumato.device_agent.sources.positions import (
    FilePlace,
    Position,
    begin,
    refuse_replaced,
    resume,
)
from sfumato.shared.file_identity import identify
from sfumato.shared.privacy import Origin
from sfumato.shared.reading import TextFile, naming
from sfumato.shared.structure import declared, member

PLACE_KEY = "offset"
"""Key in the place of every position of a file of lines."""

_LOSES = {
    "refuse": "nothing while the file only grows; another file at its path ends the reading",
    "join_successors": "nothing by renaming, but what was compressed, deleted or moved elsewhere "
    "before it was read; not noticed: a copy, under a rotated name, of a file that is gone",
    "rewritten": "nothing while each new version begins with all of the one before",
}


def _resolve_folder(path: Path) -> Path:
    """Resolve all but the last part, which may be a link that will point elsewhere."""
    return path.parent.resolve() / path.name


@declared
class FileSettings(LineFileSettings):
    """Settings of one file that grows."""

    path: Annotated[Path, _resolve_folder] = member("The file, relative to the configuration.")
    missing: Literal["error", "wait"] = member(
        "`error`, or `wait` until the file exists.", default="error"
    )
    replaced: Literal["refuse", "join_successors", "rewritten"] = member(
        "The meaning of another file at the path: `refuse`; `join_successors`, rotation by "
        "renaming; or `rewritten`, always with all that the file held before.",
        default="refuse",
    )

    @property
    def format(self) -> str:
        """See ``TextSettings``."""
        return self.kind

    @property
    def origins(self) -> tuple[Origin, ...]:
        """See ``SourceSettings``."""
        # A link is followed anew at each look, but two links to one file are one source.
        found = {str(self.path), str(self.path.resolve())}
        return tuple(self._origin("path", name) for name in sorted(found))


class FileSource(LineFileSource):
    """The new records of one CSV or JSON-lines file; see ``RecordSource``.

    Raises
    ------
    RecordError
        The file cannot be opened, or its header lacks a column: before any record is read.
    LedgerError
        The file is not the one that was read before, or another stream has read it.
    """

    settings = FileSettings
    _settings: FileSettings
    _last: Position | None = None  # of the file that was read last at this path
    _current: LineFile | None = None

    def _open(self) -> None:
        self._path = self._settings.path
        self._find_last()
        with naming(self._path):
            self._open_first()

    @property
    def guarantee(self) -> Guarantee:
        """See ``RecordSource``."""
        return Guarantee(delivery="exactly once", loses=_LOSES[self._settings.replaced])

    @property
    def caveats(self) -> list[str]:
        """See ``RecordSource``."""
        return self._current.caveats if self._current else []

    def read_batch(self) -> RecordBatch | None:
        """See ``RecordSource``."""
        with naming(self._path):
            while True:
                if self._current is None:
                    self._open_first()
                if self._current is None:
                    self.report.note(f"{self._path} does not exist yet; the agent waits for it")
                    return None
                batch = self._read_current(self._current)
                if batch is not None:
                    return batch
                # Looked up before the old file is read to its end, so that nothing is left in it.
                following = self._find_following(self._current)
                if following is None:
                    self._note_end(self._current)
                    return None
                if self._settings.replaced == "join_successors":
                    batch = self._read_current(self._current, finish=True)
                    if batch is not None:
                        return batch
                self._leave(self._current)
                self._open_file(following)

    def _read_current(self, file: LineFile, *, finish: bool = False) -> RecordBatch | None:
        batch = file.read_batch(finish=finish)
        self._note_begun(file)
        return batch

    def _note_end(self, file: LineFile) -> None:
        self.report.unfinished_line = None
        if file.line == 0 and file.status.st_size == 0:
            self.report.note("the file is empty")
        elif file.line == 0 and self._settings.format == "csv" and not self._settings.header:
            self.report.note("the header line has no end yet")
        elif file.has_partial_line:
            self.report.unfinished_line = file.line + 1

    def _find_last(self) -> None:
        at_path = self._files.list_at(str(self._path))
        if not at_path:
            return
        match self._settings.replaced:
            case "rewritten":
                # A new version goes on where the longest of those before ended.
                self._last = max(at_path, key=_line_of)
                self._files.drop([p.source for p in at_path if p is not self._last])
            case "join_successors":
                self._last = at_path[-1]
                self._drop_gone(frozenset(p.source for p in at_path[:-1]))
            case _:
                self._last = at_path[-1]

    def _drop_gone(self, earlier: frozenset[str]) -> None:
        """Forget files that were at the path and have left its folder."""
        if earlier and self._path.parent.exists():
            kept = set(self._files.sources - earlier) | find_present(self._path, earlier)
            self._files.drop_gone(kept, device=self._path.parent.stat().st_dev)

    def _open_first(self) -> None:
        path = self._choose_first()
        if path is not None:
            self._open_file(path)

    def _choose_first(self) -> Path | None:
        """Return the file to begin with; None while the path is awaited."""
        last, path = self._last, self._path
        at_path = identify(path).source if path.exists() else None
        joins = self._settings.replaced == "join_successors"
        if last is not None and joins and at_path not in self._files.sources:
            renamed = find_renamed(path, last.source)
            if renamed is not None:
                return renamed
            if at_path is not None:
                self.report.note(
                    f"another file is at {path}; the unread rest of the one before is lost"
                )
                return self._find_between(last.source, None) or path
        return None if at_path is None and self._settings.missing == "wait" else path

    def _find_following(self, file: LineFile) -> Path | None:
        """Return the file that replaced the current one, if any."""
        try:
            at_path = identify(self._path)
        except FileNotFoundError:
            return None
        if at_path.source == file.source:
            return None
        if self._settings.replaced != "join_successors":
            return self._path
        if self._path.stat().st_size == 0:
            # Until the new file holds anything its writer may not have left the old one.
            return None
        return self._find_between(file.source, file.status.st_mtime_ns) or self._path

    def _find_between(self, source: str, since_ns: int | None) -> Path | None:
        return find_between(
            self._path,
            source,
            since_ns=since_ns,
            known=self._files.sources,
            may_copy=self._settings.copies == "new_records",
        )

    def _open_file(self, path: Path) -> None:
        """Open a file at its known position; a new file begins as ``replaced`` says."""
        try:
            file = self._resources.enter_context(closing(TextFile(path, self._settings)))
            source = identify(file.file.fileno()).source
            position = self._files.find(source, PLACE_KEY, name=str(path))
            if position is not None:
                place = resume(file, position, self._key, name=str(path))
                generation = generation_of(position)
            elif self._last is None:
                place, generation = begin(self._key), 0
            else:
                place = self._begin_other(file, self._last)
                generation = generation_of(self._last) + 1
            self._hold_lock(path, file.file.fileno())
            self._current = self._read_lines(
                file, place, name=str(path), path=str(self._path), generation=generation
            )
        except BaseException:
            self.close()
            raise
        self._note_begun(self._current)

    def _begin_other(self, file: TextFile, last: Position) -> FilePlace:
        """Return the first place of a new file that follows another."""
        match self._settings.replaced:
            case "join_successors":
                return begin(self._key)
            case "rewritten":
                return resume(file, last, self._key, name=str(self._path), is_same=False)
            case _:
                raise refuse_replaced(str(self._path))

    def _note_begun(self, file: LineFile) -> None:
        """Note a file once its header is read; until then another file may replace it."""
        if not file.is_begun or (self._last is not None and self._last.source == file.source):
            return
        self._files.note(file.first_position)
        if self._settings.replaced == "rewritten" and self._last is not None:
            self._files.drop([self._last.source])
        self._last = file.first_position

    def _leave(self, file: LineFile) -> None:
        """Close the current file and keep its position."""
        if file.is_begun:
            self._last = file.position
            self._files.note(self._last)
        self._current = None
        self.close()


def generation_of(position: Position) -> int:
    """Return the generation of a position: the number of earlier files at its path."""
    return int(position.place.get("generation", 0))


def _line_of(position: Position) -> int:
    return int(position.place["line"])
