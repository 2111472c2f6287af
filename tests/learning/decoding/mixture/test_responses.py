import numpy as np
import pytest
from hypothesis import given, strategies as st

from sfumato.learning.decoding.mixture.ellipsoids import Ellipsoids
from sfumato.learning.decoding.mixture.pool import Clusters, Member
from sfumato.learning.decoding.mixture.responses import (
    choose_evenly,
    draw_balanced,
    measure_spreads,
    respond,
)
from sfumato.learning.decoding.solver import Monitor

CENTRES = np.array([[-5.0, 0.0], [5.0, 1.0]])


def member_of(centres: np.ndarray, share: float) -> Member:
    atoms = Ellipsoids(
        centres=centres,
        logs=np.zeros(centres.shape),
        slants=np.zeros((2, 2, 2)),
        weights=np.array([0.6, 0.4]),
    )
    return Member(atoms=atoms, share=share)


ANSWER = Clusters(
    centroids=CENTRES,
    shares=np.array([0.6, 0.4]),
    spreads=np.ones((2, 2)),
    witnesses=(),
    edge_share=0.0,
)
FAR = np.full(2, 50.0)


@given(n=st.integers(2, 60), d=st.integers(1, 8), seed=st.integers(0, 99))
def test_common_points_have_no_mean_and_the_covariance_of_the_normal(
    n: int, d: int, seed: int
) -> None:
    points = draw_balanced(n, d, np.random.default_rng(seed))
    assert np.mean(points, axis=0) == pytest.approx(0.0, abs=1e-12)
    if len(points) > 4 * d:
        assert points.T @ points / len(points) == pytest.approx(np.eye(d), abs=1e-6)


def test_a_centroid_follows_the_atom_that_it_stands_on_without_chance() -> None:
    moves = np.array([[[0.3, 0.0], [0.0, 0.0]], [[-0.3, 0.0], [0.0, 0.0]]])
    members = [member_of(CENTRES + move, 0.5) for move in moves]
    found = respond(
        members,
        ANSWER,
        lower=-FAR,
        upper=FAR,
        rng=np.random.default_rng(0),
        monitor=Monitor(),
    )
    assert found.centroids == pytest.approx(CENTRES + moves, abs=1e-5)
    assert found.shares == pytest.approx(np.tile([0.6, 0.4], (2, 1)))
    centroids, shares = measure_spreads(ANSWER, found)
    assert centroids == pytest.approx(np.array([[0.3, 0.0], [0.0, 0.0]]), abs=1e-5)
    assert shares == pytest.approx(0.0, abs=1e-9)


def test_mass_beyond_the_box_stands_on_it() -> None:
    found = respond(
        [member_of(CENTRES, 1.0)],
        ANSWER,
        lower=np.array([-5.0, -50.0]),
        upper=FAR,
        rng=np.random.default_rng(0),
        monitor=Monitor(),
    )
    # Half of the first cluster lies beyond the bound: the mean of max(0, g) is 1 / sqrt(2 pi).
    assert found.centroids[0, 0, 0] == pytest.approx(-5.0 + 1.0 / np.sqrt(2.0 * np.pi), abs=0.01)


@given(shares=st.lists(st.floats(0.01, 1.0), min_size=1, max_size=60), n=st.integers(1, 40))
def test_members_are_chosen_by_their_shares(shares: list[float], n: int) -> None:
    total = sum(shares)
    members = [member_of(CENTRES, share / total) for share in shares]
    chosen = choose_evenly(members, n)
    assert len(chosen) <= max(n, 1)
    assert sum(member.share for member in chosen) == pytest.approx(1.0)
    if max(shares) / total < 1.0 / n:
        assert len(chosen) == min(n, len(members))
