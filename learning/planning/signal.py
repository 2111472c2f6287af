"""Signal energy to expect before any data exist: from the radius law, k and d."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sfumato.shared.core import Quantiser, RadiusLaw, draw_frequencies
from sfumato.shared.core.seeds import SEED_BYTES

SEPARATION: Final = 1.5
"""Standard deviation of cluster centres in scales, for k = 1; it grows as ``k^(1/d)``."""
_SAMPLE = 2000
_MOST_DIMENSIONS = 64
"""Norms of frequencies depend on d under one law alone, and hardly beyond."""


@lru_cache(maxsize=1024)
def expect_signal_energy(law: RadiusLaw, *, n_clusters: int, n_dimensions: int) -> float:
    """Return ``|z|^2``, the mean over frequencies of the squared modulus of the features' mean.

    ``|z|^2 = E exp(-u^2) (1/k + (1 - 1/k) exp(-(s u)^2))`` over ``u = w |omega|``, with w the scale
    and ``s = 1.5 k^(1/d)``: k round clusters of the stated scale and equal weights, whose centres
    have standard deviation ``s w`` in each dimension. Then there is about as much room for each,
    whatever their number. Clusters that are further apart have less energy, but not below
    ``E exp(-u^2) / k``; closer or elongated ones have more.

    Parameters
    ----------
    law
        The law of the frequencies.
    n_clusters, n_dimensions
        k and d.
    """
    norms = _draw_norms(law, min(n_dimensions, _MOST_DIMENSIONS))
    share = 1.0 / n_clusters
    spread = SEPARATION * n_clusters ** (1.0 / n_dimensions)
    within, between = np.exp(-(norms**2)), np.exp(-((spread * norms) ** 2))
    return float(np.mean(within * (share + (1.0 - share) * between)))


@lru_cache(maxsize=256)
def _draw_norms(law: RadiusLaw, n_dimensions: int) -> NDArray[np.float64]:
    """Draw norms of frequencies in units of one over the scale: the same ones each time."""
    quantiser = Quantiser.from_bounds([-1.0] * n_dimensions, [1.0] * n_dimensions)
    frequencies = draw_frequencies(
        bytes(SEED_BYTES),
        n_frequencies=_SAMPLE,
        law=law,
        quantiser=quantiser,
        scale=np.ones(n_dimensions),
    )
    norms: NDArray[np.float64] = np.linalg.norm(frequencies.to_angular(quantiser), axis=0)
    return norms
