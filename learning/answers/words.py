"""Clusters in a few words: where each lies, compared with the others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_APART = 0.7
"""Standard deviations between clusters from which a cluster is called high or low on an axis."""
_MOST = 2


def name_clusters(centroids: Floats, weights: Floats, names: Sequence[str]) -> list[str]:
    """Name for each cluster the axes on which it differs most from the mean of all records.

    Parameters
    ----------
    centroids, weights
        Shapes ``(k, d)`` and ``(k,)``.
    names
        Names of the axes; that of a level is ``column=level``.

    Returns
    -------
    list of str
        Such as "high price, low wind", "mostly kind=a", or "near the mean".
    """
    shares = weights / max(float(np.sum(weights)), np.finfo(float).tiny)
    offsets = centroids - shares @ centroids
    spreads = np.sqrt(shares @ offsets**2)
    apart = np.divide(offsets, spreads, out=np.zeros_like(offsets), where=spreads > 0.0)
    return [_describe(row, centroid, names) for row, centroid in zip(apart, centroids, strict=True)]


def _describe(apart: Floats, centroid: Floats, names: Sequence[str]) -> str:
    words: list[str] = []
    # The most distant first; of equal ones, the first axis.
    for i in np.argsort(-np.abs(apart), kind="stable").tolist():
        if abs(apart[i]) < _APART or len(words) == _MOST:
            break
        if "=" not in names[i]:
            words.append(f"{'high' if apart[i] > 0.0 else 'low'} {names[i]}")
        elif apart[i] > 0.0:
            words.append(f"{'mostly' if centroid[i] > 0.5 else 'more'} {names[i]}")
    return ", ".join(words) or "near the mean"
