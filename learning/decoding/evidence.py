"""Evidence by which an answer is judged."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from learning.decoding.problem import Vector

__all__ = ["Evidence"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Evidence:
    """Evidence by which an answer is judged.

    Parameters
    ----------
    residual_deviations : float
        How far the residual of the model that was chosen lies above what noise would leave, in
        standard deviations of that; negative below it.
    held_out : float
        Misfit on equations held out of the fit, over what noise would make it: about 1 where the
        model is true.
    disagreement, worst_disagreement : float
        Mean and largest excess of the answer's SSE over the best, were single members of the pool
        the truth.
    agreement : float
        Share of the independent starts that reached the lowest residual.
    snr_per_parameter, features_per_parameter : float
        SNR m / (k d), and m / (k d).
    spread_over_scale : float
        Median standard deviation inside a cluster over the plan's scale.
    edge_share : float
        Share of the fitted density that lies beyond the box.
    model : str
        What was chosen, in words.
    stabilities : float64 (k,)
        Share of the members that have a centroid at the same place, for each cluster.
    resolutions : float64 (k,)
        The smallest share that noise and misfit let a cluster at that place have and still be told
        from nothing.
    resolved : bool (k,)
        Whether a cluster is as heavy as that, and most members have it.
    """

    residual_deviations: float
    held_out: float
    disagreement: float
    worst_disagreement: float
    agreement: float
    snr_per_parameter: float
    features_per_parameter: float
    spread_over_scale: float
    edge_share: float
    model: str
    stabilities: Vector
    resolutions: Vector
    resolved: NDArray[np.bool_]

    @property
    def least_visible_share(self) -> float:
        """The median resolution: a cluster of fewer records, like those found, would go unseen."""
        return float(np.median(self.resolutions))
