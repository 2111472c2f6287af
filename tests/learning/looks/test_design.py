"""The design of a second look: how far its sums reach."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.learning.looks.design import FirstLook, design_look
from sfumato.shared.core.quantise import STEPS
from sfumato.shared.core.statistics.clusters import Norm
from sfumato.shared.plan import Dimension, RecordSpace


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("d", [1, 4, 25])
def test_under_one_record_in_a_hundred_of_a_gaussian_cluster_is_clipped(d: int, norm: Norm) -> None:
    """Seeded; about 0.5% of 50,000 records are clipped where most are, so 1% is 15 deviations."""
    names = [f"x{i}" for i in range(d)]
    edge = 100.0
    space = RecordSpace(
        dimensions=tuple(Dimension(name=name, unit="1", lower=-edge, upper=edge) for name in names)
    )
    first = FirstLook(centres=np.zeros((1, d)), spreads=np.ones((1, d)), scale=np.ones(d))
    part = design_look(
        space, first, assigned=names, aim="refine", norm=norm, neighbouring="replace-one"
    )
    residuals = np.random.default_rng(d).normal(size=(50_000, d)) * STEPS / edge
    lengths = np.linalg.norm(residuals / np.array(part.radii[0]), 1 if norm == "l1" else 2, axis=1)
    squares = residuals**2 @ np.array(part.weights, dtype=float)
    assert np.mean(lengths > 1.0) < 0.01
    assert np.mean(squares > part.cap) < 0.01
