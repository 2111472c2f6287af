"""A device's memory of its sources, as the store keeps it, without a store."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sfumato.device_agent.sources import KnownPosition, RecordSource, open_source
from sfumato.device_agent.sources.settings import StreamSettings
from sfumato.shared.plan import Dimension
from sfumato.shared.structure import structure


def make_stream(
    folder: Path, *, name: str = "meter", columns: dict[str, Any] | None = None, **source: Any
) -> StreamSettings:
    document = {"name": name, "source": source, "columns": columns or {}}
    return structure(StreamSettings, document, "streams[0]", folder=folder)


DIGEST_KEY = bytes(range(32))


def make_dimensions(*names: str | Dimension) -> list[Dimension]:
    """Return dimensions that hold any number, for names."""
    return [
        Dimension(name=each, unit="1", lower=-1.0, upper=1.0) if isinstance(each, str) else each
        for each in names
    ]


def _offset_of(known: KnownPosition) -> int:
    return int(known.position.place.get("offset", 0))


class Reader:
    """Opens a stream's source, reads what is new, and remembers where it stands."""

    def __init__(
        self,
        stream: StreamSettings,
        dimensions: Sequence[str | Dimension] = ("x",),
        *,
        state: Path | None = None,
    ) -> None:
        self.state = state
        self.key = DIGEST_KEY
        self.now: Callable[[], float] = time.time
        self.stream = stream
        self.dimensions = make_dimensions(*dimensions)
        self.known: dict[tuple[str, str], KnownPosition] = {}
        self.messages: list[str] = []
        self._source: RecordSource | None = None

    def open(self) -> RecordSource:
        """Open the source as after a restart: whoever read it before has ended."""
        if self._source is not None:
            self._source.close()
        known = list(self.known.values())
        self._source = open_source(
            self.stream, self.dimensions, known, self.key, self.state, now=self._read_clock
        )
        self._note_changes(self._source)
        return self._source

    def _read_clock(self) -> float:
        return self.now()

    def poll(self, source: RecordSource, *, limit: int | None = None) -> list[float]:
        """Return the first dimension of the new records; of a batch, at most ``limit`` are kept."""
        found: list[float] = []
        for batch in source.read():
            n_kept = len(batch.values) if limit is None else min(limit, len(batch.values))
            for i in range(n_kept):
                self.remember(batch.position_after, i)
            for each in batch.beside() if n_kept == len(batch.values) else ():
                known = KnownPosition(stream=self.stream.name, position=each)
                self.known[self.stream.name, each.source] = known
            found += batch.values[:n_kept, 0].tolist()
            if n_kept < len(batch.values):
                break
        self._note_changes(source)
        return found

    def _note_changes(self, source: RecordSource) -> None:
        changes = source.take_changes()
        for gone in changes.gone:
            self.known.pop((self.stream.name, gone), None)
        for position in changes.seen:
            known = KnownPosition(stream=self.stream.name, position=position)
            before = self.known.get((self.stream.name, position.source))
            if before is None or _offset_of(before) < _offset_of(known):
                self.known[self.stream.name, position.source] = known

    def remember(self, position_after: Callable[[int], Any], i: int) -> None:
        position = position_after(i)
        known = KnownPosition(stream=self.stream.name, position=position)
        self.known[self.stream.name, position.source] = known

    def once(self, *, limit: int | None = None) -> list[float]:
        source = self.open()
        try:
            return self.poll(source, limit=limit)
        finally:
            self.messages = source.report.describe()
            source.close()
