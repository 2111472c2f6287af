"""Result of a search for the number of clusters."""

from dataclasses import dataclass

from sfumato.learning.decoding.problem import Vector

__all__ = ["Caution", "ClusterChoice"]


@dataclass(frozen=True, kw_only=True, eq=False)
class ClusterChoice:
    """Residual of each number of clusters, and the recommended number.

    Parameters
    ----------
    residuals : float64 (k_max,)
        Residual of the best fit of 1, 2, ..., k_max round clusters, per complex coordinate.
    noise_floors : float64 (k_max,)
        The residual that noise alone would leave.
    recommended : int
        The number of clusters to use.
    least, most : int
        Range of numbers that are a fair reading of the sketch.
    reaches_floor : bool
        Whether the recommended number explains everything except noise.
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


@dataclass(frozen=True, kw_only=True, eq=False)
class Caution:
    """Expected SSE and agreement by number of clusters.

    Parameters
    ----------
    counts : tuple of int
        Numbers of clusters, rising.
    sses : tuple of float
        Expected mean squared distance to the nearest centroid, over that to the mean; distances in
        the plan's scales.
    agreements : tuple of float
        Mean adjusted Rand index between clusters from two halves of the draws, on common samples.
    """

    counts: tuple[int, ...]
    sses: tuple[float, ...]
    agreements: tuple[float, ...]
