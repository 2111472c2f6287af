"""Masks: the r of m features that a record adds to, without the cost of drawing them singly.

Definition 3 of the seed paper makes every record's mask uniform over the r-subsets. Here the
features of a block of records are permuted and cut into m / r groups, and every record is assigned
one group, independently and uniformly. Each mask is then uniform, and each feature of a group sums
the records of that group in one dense block.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sfumato.shared.arrays import Integers
from sfumato.shared.core.seeds import draw_bytes
from sfumato.shared.errors import PlanError

BLOCK_RECORDS = 1 << 16
"""Records that share one permutation. Fixed by format version 1."""

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


def mix(key: int, index: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return word number ``index`` of SplitMix64 started at ``key``, modulo 2^64.

    Counter-based: a record's counter alone gives its mask. Masks are public and protect nothing;
    they only have to be spread evenly and be independent of the data.
    """
    z = np.uint64(key) + (index + np.uint64(1)) * _GOLDEN
    z = (z ^ (z >> np.uint64(30))) * _FIRST
    z = (z ^ (z >> np.uint64(27))) * _SECOND
    return z ^ (z >> np.uint64(31))


@dataclass(frozen=True, kw_only=True)
class MaskSchedule:
    """The masks of one stream, as a function of its mask seed and the record counter.

    Parameters
    ----------
    n_frequencies, measurements_per_record
        m and r; r divides m.
    assignment_key, permutation_key
        Integers below 2^64.
    """

    n_frequencies: int
    measurements_per_record: int
    assignment_key: int
    permutation_key: int

    def __post_init__(self) -> None:
        m, r = self.n_frequencies, self.measurements_per_record
        if not 1 <= r <= m or m % r:
            raise PlanError(
                f"must be a divisor of n_frequencies ({m}) and is {r}",
                field="measurements_per_record",
                fix="choose a divisor, or change n_frequencies to a multiple",
            )

    @classmethod
    def from_seed(
        cls, seed: bytes, stream_id: bytes, *, n_frequencies: int, measurements_per_record: int
    ) -> MaskSchedule:
        """Derive the schedule of one stream from the plan's seed.

        ``stream_id`` names the device and its stream. Streams must not share masks: the masks'
        error would then be the same in each, and would not average out.
        """
        keys = draw_bytes(seed, f"masks/{stream_id.hex()}", 16)
        return cls(
            n_frequencies=n_frequencies,
            measurements_per_record=measurements_per_record,
            assignment_key=int.from_bytes(keys[:8], "little"),
            permutation_key=int.from_bytes(keys[8:], "little"),
        )

    @property
    def n_groups(self) -> int:
        """Groups of features, m / r."""
        return self.n_frequencies // self.measurements_per_record

    def assign_groups(self, first_record: int, count: int) -> Integers:
        """Return the group of each of ``count`` records from counter ``first_record`` on.

        Shape ``(count,)``, int64, below :attr:`n_groups`: the high word of a 64-bit by 64-bit
        product, which differs from uniform by less than ``n_groups / 2^64``.
        """
        counters = np.uint64(first_record) + np.arange(count, dtype=np.uint64)
        words = mix(self.assignment_key, counters)
        n_groups = np.uint64(self.n_groups)
        high, low = words >> np.uint64(32), words & np.uint64(0xFFFFFFFF)
        carry = (low * n_groups) >> np.uint64(32)
        return ((high * n_groups + carry) >> np.uint64(32)).astype(np.int64)

    def permute_features(self, block: int) -> Integers:
        """Return the groups of a block: shape ``(n_groups, r)``, int64, feature numbers.

        Feature numbers are sorted by one 64-bit word each; equal words keep their order.
        """
        return _permute(self, block)


@lru_cache(maxsize=8)
def _permute(schedule: MaskSchedule, block: int) -> Integers:
    m = schedule.n_frequencies
    index = np.uint64(block) * np.uint64(m) + np.arange(m, dtype=np.uint64)
    order = np.argsort(mix(schedule.permutation_key, index), kind="stable")
    groups = order.reshape(schedule.n_groups, schedule.measurements_per_record)
    groups.setflags(write=False)
    return groups


def split_at_blocks(first_record: int, n_records: int) -> Iterator[tuple[int, int]]:
    """Yield ``(start, stop)`` of the parts of some records, cut at the blocks of the masks.

    Engines cut there even without masks, which bounds their working memory.
    """
    start = 0
    while start < n_records:
        to_next_block = BLOCK_RECORDS - (first_record + start) % BLOCK_RECORDS
        stop = min(n_records, start + to_next_block)
        yield start, stop
        start = stop
