"""Interface of the statistics in a plan: what a plan computes, one part for each kind."""

from __future__ import annotations

from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.shared.core import FrequencyBlocks, Statistic
from sfumato.shared.plan.dimensions import RecordSpace
from sfumato.shared.privacy import SumShape


class StatisticPart(Protocol):
    """The part of a plan that says which integers a record adds.

    A sum over all features has coordinates ``0, 1, 2, ...``; a sketch carries one *block* of them.
    Most statistics have a single block.
    """

    @property
    def kind(self) -> str:
        """The kind's name in plans."""
        ...

    def require_valid(self, space: RecordSpace) -> None:
        """Check the fields that a person chooses, and the dimensions.

        Raises
        ------
        PlanError
            A field breaks its rule.
        """
        ...

    def derive(self, space: RecordSpace, *, norm: str) -> Self:
        """Return the part with its dependent fields.

        Parameters
        ----------
        norm
            The norm that the plan's mechanism is calibrated in; empty if there is none.
        """
        ...

    def bound_values(self, space: RecordSpace) -> tuple[int, int]:
        """Return the least, at most 0, and the largest integer that one record can add."""
        ...

    def get_blocks(self, space: RecordSpace) -> FrequencyBlocks:
        """Return the blocks, which choose what a sketch carries."""
        ...

    def find_places(self, space: RecordSpace) -> NDArray[np.int64]:
        """Return the coordinates of each block: shape ``(B, n)``."""
        ...

    def measure_shape(self, space: RecordSpace) -> SumShape:
        """Return the shape of the sum that one sketch carries."""
        ...

    def build(self, space: RecordSpace, *, stream_id: bytes, block: int) -> Statistic:
        """Return the statistic of one window; see ``SketchPlan.statistic_of``."""
        ...

    def list_needed(self, space: RecordSpace) -> tuple[int, ...]:
        """Return the numbers of the columns without which a record adds nothing."""
        ...

    def find_counted(self, space: RecordSpace, *, block: int) -> tuple[slice, ...]:
        """Return the stretches of a sketch whose counts add up to its number of records."""
        ...

    def describe(self, space: RecordSpace) -> str:
        """Name what a sketch holds, as a plural noun."""
        ...
