"""Public numbers of a clustering, as its parameters state them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from sfumato.analyst.estimators.columns import read_scales
from sfumato.analyst.estimators.inputs import read_whole
from sfumato.learning.clustering.methods.contract import MOST_RECORDS, Task
from sfumato.learning.clustering.methods.starts import Centroids
from sfumato.shared.arrays import Floats
from sfumato.shared.errors import ConfigError, TableError

_MOST_CLUSTERS: Final = 10_000
LEAST_STRENGTH: Final = 0.5
"""Least ``n epsilon / k`` that a fit is tried at."""


def require_records(shape: tuple[int, ...], relation: str) -> None:
    """Refuse a table without records where their number is public.

    Raises
    ------
    TableError
        There is none.
    """
    if relation == "replace-one" and not shape[0]:
        raise TableError(
            f"has no record: 0 sample(s) (shape={shape}) while a minimum of 1 is required",
            field="X",
            fix="pass at least one",
        )


def count_public(relation: str, n_records: int, max_records: object) -> int:
    """Return the public number of records: what is there, or under add-remove-one what is stated.

    Raises
    ------
    ConfigError
        None is stated, or it is out of range.
    """
    if relation == "replace-one":
        return n_records
    if max_records is None:
        raise ConfigError(
            "is missing: under add-remove-one the number of records is secret",
            field="max_records",
            fix="state the most records that there can be, a public number",
        )
    return read_whole(max_records, "max_records", most=MOST_RECORDS, fix="give a public number")


def require_signal(task: Task) -> None:
    """Refuse clusters that the noise on any count would hide, by public numbers alone.

    Even a single count that has all of epsilon is off by ``sqrt(2) / epsilon``: nearly three times
    a cluster of ``1 / (2 epsilon)`` records. Useful answers begin at some hundred times as many.

    Raises
    ------
    ConfigError
        ``n epsilon / k`` is below 1/2; nothing was spent.
    """
    share = task.strength / task.n_clusters
    if share < LEAST_STRENGTH:
        raise ConfigError(
            f"is too little for {task.n_clusters} clusters of {task.n_records} records: the noise "
            f"on a count would be {math.sqrt(2.0) / share:.2g} times a cluster's records",
            field="epsilon",
            fix="ask for fewer clusters, give more records, or raise epsilon; nothing was spent",
        )


def read_clusters(n_clusters: object) -> int:
    """Read k."""
    return read_whole(
        n_clusters, "n_clusters", most=_MOST_CLUSTERS, fix="give a number of clusters"
    )


def read_scale(scale: Any, names: Sequence[str], half_width: Floats) -> float | None:
    """Read the spread inside a cluster over half a width, the root mean square of columns."""
    if scale is None:
        return None
    scales = np.array(read_scales(scale, names, [()] * len(names)), dtype=np.float64)
    return math.sqrt(float(np.mean((scales / half_width) ** 2)))


def read_start(start: object, lower: Floats, upper: Floats) -> tuple[str, Centroids]:
    """Return the name of a start, and given centroids in half widths from the centre of the bounds.

    Raises
    ------
    ConfigError
        It is neither a name nor finite centroids of these columns.
    """
    if isinstance(start, str) and start != "given":
        return start, ()
    try:
        points = np.asarray(start, dtype=np.float64)
    except (TypeError, ValueError):
        points = np.empty(0)
    if points.ndim != 2 or points.shape[1] != len(lower) or not np.isfinite(points).all():
        raise ConfigError(
            f"must be packing, uniform, or finite centroids of {len(lower)} columns",
            field="start",
            fix='write "packing", or give centroids that are public or released',
        )
    placed = (2.0 * points - lower - upper) / (upper - lower)
    return "given", tuple(tuple(row) for row in placed.tolist())
