"""The rows that a dry run shows its owner: as the source spells them, and as they were read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.shared.arrays import Floats
from sfumato.shared.reading import RecordTable

N_FIRST, N_BAD = 5, 2
_MOST_CHARACTERS = 32


@dataclass(frozen=True, kw_only=True)
class ShownRow:
    """One record, for the owner's eyes alone.

    Parameters
    ----------
    place
        The number of its line or row.
    texts
        What the source holds for each dimension.
    time_text
        What it holds for the time; None where that is not known.
    values
        Shape ``(d,)``, the plan's units; NaN where a value cannot be used.
    timestamp
        Seconds since 1970-01-01 UTC; NaN when unreadable or when the source has no times.
    """

    place: int
    texts: tuple[str, ...]
    time_text: str | None
    values: tuple[float, ...]
    timestamp: float


class RowKeeper:
    """Keeps the first records of a source, and the first ones that cannot be used.

    Parameters
    ----------
    has_times
        Whether a record without a readable time counts as one that cannot be used.
    """

    def __init__(self, *, has_times: bool) -> None:
        self._has_times = has_times
        self._first: list[ShownRow] = []
        self._bad: list[ShownRow] = []

    @property
    def rows(self) -> tuple[ShownRow, ...]:
        """At most ``N_FIRST`` rows, in order; the last of them give way to bad ones behind them."""
        behind = [row for row in self._bad if row.place > self._last_place]
        return (*self._first[: N_FIRST - len(behind)], *behind)

    @property
    def _last_place(self) -> int:
        return self._first[-1].place if self._first else 0

    def add(
        self,
        raw: Floats,
        values: Floats,
        table: RecordTable,
        places: Sequence[int],
        read_texts: Callable[[int], Sequence[str] | None] | None,
    ) -> None:
        """Note the rows to show among some records.

        Parameters
        ----------
        raw, values
            Shape ``(n, d)``: in the source's units, and in the plan's.
        table
            The records: their times, and which of them are wanted.
        places
            Length n.
        read_texts
            Returns the fields of record ``i``, values and time in order, or None if it cannot be
            split into fields; None where the source holds no text.
        """
        timestamps, chosen = table.timestamps, table.chosen
        wanted = np.arange(len(values)) if chosen is None else np.flatnonzero(chosen)
        for i in wanted[: N_FIRST - len(self._first)].tolist():
            self._first.append(_make_row(i, raw, values, timestamps, places, read_texts))
        bad = np.isnan(values).any(axis=1)
        if self._has_times:
            bad |= np.isnan(timestamps)
        if chosen is not None:
            bad &= chosen
        for i in np.flatnonzero(bad)[: N_FIRST + N_BAD].tolist():
            if places[i] > self._last_place and len(self._bad) < N_BAD:
                self._bad.append(_make_row(i, raw, values, timestamps, places, read_texts))


def _make_row(
    i: int,
    raw: Floats,
    values: Floats,
    timestamps: Floats,
    places: Sequence[int],
    read_texts: Callable[[int], Sequence[str] | None] | None,
) -> ShownRow:
    n_values = values.shape[1]
    texts: Sequence[str] = ["" if np.isnan(x) else f"{x:.10g}" for x in raw[i].tolist()]
    time_text = None
    if read_texts is not None:
        found = read_texts(i)
        texts = [""] * n_values if found is None else found[:n_values]
        time_text = found[n_values] if found is not None and len(found) > n_values else ""
    return ShownRow(
        place=places[i],
        texts=tuple(_to_printable(text) for text in texts),
        time_text=None if time_text is None else _to_printable(time_text),
        values=tuple(values[i].tolist()),
        timestamp=float(timestamps[i]),
    )


def _to_printable(text: str) -> str:
    """Return a text that a terminal takes for nothing else."""
    text = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text.strip())
    return text if len(text) <= _MOST_CHARACTERS else f"{text[: _MOST_CHARACTERS - 3]}..."
