"""Interface of the statistics in a plan: what a plan computes, one part for each kind."""

from __future__ import annotations

from typing import Self, cast

import numpy as np

from sfumato.shared.arrays import Integers
from sfumato.shared.core import FrequencyBlocks, Statistic
from sfumato.shared.core.seeds import SEED_BYTES
from sfumato.shared.plan.dimensions import RecordSpace
from sfumato.shared.privacy import MeasuredShape, SumShape
from sfumato.shared.privacy.sensitivity import MeasuredStatistic

SINGLE_BLOCK = FrequencyBlocks(
    # Blocks need no secret and no choice here: the same permutation serves all plans.
    seed=bytes(SEED_BYTES),
    n_frequencies=1,
    frequencies_per_sketch=1,
)
"""The blocks of a sum that every sketch carries whole."""


class StatisticPart:
    """The part of a plan that says which integers a record adds.

    A sum over all features has coordinates ``0, 1, 2, ...``; a sketch carries one *block* of them.
    Most statistics have a single block. The methods that are written here suit most statistics.
    """

    kind: str
    """The kind's name in plans."""

    @property
    def count_unit(self) -> int:
        """Factor of a number of records that is released after the sum."""
        return 1

    def require_valid(self, space: RecordSpace) -> None:
        """Check the fields that a person chooses, and the dimensions.

        Raises
        ------
        PlanError
            A field breaks its rule.
        """
        raise NotImplementedError

    def derive(self, space: RecordSpace, *, norm: str) -> Self:
        """Return the part with its dependent fields.

        Parameters
        ----------
        norm
            The norm that the plan's mechanism is calibrated in; empty if there is none.
        """
        return self

    def bound_values(self, space: RecordSpace) -> tuple[int, int]:
        """Return the least, at most 0, and the largest integer that one record can add."""
        statistic = self.build(space, stream_id=b"", block=0)
        return statistic.lowest, statistic.highest

    def get_blocks(self, space: RecordSpace) -> FrequencyBlocks:
        """Return the blocks, which choose what a sketch carries."""
        return SINGLE_BLOCK

    def find_places(self, space: RecordSpace) -> Integers:
        """Return the coordinates of each block: shape ``(B, n)``.

        One block after the other: each sketch has totals of its own, where there are any.
        """
        n_blocks = self.get_blocks(space).n_blocks
        size = self.build(space, stream_id=b"", block=0).n_coordinates
        return np.arange(n_blocks * size, dtype=np.int64).reshape(n_blocks, size)

    def measure_shape(self, space: RecordSpace) -> SumShape:
        """Return the shape of the sum that one sketch carries."""
        statistic = self.build(space, stream_id=b"", block=0)
        return MeasuredShape.of(
            # Fourier features are measured by their polygon, and all others by the statistic.
            cast(MeasuredStatistic, statistic),
            n_coordinates=statistic.n_coordinates,
            largest=max(statistic.highest, -statistic.lowest),
            count_unit=self.count_unit,
        )

    def build(self, space: RecordSpace, *, stream_id: bytes, block: int) -> Statistic:
        """Return the statistic of one window; see ``SketchPlan.statistic_of``."""
        raise NotImplementedError

    def list_needed(self, space: RecordSpace) -> tuple[int, ...]:
        """Return the numbers of the columns without which a record adds nothing."""
        return tuple(range(space.n_dimensions))

    def find_counted(self, space: RecordSpace, *, block: int) -> tuple[slice, ...]:
        """Return the stretches of a sketch whose counts add up to its number of records."""
        return ()

    def describe(self, space: RecordSpace) -> str:
        """Name what a sketch holds, as a plural noun."""
        raise NotImplementedError
