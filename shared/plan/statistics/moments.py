"""Means and second moments in a plan."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from sfumato.shared.core import MomentsStatistic
from sfumato.shared.core.statistics.moments import DIAGONAL_WEIGHTS
from sfumato.shared.plan.dimensions import MOST_ONE_HOT, RecordSpace
from sfumato.shared.plan.statistics.interface import StatisticPart


@dataclass(frozen=True, kw_only=True)
class MomentsPart(StatisticPart):
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

    @property
    def count_unit(self) -> int:
        """The term of a complete record in the first sum."""
        return self.norm_steps**2

    def require_valid(self, space: RecordSpace) -> None:
        """Check the chosen fields; raise ``PlanError`` where one breaks its rule."""
        space.require_valid(has_scale=False, most_levels=MOST_ONE_HOT)
        self.build(space, stream_id=b"", block=0)  # checks the radius

    def derive(self, space: RecordSpace, *, norm: str) -> MomentsPart:
        """Return the part with the weight of squares that suits the mechanism."""
        return replace(self, diagonal_weight=DIAGONAL_WEIGHTS[norm != "l2-squared"])

    def build(self, space: RecordSpace, *, stream_id: bytes, block: int) -> MomentsStatistic:
        """Return the statistic; it is the same in every window."""
        return MomentsStatistic(
            quantiser=space.quantiser,
            norm_steps=self.norm_steps,
            diagonal_weight=self.diagonal_weight,
            encoder=space.encoder,
        )

    def describe(self, space: RecordSpace) -> str:
        """Name what a sketch holds."""
        return "means and second moments of the records"
