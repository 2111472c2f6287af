"""Means and second moments in a plan."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.shared.core import FrequencyBlocks, MomentsStatistic
from sfumato.shared.core.statistics.moments import DIAGONAL_WEIGHTS
from sfumato.shared.plan.dimensions import MOST_ONE_HOT, RecordSpace
from sfumato.shared.plan.statistics.counts import make_single_block
from sfumato.shared.privacy import MeasuredShape


@dataclass(frozen=True, kw_only=True)
class MomentsPart:
    """Means and second moments of records that are clipped to a ball.

    Parameters
    ----------
    kind
        ``moments``.
    norm_steps
        R, the radius of the ball, in 1/2047 of half the width of the bounds.
    diagonal_weight
        The weight of squares: 5 with noise that is calibrated in L2, 7 in L1. Derived from the
        mechanism.
    """

    kind: Literal["moments"] = "moments"
    norm_steps: int
    diagonal_weight: int = DIAGONAL_WEIGHTS[0]

    def require_valid(self, space: RecordSpace) -> None:
        """Check the chosen fields; raise ``PlanError`` where one breaks its rule."""
        space.require_valid(has_scale=False, most_levels=MOST_ONE_HOT)
        self.build(space, stream_id=b"", block=0)  # checks the radius

    def derive(self, space: RecordSpace, *, norm: str) -> MomentsPart:
        """Return the part with the weight of squares that suits the mechanism."""
        return replace(self, diagonal_weight=DIAGONAL_WEIGHTS[norm != "l2-squared"])

    def bound_values(self, space: RecordSpace) -> tuple[int, int]:
        """Return the bounds of the largest moments."""
        statistic = self.build(space, stream_id=b"", block=0)
        return statistic.lowest, statistic.highest

    def get_blocks(self, space: RecordSpace) -> FrequencyBlocks:
        """Return the single block of all moments."""
        return make_single_block()

    def find_places(self, space: RecordSpace) -> NDArray[np.int64]:
        """Return all moments."""
        n = self.build(space, stream_id=b"", block=0).n_coordinates
        return np.arange(n, dtype=np.int64)[None]

    def measure_shape(self, space: RecordSpace) -> MeasuredShape:
        """Return the shape of the moments."""
        statistic = self.build(space, stream_id=b"", block=0)
        return MeasuredShape.of(
            statistic,
            n_coordinates=statistic.n_coordinates,
            largest=max(statistic.highest, -statistic.lowest),
            count_unit=self.norm_steps**2,
        )

    def build(self, space: RecordSpace, *, stream_id: bytes, block: int) -> MomentsStatistic:
        """Return the statistic; it is the same in every window."""
        return MomentsStatistic(
            quantiser=space.quantiser,
            norm_steps=self.norm_steps,
            diagonal_weight=self.diagonal_weight,
            encoder=space.encoder,
        )

    def list_needed(self, space: RecordSpace) -> tuple[int, ...]:
        """Return all columns."""
        return tuple(range(space.n_dimensions))

    def find_counted(self, space: RecordSpace, *, block: int) -> tuple[slice, ...]:
        """Return none: moments do not add up to a number of records."""
        return ()

    def describe(self, space: RecordSpace) -> str:
        """Name what a sketch holds."""
        return "means and second moments of the records"
