"""The grid of the central method: how many cells, and what they find."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from sfumato.learning.clustering.methods import grid
from sfumato.learning.clustering.methods.contract import Floats, QuantisedRecords
from sfumato.learning.clustering.methods.grid import GridMethod, limit_cells
from sfumato.shared.core.quantise import STEPS
from tests.learning.clustering.methods.replaying import make_task, play

MEANS = 9000.0 * np.array(
    [[1, 1, -1, 0.2], [-1, -1.4, 1.6, 0.3], [-1, -1, -0.6, 0.3], [1.2, 1.1, 0.6, 0.3]]
)
RARE = np.array([-3000.0, 2000.0, 0.0, -24_000.0])


def test_cells_are_limited_where_clusters_are_wide_and_never_made_more() -> None:
    limits = [
        limit_cells(5000.0, 500.0, make_task("replace-one", n_records=10_000, scale=scale))
        for scale in (0.01, 0.05, 0.1, 0.2, 0.4)
    ]
    assert limits[0] == 5000.0
    assert all(before >= after for before, after in pairwise(limits))
    assert limits[-1] < 100.0


def test_the_limit_is_where_a_record_shares_its_cell_with_twice_the_noise() -> None:
    task = make_task("replace-one", n_records=10_000, scale=0.2)
    base, wanted = 500.0, 5000.0
    m = limit_cells(wanted, base, task)
    # Two points of a round cluster of spread s differ by a normal law of variance 2 s^2.
    density = (2.0 / math.sqrt(2.0 * math.pi * 2.0 * 0.2**2)) ** 2
    shared = task.n_records / task.n_clusters * density / m
    assert shared == pytest.approx(2.0 * task.n_records / base * math.log(100.0 * wanted))


def draw_records(seed: int) -> Floats:
    """Draw four close clusters, and one of a tenth of the records far away."""
    rng = np.random.default_rng(seed)
    near = MEANS[rng.integers(4, size=9000)] + rng.normal(scale=4500.0, size=(9000, 4))
    rare = RARE + rng.normal(scale=(4500.0, 4500.0, 4500.0, 3000.0), size=(1000, 4))
    records: Floats = np.clip(np.rint(np.concatenate([near, rare])), -STEPS, STEPS)
    return records


def count_found(n_seeds: int) -> int:
    """Count the seeds whose centroids include the rare cluster."""
    n_found = 0
    for seed in range(n_seeds):
        records = QuantisedRecords(steps=draw_records(seed).astype(np.int16))
        task = make_task(
            "replace-one",
            n_records=10_000,
            n_dimensions=4,
            n_clusters=5,
            epsilon=Fraction(1, 4),
            scale=4500.0 / STEPS,
        )
        method = GridMethod()
        curator = play(method, task, records, seed=seed)
        found = method.recover(task, curator.answers, n_clusters=5, rng=np.random.default_rng(seed))
        offsets = np.linalg.norm(found.centroids - RARE, axis=1)
        n_found += bool(offsets.min() < 4500.0)
    return n_found


def test_a_rare_and_wide_cluster_is_found_and_is_not_in_cells_without_a_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert count_found(4) == 4
    monkeypatch.setattr(grid, "limit_cells", lambda wanted, base, task: wanted)
    assert count_found(4) < 4
