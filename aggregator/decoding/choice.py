"""What a search for the number of clusters found."""

from dataclasses import dataclass

from aggregator.decoding.problem import Vector

__all__ = ["ClusterChoice"]


@dataclass(frozen=True, kw_only=True, eq=False)
class ClusterChoice:
    """What each number of clusters leaves unexplained, and which one to use.

    Parameters
    ----------
    residuals : float64 (k_max,)
        Of the best fit of 1, 2, ..., k_max round clusters, per complex coordinate.
    noise_floors : float64 (k_max,)
        What the noise alone would leave of each.
    recommended : int
        The number of clusters to use.
    reaches_floor : bool
        Whether it explains all but noise.
    statement : str
        The recommendation in words.
    """

    residuals: Vector
    noise_floors: Vector
    recommended: int
    reaches_floor: bool
    statement: str
