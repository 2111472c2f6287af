"""What a search for the number of clusters found."""

from dataclasses import dataclass

from learning.decoding.problem import Vector

__all__ = ["ClusterChoice"]


@dataclass(frozen=True, kw_only=True, eq=False)
class ClusterChoice:
    """Misfit left by each number of clusters, and the recommended number.

    Parameters
    ----------
    residuals : float64 (k_max,)
        Of the best fit of 1, 2, ..., k_max round clusters, per complex coordinate.
    noise_floors : float64 (k_max,)
        What the noise alone would leave of each.
    recommended : int
        The number of clusters to use.
    least, most : int
        Any number from the one to the other is a fair reading of the sketch.
    reaches_floor : bool
        Whether it explains all but noise.
    statement : str
        The recommendation in words.
    """

    residuals: Vector
    noise_floors: Vector
    recommended: int
    least: int
    most: int
    reaches_floor: bool
    statement: str
