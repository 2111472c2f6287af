import numpy as np
import pytest
from hypothesis import given, strategies as st

from sfumato.learning.decoding.density import Posterior
from sfumato.learning.decoding.mixture.choice import choose_counts, compare_labels, compute_caution
from sfumato.learning.decoding.solver import Monitor


def make_posterior(centres: np.ndarray, jitter: float) -> Posterior:
    """Return 16 draws of round clusters whose centres differ by a jitter."""
    n, (k, d) = 16, centres.shape
    moves = np.random.default_rng(0).normal(0.0, jitter, size=(n, k, d))
    return Posterior(
        shares=np.full(n, 1.0 / n),
        draw_of=np.repeat(np.arange(n), k),
        weights=np.full(n * k, 1.0 / k),
        means=(centres + moves).reshape(n * k, d),
        roots=np.tile(np.eye(d), (n * k, 1, 1)),
        lower=np.full(d, -50.0),
        upper=np.full(d, 50.0),
        doubt=0.0,
        held_out=1.0,
        is_trusted=True,
    )


THREE = np.array([[-12.0, 0.0], [12.0, 0.0], [0.0, 20.0]])


def test_the_sse_falls_until_the_clusters_are_found_and_halves_agree_there() -> None:
    found = compute_caution(
        make_posterior(THREE, 0.1),
        [1, 2, 3, 4, 5],
        unit=np.ones(2),
        rng=np.random.default_rng(1),
        monitor=Monitor(),
    )
    assert found.counts == (1, 2, 3, 4, 5)
    assert found.sses[0] == pytest.approx(1.0, abs=0.01)
    assert all(b <= 1.01 * a for a, b in zip(found.sses, found.sses[1:], strict=False))
    assert found.sses[2] < 0.1 * found.sses[1]
    assert found.agreements[2] > 0.98
    # A fourth cluster cuts a round one, anywhere.
    assert found.agreements[4] < found.agreements[2]


def test_distances_are_measured_in_the_unit() -> None:
    posterior = make_posterior(THREE, 0.0)
    found = [
        compute_caution(
            posterior, [2], unit=unit, rng=np.random.default_rng(1), monitor=Monitor()
        ).sses[0]
        for unit in (np.ones(2), np.array([1.0, 1000.0]))
    ]
    # Without the second dimension two of the three clusters are told apart along the first.
    assert found[1] < found[0]


@given(chosen=st.integers(1, 200), most=st.integers(1, 200))
def test_the_numbers_looked_at_hold_the_chosen_one_and_are_few(chosen: int, most: int) -> None:
    counts = choose_counts(chosen, max(chosen, most))
    assert chosen in counts
    assert len(counts) <= 11
    assert counts[0] >= 1
    assert counts[-1] <= max(chosen, most)


@given(labels=st.lists(st.integers(0, 3), min_size=2, max_size=60), shift=st.integers(0, 3))
def test_the_names_of_clusters_do_not_matter(labels: list[int], shift: int) -> None:
    first = np.array(labels)
    assert compare_labels(first, (first + shift) % 4, 4) == pytest.approx(1.0)


def test_unrelated_labels_agree_as_little_as_chance() -> None:
    rng = np.random.default_rng(0)
    pairs = [(rng.integers(0, 4, size=500), rng.integers(0, 4, size=500)) for _ in range(40)]
    scores = [compare_labels(first, second, 4) for first, second in pairs]
    assert abs(float(np.mean(scores))) < 0.005


def test_the_index_of_a_cut_cluster_is_known() -> None:
    assert compare_labels(np.array([0, 0, 1, 2]), np.array([0, 0, 1, 1]), 3) == pytest.approx(4 / 7)
