"""The NumPy engine: the definitions, on arrays.

Features are an exact integer product in float64 and a lookup in the feature table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from sfumato.shared.core.features import feature_table
from sfumato.shared.core.masks import BLOCK_RECORDS, split_at_blocks
from sfumato.shared.core.quantise import Quantiser
from sfumato.shared.core.records import Columns, Records, require_records
from sfumato.shared.core.statistics.clusters import ClustersStatistic
from sfumato.shared.core.statistics.fourier import FourierStatistic
from sfumato.shared.core.statistics.grid import GridStatistic
from sfumato.shared.core.statistics.histogram import HistogramStatistic
from sfumato.shared.core.statistics.moments import MomentsStatistic

_CHUNK_PHASES = 1 << 16
"""Phases computed at a time; they fit the second-level cache."""


@cache
def _packed_table() -> NDArray[np.int64]:
    """(cos, sin) of each phase as ``cos 2^32 + sin``: one lookup and one sum for both."""
    table = feature_table().astype(np.int64)
    return (table[:, 0] << 32) + table[:, 1]


@dataclass(frozen=True)
class NumpyEngine:
    """The reference engine; needs only NumPy."""

    name: str = "numpy"

    def add_fourier(
        self,
        records: Records,
        statistic: FourierStatistic,
        *,
        first_record: int,
        sums: NDArray[np.int64],
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

    def add_histogram(
        self, records: Records, statistic: HistogramStatistic, *, sums: NDArray[np.int64]
    ) -> None:
        """Count each record in a bin of each carried dimension; see ``SketchEngine``."""
        require_records(records, statistic.n_dimensions)
        for start, stop in split_at_blocks(0, len(records)):
            part = records[start:stop]
            columns = part.columns if isinstance(part, Columns) else part.T
            for dimension, place in statistic.bins.items():
                bins = statistic.find_bins(columns[dimension], dimension)
                sums[place] += np.bincount(bins, minlength=statistic.count_bins(dimension))

    def add_grid(
        self, records: Records, statistic: GridStatistic, *, sums: NDArray[np.int64]
    ) -> None:
        """Count each record in its cell; see ``SketchEngine``."""
        for steps, sketchable in _quantise_parts(records, statistic.quantiser):
            cells = statistic.find_cells(steps, sketchable)
            sums += np.bincount(cells, minlength=statistic.n_coordinates)

    def add_moments(
        self, records: Records, statistic: MomentsStatistic, *, sums: NDArray[np.int64]
    ) -> int:
        """Add the moments of each record; see ``SketchEngine``."""
        d, n_unsketchable = statistic.n_dimensions, 0
        upper = np.triu_indices(d)
        for steps, sketchable in _quantise_parts(records, statistic.quantiser):
            u = statistic.clip(steps[sketchable])
            n_unsketchable += len(steps) - len(u)
            sums[0] += statistic.constant * len(u)
            sums[1 : 1 + d] += statistic.mean_weight * u.sum(axis=0)
            # Exact: at most 2^16 products below 2^22.
            exact = u.astype(np.float64)
            products = (exact.T @ exact)[upper].astype(np.int64)
            sums[1 + d :] += statistic.product_weights * products
        return n_unsketchable

    def add_clusters(
        self, records: Records, statistic: ClustersStatistic, *, sums: NDArray[np.int64]
    ) -> int:
        """Add each record to its cluster; see ``SketchEngine``."""
        n_unusable = 0
        for rows in _list_parts(records, statistic.quantiser):
            steps, present = statistic.quantiser.quantise_values(rows)
            n_unusable += statistic.sum_steps(steps, present, sums)
        return n_unusable


def _quantise_parts(
    records: Records, quantiser: Quantiser
) -> Iterator[tuple[NDArray[np.int16], NDArray[np.bool_]]]:
    return map(quantiser.quantise, _list_parts(records, quantiser))


def _list_parts(records: Records, quantiser: Quantiser) -> Iterator[NDArray[np.floating]]:
    require_records(records, quantiser.n_dimensions)
    for start, stop in split_at_blocks(0, len(records)):
        part = records[start:stop]
        yield part.to_array() if isinstance(part, Columns) else part


def _add_features(
    steps: NDArray[np.int16], turns: NDArray[np.float64], bits: int, sums: NDArray[np.int64]
) -> None:
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
