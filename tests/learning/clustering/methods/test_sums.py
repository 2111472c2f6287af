"""How many rounds of sums follow a start, and what they are good for."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from sfumato.learning.clustering.methods.candidates import CandidateMethod
from sfumato.learning.clustering.methods.contract import Method, QuantisedRecords
from sfumato.learning.clustering.methods.grid import GridMethod
from sfumato.learning.clustering.methods.sums import choose_rounds
from sfumato.shared.core.quantise import STEPS
from tests.learning.clustering.methods.replaying import make_task, play


def test_less_noise_leaves_room_for_more_rounds_and_more_clusters_for_fewer() -> None:
    found = [
        choose_rounds(make_task("replace-one", n_records=n, n_clusters=10))
        for n in (100, 10_000, 30_000, 100_000, 10**7)
    ]
    assert all(before <= after for before, after in pairwise(found))
    assert (found[0], found[-1]) == (1, 5)
    few, many = (
        choose_rounds(make_task("replace-one", n_records=30_000, n_clusters=k)) for k in (3, 60)
    )
    assert few > many


@pytest.mark.parametrize("kind", [GridMethod, CandidateMethod])
def test_where_noise_is_weak_rounds_mend_a_start_from_wide_cells(
    kind: type[GridMethod | CandidateMethod],
) -> None:
    # Ten clusters in ten columns, a tenth of half the box wide: cells are three times as wide.
    rng = np.random.default_rng(3)
    spread = STEPS / 10
    means = rng.normal(scale=1.9 * spread, size=(10, 10))
    drawn = means[rng.integers(10, size=20_000)] + rng.normal(scale=spread, size=(20_000, 10))
    steps = np.rint(np.clip(drawn, -STEPS, STEPS)).astype(np.int64)
    task = make_task(
        "replace-one",
        n_records=20_000,
        n_dimensions=10,
        n_clusters=10,
        epsilon=Fraction(10),
        scale=0.1,
    )

    def measure(method: Method) -> float:
        curator = play(method, task, QuantisedRecords(steps=steps.astype(np.int16)))
        found = method.recover(
            task, curator.answers, n_clusters=10, rng=np.random.default_rng(0)
        ).centroids
        squares = np.stack([((steps - centroid) ** 2).sum(axis=1) for centroid in found])
        return float(squares.min(axis=0).mean())

    assert measure(kind()) < 0.95 * measure(kind(n_rounds=1))
