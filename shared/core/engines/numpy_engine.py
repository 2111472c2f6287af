"""The NumPy engine: the definitions, on arrays.

Features are an exact integer product in float64 and a lookup in the feature table.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from sfumato.shared.arrays import Floats, Integers
from sfumato.shared.core.features import feature_table
from sfumato.shared.core.masks import BLOCK_RECORDS, split_at_blocks
from sfumato.shared.core.records import Columns, Records, require_records
from sfumato.shared.core.statistics.fourier import FourierStatistic
from sfumato.shared.core.statistics.interface import PlainStatistic

_CHUNK_PHASES = 1 << 16
"""Phases computed at a time; they fit the second-level cache."""


@cache
def _packed_table() -> Integers:
    """(cos, sin) of each phase as ``cos 2^32 + sin``: one lookup and one sum for both."""
    table = feature_table().astype(np.int64)
    return (table[:, 0] << 32) + table[:, 1]


@dataclass(frozen=True)
class NumpyEngine:
    """The reference engine; needs only NumPy."""

    name: str = "numpy"

    def add_fourier(
        self, records: Records, statistic: FourierStatistic, *, first_record: int, sums: Integers
    ) -> int:
        """Add each record's masked features to ``sums`` in place; see ``SketchEngine``."""
        quantiser, frequencies = statistic.quantiser, statistic.frequencies
        masks = statistic.masks
        require_records(records, quantiser.n_dimensions)
        n_unsketchable = 0
        # A double holds every integer below 2^53; a phase is at most d 2^30 before it wraps.
        turns = frequencies.turns.astype(np.float64)
        for start, stop in split_at_blocks(first_record, len(records)):
            part = records[start:stop]
            rows = part.to_array() if isinstance(part, Columns) else part
            steps, sketchable = quantiser.quantise(rows)
            n_unsketchable += int(np.count_nonzero(~sketchable))
            if masks is None:
                _add_features(steps[sketchable], turns, frequencies.bits, sums)
                continue
            counter = first_record + start
            group_of_record = masks.assign_groups(counter, stop - start)
            group_of_record[~sketchable] = -1
            for group, features in enumerate(masks.permute_features(counter // BLOCK_RECORDS)):
                members = steps[group_of_record == group]
                of_group = np.zeros(2 * features.size, dtype=np.int64)
                _add_features(members, turns[:, features], frequencies.bits, of_group)
                sums[features] += of_group[: features.size]
                sums[features + frequencies.n_frequencies] += of_group[features.size :]
        return n_unsketchable

    def add(self, records: Records, statistic: PlainStatistic, *, sums: Integers) -> int:
        """Add what each record adds; see ``SketchEngine``."""
        return statistic.sum_records(records, sums)


def _add_features(steps: NDArray[np.int16], turns: Floats, bits: int, sums: Integers) -> None:
    """Add the features of quantised records to ``sums`` of shape ``(2 m,)``."""
    table = _packed_table()
    m = turns.shape[1]
    # At most 2^16 records a chunk: sums of sines stay within 2^30, inside their half of the word.
    rows = max(1, _CHUNK_PHASES // m)
    for start in range(0, len(steps), rows):
        product = steps[start : start + rows].astype(np.float64) @ turns
        phase = (product.astype(np.int64) >> (bits - 16)) & 0xFFFF
        packed = np.take(table, phase).sum(axis=0)
        sine = ((packed & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000
        sums[:m] += (packed - sine) >> 32
        sums[m:] += sine
