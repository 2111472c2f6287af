"""Private k-means by max cover, for many clusters in many columns."""

from __future__ import annotations

import math

import numpy as np

from sfumato.analyst.estimators.clustering import ClusteringEstimator
from sfumato.analyst.estimators.declaration import estimator
from sfumato.analyst.estimators.inputs import Exact, read_number, read_whole
from sfumato.learning.clustering.methods.cover import CoverMethod
from sfumato.shared.arrays import Floats
from sfumato.shared.core.quantise import STEPS
from sfumato.shared.errors import ConfigError


@estimator
class CoverKMeans(ClusteringEstimator):
    """k-means from points that cover many records, for many clusters in many columns.

    Records are projected on few dimensions; grid points that cover many of them are chosen one
    after the other, by exact exponential choice, and what they cover leaves; noisy votes weigh the
    points; two rounds average the clusters in all columns under Gaussian noise (Nguyen, Chaturvedi
    and Xu 2021, with exact accounting of all stages together). For up to 20 clusters of up to 10
    columns :class:`CompressiveKMeans` is the better choice.

    Parameters
    ----------
    epsilon, delta
        The guarantee: texts such as ``"0.1"`` or ``"1/10"``, integers, fractions, or floats, which
        stand for their decimal text. Delta must be above 0.
    scale
        Not used: the averages are of whole records.
    radius
        Longest distance of a record from the centre of the bounds, data units, where all columns
        have equally wide bounds; records further away are shortened. Public knowledge: the noise is
        in proportion to it. None for the corner of the bounds.
    n_projected
        Dimensions of the cover; None for half the logarithm of the number of records.
    cover_share, votes_share
        Shares of epsilon; the averages take what the joint cost leaves.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato import CoverKMeans
    >>> rng = np.random.default_rng(0)
    >>> records = rng.normal(size=(20_000, 2)) + rng.choice([-6.0, 6.0], size=(20_000, 1))
    >>> found = CoverKMeans(2, epsilon="2", delta="1e-6", bounds=(-12, 12)).fit(records)
    >>> sorted(found.cluster_centers_[:, 0].round().astype(int).tolist())
    [-6, 6]
    """

    radius: Exact | None = None
    n_projected: int | None = None
    cover_share: Exact = "0.4"
    votes_share: Exact = "0.1"

    def _make_method(self, lower: Floats, upper: Floats) -> CoverMethod:
        radius = 0
        if self.radius is not None:
            half = (upper - lower) / 2.0
            stated = float(read_number(self.radius, "radius"))
            if not np.all(half == half[0]) or not stated > 0.0:
                raise ConfigError(
                    "must be positive, and the bounds of all columns equally wide",
                    field="radius",
                    fix="leave it out, or state wider bounds for some columns",
                )
            corner = math.isqrt(half.size * STEPS * STEPS)
            radius = min(max(1, math.floor(stated / float(half[0]) * STEPS)), corner)
        n_projected = 0
        if self.n_projected is not None:
            n_projected = read_whole(self.n_projected, "n_projected", most=64, fix="leave it out")
        return CoverMethod(
            radius=radius,
            n_projected=n_projected,
            cover_share=read_number(self.cover_share, "cover_share"),
            votes_share=read_number(self.votes_share, "votes_share"),
        )
