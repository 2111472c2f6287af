import numpy as np
import pytest
from hypothesis import given, strategies as st

from sfumato.learning.clustering.cells import CellGrid, CellNoise
from sfumato.learning.clustering.thinning import FALSE_CELLS, keep_mass

seeds = st.integers(0, 2**32 - 1)


def make_grid(*sizes: int) -> CellGrid:
    return CellGrid(sizes=sizes, lower=np.zeros(len(sizes)), upper=np.array(sizes, float))


@given(seed=seeds, n_sums=st.sampled_from((1, 40)), total=st.floats(1.0, 1e5))
def test_kept_counts_keep_their_value_and_never_exceed_the_known_total(
    seed: int, n_sums: int, total: float
) -> None:
    rng = np.random.default_rng(seed)
    grid = make_grid(9, 7)
    noise = CellNoise(law="laplace", variance=100.0, n_sums=n_sums)
    counts = np.rint(rng.poisson(rng.gamma(0.2, 200.0, 63)) + noise.draw(rng, 63))
    kept = keep_mass(grid, counts, noise, total)
    assert np.all(kept.weights > 0.0)
    assert kept.weights.sum() <= total * (1 + 1e-9)
    assert np.all(kept.density >= 0.0)
    assert kept.density.sum() == pytest.approx(kept.weights.sum())
    assert 0.0 <= kept.share <= 1.0
    assert np.all((kept.points >= 0.5) & (kept.points <= np.array(grid.sizes) - 0.5))
    if 0.0 < kept.share < 1.0:
        # Nothing but whole counts was left out.
        assert kept.share * total == pytest.approx(kept.weights.sum())


def test_noise_on_empty_cells_is_cut_off_as_often_as_stated() -> None:
    grid, rng = make_grid(40, 40), np.random.default_rng(1)
    noise = CellNoise(law="laplace", variance=2.0 * 50**2)
    n_kept = sum(
        keep_mass(grid, np.rint(noise.draw(rng, 1600)), noise, 1e4).share > 0.0 for _ in range(300)
    )
    # Cells, and the blocks of two levels.
    assert FALSE_CELLS * 300 * 0.2 < n_kept < (FALSE_CELLS + 0.02) * 300 * 2.5


def test_a_cluster_whose_cells_all_drown_is_found_as_a_block() -> None:
    grid, rng = make_grid(16, 16), np.random.default_rng(3)
    noise = CellNoise(law="laplace", variance=2.0 * 10**2)
    counts = np.rint(0.3 * noise.draw(rng, 256)).reshape(16, 16)
    counts[4:8, 8:12] += 40.0
    assert counts.max() < noise.find_limit(FALSE_CELLS / 256)
    kept = keep_mass(grid, counts.ravel(), noise, 640.0)
    assert kept.share > 0.8
    assert np.all(np.abs(kept.points - [6.0, 10.0]) <= 2.0)


def test_neighbours_of_a_strong_cell_are_kept_and_the_same_count_elsewhere_is_not() -> None:
    grid, counts = make_grid(12, 12), np.zeros((12, 12))
    noise = CellNoise(law="laplace", variance=2.0 * 10**2)
    weak = float(np.ceil(noise.find_limit(0.1)))
    counts[2, 2], counts[2, 3], counts[9, 9] = 500.0, weak, weak
    kept = keep_mass(grid, counts.ravel(), noise, 600.0).density.reshape(12, 12)
    assert kept[2, 3] == weak
    assert kept[9, 9] == 0.0


def test_exact_counts_are_all_kept_at_the_centres_of_their_cells() -> None:
    grid, counts = make_grid(4, 4), np.zeros(16)
    counts[[0, 6, 15]] = 5.0, 1.0, 2.0
    kept = keep_mass(grid, counts, CellNoise(law="laplace", variance=0.0), 8.0)
    np.testing.assert_array_equal(kept.density, counts)
    np.testing.assert_array_equal(kept.weights, [5.0, 1.0, 2.0])
    np.testing.assert_array_equal(kept.points, [[0.5, 0.5], [1.5, 2.5], [3.5, 3.5]])
    assert kept.share == 1.0


def test_without_anything_above_noise_all_counts_are_projected_on_the_simplex() -> None:
    grid, rng = make_grid(6, 6), np.random.default_rng(0)
    noise = CellNoise(law="laplace", variance=2.0 * 50**2)
    kept = keep_mass(grid, np.rint(0.5 * noise.draw(rng, 36)), noise, 300.0)
    assert kept.share == 0.0
    assert kept.weights.sum() == pytest.approx(300.0)
