"""The seed paper's synthetic data: mixtures of round Gaussian clusters.

    x ~ (1/k) sum_i N(mu_i, I_d),    mu_i ~ N(0, (1.5 k^(1/d))^2 I_d)

Schellekens et al., ICASSP 2019, section 5. The scale within a cluster is 1 by construction.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SPREAD = 1.0
"""Standard deviation within a cluster, per dimension."""


def draw_mixture(
    n_dimensions: int, n_clusters: int, n_records: int, seed: int
) -> tuple[Floats, Floats]:
    """Draw means of shape ``(k, d)`` and records of shape ``(n, d)``, the same for a same seed."""
    rng = np.random.default_rng((seed, n_dimensions, n_clusters))
    width = 1.5 * n_clusters ** (1.0 / n_dimensions)
    means = rng.normal(0.0, width, size=(n_clusters, n_dimensions))
    records = rng.normal(0.0, SPREAD, size=(n_records, n_dimensions))
    records += means[rng.integers(n_clusters, size=n_records)]
    return means, records


def public_half_width(n_dimensions: int) -> float:
    """Half width of the public box: fixed, never read off the data.

    Means have standard deviation 4.7 per dimension at (d, k) = (2, 10), and at most 3.8 at the
    other sizes that are measured.
    """
    return 25.0 if n_dimensions < 5 else 20.0
