"""Starts that depend on no record, and random choices that follow from the public seed."""

from __future__ import annotations

import hashlib
from typing import Final

import numpy as np

from learning.clustering.methods.contract import Floats, Task
from shared.cbor import encode_deterministic
from shared.core.quantise import STEPS

_SHRINK: Final = 1.1
_TRIES: Final = 100


def make_rng(task: Task, purpose: str) -> np.random.Generator:
    """Return a generator that follows from the public task; never for noise."""
    data = encode_deterministic({"task": task.describe(), "purpose": purpose})
    return np.random.default_rng(int.from_bytes(hashlib.sha256(data).digest(), "big"))


def pack_spheres(n_clusters: int, n_dimensions: int, rng: np.random.Generator) -> Floats:
    """Place centroids apart from each other and from the walls: shape ``(k, d)``, steps.

    Su et al. (2016), section 3: the radius a falls by a tenth until k random points at distances of
    at least 2 a from each other fit into the box that is smaller by a on each side.
    """
    radius = float(STEPS)
    while True:
        placed: list[Floats] = []
        for _ in range(n_clusters):
            for _ in range(_TRIES):
                point = rng.uniform(-(STEPS - radius), STEPS - radius, size=n_dimensions)
                if all(np.sum((point - other) ** 2) >= 4.0 * radius**2 for other in placed):
                    placed.append(point)
                    break
            else:
                break
        if len(placed) == n_clusters:
            return np.array(placed)
        radius /= _SHRINK


def place_uniformly(n_clusters: int, n_dimensions: int, rng: np.random.Generator) -> Floats:
    """Place centroids uniformly in the box: shape ``(k, d)``, steps."""
    return rng.uniform(-STEPS, STEPS, size=(n_clusters, n_dimensions))
