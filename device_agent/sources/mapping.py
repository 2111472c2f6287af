"""From the fields of a source to the plan's dimensions: names, times and units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

import numpy as np

from device_agent.sources.interface import ReadingReport
from device_agent.sources.settings import SourceSettings, StreamSettings, TextSettings, find_zone
from shared.reading import Block, Fields, LineParser, RecordTable, TimeField, make_parser
from shared.reading.records import NAN

_UNIX_SCALES = {"unix": 1.0, "unix_ms": 1e3, "unix_us": 1e6, "unix_ns": 1e9}


class RecordMapping:
    """Which field is which dimension, in which unit, and which holds time and id.

    Parameters
    ----------
    stream
        The stream's settings.
    dimensions
        The plan's dimensions, in order.
    identity
        The field that only ever grows, or None.
    """

    def __init__(
        self, stream: StreamSettings, dimensions: Sequence[str], identity: str | None = None
    ) -> None:
        columns = [stream.find_field(name) for name in dimensions]
        self.fields = Fields(
            values=tuple(column.name for column in columns),
            time=_make_time_field(stream.source),
            identity=identity,
            are_chosen=[column.name for column in columns] != list(dimensions),
            advice="correct the header, or name the column in [streams.columns] or "
            "[streams.source]; check encoding and delimiter too",
        )
        self._scale = np.array([column.conversion.scale for column in columns])
        self._offset = np.array([column.conversion.offset for column in columns])
        self._converts = bool((self._scale != 1).any() or (self._offset != 0).any())

    def make_parser(self, settings: TextSettings) -> LineParser:
        """Return a new parser of the configured format; one for each file."""
        return make_parser(
            settings.format,
            self.fields,
            encoding=settings.encoding,
            delimiter=settings.delimiter,
            header=settings.header,
        )

    def parse(self, parser: LineParser, block: Block, report: ReadingReport) -> RecordTable:
        """Return the records of a block, in the plan's units; see ``convert``."""
        return self.convert(parser.parse(block), report, block.places)

    def convert(
        self, table: RecordTable, report: ReadingReport, places: Sequence[int]
    ) -> RecordTable:
        """Return records in the plan's units, as a matrix, and count those that are unusable."""
        values = table.to_matrix()
        if self._converts:
            with np.errstate(over="ignore"):
                values = values * self._scale + self._offset
            values[~np.isfinite(values)] = NAN
        bad = np.isnan(values)
        for i in np.flatnonzero(bad.any(axis=1)).tolist():
            what = table.damaged.get(i) or self.fields.values[int(bad[i].argmax())]
            report.add_unusable(places[i], what)
        if self.fields.time is not None:
            for i in np.flatnonzero(np.isnan(table.timestamps)).tolist():
                report.add_untimed(places[i], self.fields.time.name)
        return replace(table, values=values)


def _make_time_field(settings: SourceSettings) -> TimeField | None:
    name, form = settings.timestamp, settings.timestamp_format
    if name is None:
        return None
    if form in _UNIX_SCALES:
        return TimeField(name=name, unix_scale=_UNIX_SCALES[form])
    zone = find_zone(settings.timestamp_zone)

    def parse(text: str) -> datetime:
        text = text.strip()
        moment = (
            datetime.fromisoformat(text) if form == "iso8601" else datetime.strptime(text, form)
        )
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=zone)

    return TimeField(name=name, parse=parse)
