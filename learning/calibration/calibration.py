"""Calibration of a main study from a pilot's marginals: all that its plan needs, with reasons.

All of it is post-processing of the pilot's release, so it costs no privacy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from sfumato.learning.calibration.columns import Column, calibrate_column
from sfumato.learning.calibration.reported import calibrate_reported
from sfumato.learning.calibration.strength import Refusal, judge_pilot
from sfumato.learning.decoding.solver import use_one_thread
from sfumato.learning.estimate.histogram import Marginal
from sfumato.learning.estimate.reports import ReportedMarginal
from sfumato.shared.errors import DecodingError

_WITHIN_SHARE = 0.7
"""Spread of a cluster over ``k^(-1/d)`` of the column's, from 0.58 to 0.86 in five data sets."""


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """All that a main study's specification takes from a pilot.

    Parameters
    ----------
    columns
        Every dimension of the pilot, in order.
    scale_share
        ``0.7 k^(-1/d)`` over the d kept dimensions: scale over spread.
    strength
        x of the weakest dimension.
    refusal
        Why nothing should be built on it; None if the pilot is strong enough. The columns are
        estimated in any case.
    """

    columns: tuple[Column, ...]
    scale_share: float
    strength: float
    refusal: Refusal | None

    @property
    def kept(self) -> tuple[Column, ...]:
        """The dimensions that belong in the main plan."""
        return tuple(column for column in self.columns if column.is_kept)

    def find_scale(self, column: Column) -> float:
        """Return the plan's scale of a dimension: data units, or octaves on a logarithmic scale."""
        return column.spread * self.scale_share

    @property
    def needs_wider_law(self) -> bool:
        """Whether the radius law should be one wider than the noise asks for.

        Some kept dimension was seen badly, so that its scale may be wrong by more than 2.
        """
        return any(column.codes & {"weak", "narrow"} for column in self.kept)

    @property
    def unseen_share(self) -> float:
        """The share of records below which far clusters do not show in the pilot."""
        return max(column.least_share for column in self.columns)


def share_spread(n_clusters: float, n_dimensions: int) -> float:
    """Return the share of a column's spread that lies inside one cluster: ``0.7 k^(-1/d)``.

    For shapeless data a cell of k-means has the share ``k^(-1/d)`` of the spread in each of d
    dimensions; clusters make it less. The factor 0.7 lies between: the true share was 0.86 to 1.20
    of the rule's on five sets with k from 5 to 10 and d from 4 to 10.

    Parameters
    ----------
    n_clusters, n_dimensions
        k, not always whole, and d.
    """
    share: float = _WITHIN_SHARE * n_clusters ** (-1.0 / n_dimensions)
    return share


def calibrate(
    marginals: Sequence[Marginal | ReportedMarginal], *, n_clusters: int | tuple[int, int]
) -> Calibration:
    """Calibrate a main study from the marginals of a pilot; deterministic.

    Parameters
    ----------
    marginals
        The pilot's numeric dimensions.
    n_clusters
        k, or the least and largest k that may be wanted: their geometric mean counts, for the scale
        depends on ``k^(1/d)`` alone.

    Raises
    ------
    DecodingError
        There is no dimension, or k is below 1 or descends.
    """
    if not marginals:
        raise DecodingError(
            "must have at least one number", field="marginals", fix="plan a pilot with columns"
        )
    least, most = n_clusters if isinstance(n_clusters, tuple) else (n_clusters, n_clusters)
    if not 1 <= least <= most:
        raise DecodingError(
            "must be at least 1, and ascend", field="n_clusters", fix="give the least one first"
        )
    with use_one_thread():
        columns = tuple(
            calibrate_column(marginal)
            if isinstance(marginal, Marginal)
            else calibrate_reported(marginal)
            for marginal in marginals
        )
    n_kept = max(1, sum(column.is_kept for column in columns))
    return Calibration(
        columns=columns,
        scale_share=share_spread(math.sqrt(least * most), n_kept),
        strength=min(marginal.strength for marginal in marginals),
        refusal=judge_pilot(marginals),
    )
