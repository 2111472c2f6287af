"""Starts that depend on no record, and random choices that follow from the public seed."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

import numpy as np

from sfumato.learning.clustering.methods.contract import Floats, Task
from sfumato.shared.cbor import encode_deterministic
from sfumato.shared.core.quantise import STEPS
from sfumato.shared.errors import ConfigError

Centroids = tuple[tuple[float, ...], ...]
"""k centroids of d numbers each, in half widths from the centre of the box."""

STARTS: Final = ("packing", "uniform", "given")
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


def read_start(start: str, centroids: Sequence[Sequence[float]]) -> Centroids:
    """Return the centroids of a start as plain numbers: stated for ``given`` and only for it.

    Raises
    ------
    ConfigError
        The start is unknown, or has centroids that it does not use, or lacks them.
    """
    if start not in STARTS:
        raise ConfigError(
            f"must be one of {', '.join(STARTS)}", field="start", fix='write "packing"'
        )
    # As a release that was read again has them.
    given = tuple(tuple(float(value) for value in row) for row in centroids)
    if bool(given) != (start == "given"):
        raise ConfigError(
            "must be stated for the start 'given' and only for it",
            field="centroids",
            fix="give released or public centroids",
        )
    return given


def require_start(task: Task, centroids: Centroids) -> None:
    """Refuse given centroids of another shape than the task's.

    Raises
    ------
    ConfigError
        There is not one centroid for each cluster, or it has other columns.
    """
    shape = np.array(centroids).shape
    if centroids and shape != (task.n_clusters, task.n_dimensions):
        raise ConfigError(
            f"must have shape ({task.n_clusters}, {task.n_dimensions}), not {shape}",
            field="start",
            fix="give one centroid for each cluster",
        )


def place_start(task: Task, start: str, centroids: Centroids, *, purpose: str) -> Floats:
    """Place the centroids of a start: shape ``(k, d)``, steps.

    Parameters
    ----------
    purpose
        Names the random choices of a packing or of a uniform start.
    """
    k, d, rng = task.n_clusters, task.n_dimensions, make_rng(task, purpose)
    if start == "given":
        given: Floats = np.clip(np.array(centroids) * STEPS, -STEPS, STEPS)
        return given
    return place_uniformly(k, d, rng) if start == "uniform" else pack_spheres(k, d, rng)
