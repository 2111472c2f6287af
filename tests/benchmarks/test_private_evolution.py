"""PE-means: its noise is that of all rounds together, and its votes find clusters."""

from fractions import Fraction

import numpy as np
import pytest

from benchmarks.private_evolution import PrivateEvolution, count_votes, draw_levy
from sfumato.shared.privacy.mechanisms.gaussian import find_joint_rho

METHOD = PrivateEvolution(
    n_records=4000,
    n_dimensions=4,
    n_clusters=3,
    epsilon=Fraction(2),
    delta=Fraction(1, 10**5),
)


def test_all_rounds_together_cost_what_is_allowed() -> None:
    rho = METHOD.n_rounds / (2.0 * METHOD.deviation**2)
    assert METHOD.n_rounds == 16
    assert rho == pytest.approx(float(find_joint_rho(METHOD.epsilon, METHOD.delta)))


def test_a_record_votes_once_for_the_nearest_candidate() -> None:
    points = np.array([[0.1, 0.0], [0.2, 0.1], [0.9, 0.9]], dtype=np.float32)
    candidates = np.array([[0.0, 0.0], [1.0, 1.0], [-1.0, -1.0]])
    assert count_votes(points, candidates).tolist() == [2, 1, 0]


def test_steps_are_heavy_tailed() -> None:
    steps = np.abs(draw_levy(np.random.default_rng(0), (100_000,)))
    # A stable law of exponent 1.5: beyond ten times the distance the share falls to 10^-1.5.
    far, farther = (np.mean(steps > limit) for limit in (10.0, 100.0))
    assert farther / far == pytest.approx(10**-1.5, rel=0.5)


def test_votes_find_clusters() -> None:
    rng = np.random.default_rng(1)
    means = np.array([[-6.0] * 4, [0.0] * 4, [6.0, -6.0, 6.0, -6.0]])
    records = means[rng.integers(3, size=4000)] + rng.normal(size=(4000, 4))
    found = METHOD.fit(records, -12.0, 12.0, seed=0)
    away = np.linalg.norm(found[:, None] - means, axis=2)
    assert sorted(np.argmin(away, axis=0)) == [0, 1, 2]
    assert away.min(axis=0).max() < 1.0
