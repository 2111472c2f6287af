"""Evidence for the verdict on an answer."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.decoding.problem import Vector

__all__ = ["Evidence"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Evidence:
    """Evidence for the verdict on an answer.

    Parameters
    ----------
    residual_deviations : float
        Distance of the chosen model's residual above the noise floor, in standard deviations of
        that floor; negative below it.
    held_out : float
        Misfit on equations held out of the fit, over its expectation from noise: about 1 where the
        model is true.
    disagreement, worst_disagreement : float
        Mean and largest excess of the answer's SSE over the best, taking single members of the pool
        for the truth.
    agreement : float
        Share of the independent starts that reached the lowest residual.
    snr_per_parameter, features_per_parameter : float
        SNR m / (k d), and m / (k d). Where features differ in noise, the SNR is by precision, and
        the second m counts features of much noise as less than one.
    spread_over_scale : float
        Median standard deviation inside a cluster over the plan's scale.
    far_share : float
        Smallest share of a cluster like those found, or of records that a failed sensor moves, that
        would have been seen far from all others in one column, or at a corner of the plan's box.
    hidden_share : float
        Largest share of such a cluster, wherever it is, that the misfit leaves room for.
    slow_deviations : float
        Distance of the misfit of the slow frequencies above what noise leaves, in standard
        deviations: far clusters cause it, and the shape of near ones does not.
    reach : float
        Squared distance from the nearest centroid to the farthest bound of a column, over the SSE
        of one record: a missed share s adds up to s times this to the relative SSE.
    edge_share : float
        Share of the fitted density that lies beyond the box.
    kurtosis : float
        Fourth moment of the fitted density over its squared variance, along the axis where it is
        largest; 3 for one normal. 0 where isolated clusters alone cause it, or there is no number.
    tail_axis : int
        That axis, from 0 on.
    model : str
        The chosen model, in words.
    stabilities : float64 (k,)
        Share of the members with a centroid at the same place, for each cluster.
    resolutions : float64 (k,)
        Smallest share at which a cluster at that place is distinct from noise and misfit.
    resolved : bool (k,)
        Whether a cluster reaches its resolution, and most members have it.
    """

    residual_deviations: float
    held_out: float
    disagreement: float
    worst_disagreement: float
    agreement: float
    snr_per_parameter: float
    features_per_parameter: float
    spread_over_scale: float
    far_share: float
    hidden_share: float
    slow_deviations: float
    reach: float
    edge_share: float
    kurtosis: float
    tail_axis: int
    model: str
    stabilities: Vector
    resolutions: Vector
    resolved: NDArray[np.bool_]

    @property
    def least_visible_share(self) -> float:
        """The median resolution: a cluster like those found, with fewer records, is invisible."""
        return float(np.median(self.resolutions))
