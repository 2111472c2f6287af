import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st

from sfumato.learning.clustering.cells import (
    LEAST_SIZE,
    MOST_SIZE,
    CellGrid,
    CellNoise,
    choose_cells,
    choose_cells_for_noise,
    compute_laplace_tail,
)
from sfumato.shared.core import Quantiser
from sfumato.shared.core.quantise import STEPS
from sfumato.shared.core.statistics.grid import MOST_CELLS, GridStatistic
from sfumato.shared.errors import PlanError, PrivacyError
from sfumato.shared.privacy.mechanisms.gaussian import DiscreteGaussian
from sfumato.shared.privacy.mechanisms.laplace import DiscreteLaplace

ONE = Fraction(1)


@given(
    n=st.integers(1, 10**9),
    epsilon=st.fractions(Fraction(1, 10**6), 50),
    n_sums=st.integers(1, 10**6),
    d=st.integers(1, 4),
)
def test_cells_are_as_many_as_the_rule_says_within_a_row_and_the_limits(
    n: int, epsilon: Fraction, n_sums: int, d: int
) -> None:
    sizes = choose_cells(n, epsilon, "replace-one", n_sums, d)
    wanted = (n * float(epsilon) / 2 / math.sqrt(n_sums)) ** (2 * d / (d + 2))
    assert len(sizes) == d
    assert max(sizes) - min(sizes) <= 1
    assert min(sizes) >= LEAST_SIZE
    assert max(sizes) <= MOST_SIZE
    assert math.prod(sizes) <= max(LEAST_SIZE**d, min(wanted * (1 + 1e-9), MOST_CELLS))
    # One more cell in the smallest dimension would be too many.
    more = math.prod(sizes) // min(sizes) * (min(sizes) + 1)
    assert more > min(wanted * (1 - 1e-9), MOST_CELLS) or min(sizes) == MOST_SIZE


@pytest.mark.parametrize(
    ("n", "relation", "n_sums", "d", "limits"),
    [
        (0, "replace-one", 1, 2, None),
        (10, "replace-one", 0, 2, None),
        (10, "replace-one", 1, 5, None),
        (10, "replace-one", 1, 0, None),
        (10, "replace-one", 1, 2, (2,)),
        (10, "replace-one", 1, 2, (0, 4)),
        (10, "swap", 1, 2, None),
    ],
)
def test_numbers_out_of_range_are_refused(
    n: int, relation: str, n_sums: int, d: int, limits: tuple[int, ...] | None
) -> None:
    with pytest.raises((PlanError, PrivacyError)):
        choose_cells(n, ONE, relation, n_sums, d, limits)


def test_corners_of_the_box_are_in_the_cells_of_the_statistic_with_their_centres() -> None:
    sizes = (4, 3, 5)
    statistic = GridStatistic(quantiser=Quantiser.from_bounds([-1.0] * 3, [1.0] * 3), cells=sizes)
    grid = CellGrid(sizes=sizes, lower=np.full(3, -1.0), upper=np.ones(3))
    corners = np.array([[i, j, k] for i in (-1, 1) for j in (-1, 1) for k in (-1, 1)], float)
    steps = (STEPS * corners).astype(np.int16)
    cells = statistic.find_cells(steps, np.ones(8, dtype=bool))
    assert cells[0] == 0
    assert cells[-1] == grid.n_cells - 1
    assert np.all(np.abs(grid.centres[cells] - corners) <= 0.5 * grid.widths + 1e-12)


@given(seed=st.integers(0, 2**32 - 1), d=st.integers(1, 4))
def test_a_record_lies_within_half_a_cell_of_the_centre_of_its_cell(seed: int, d: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = tuple(rng.integers(1, 9, size=d).tolist())
    lower = rng.normal(size=d)
    upper = lower + rng.uniform(0.1, 9.0, size=d)
    records = rng.uniform(lower, upper, size=(50, d))
    quantiser = Quantiser.from_bounds(lower.tolist(), upper.tolist())
    statistic = GridStatistic(quantiser=quantiser, cells=sizes)
    cells = statistic.find_cells(*quantiser.quantise(records))
    grid = CellGrid(sizes=sizes, lower=lower, upper=upper)
    # Half a step of the quantiser may lie beyond.
    slack = (upper - lower) / STEPS
    assert np.all(np.abs(grid.centres[cells] - records) <= 0.5 * grid.widths + slack)


def test_the_tail_of_one_variate_is_laplaces_and_that_of_many_is_nearly_normal() -> None:
    for t in (0.0, 0.5, 3.0, 20.0):
        assert compute_laplace_tail(t, 1) == pytest.approx(0.5 * math.exp(-t))
    # Two: density (1 + |x|) exp(-|x|) / 4.
    assert compute_laplace_tail(3.0, 2) == pytest.approx(math.exp(-3.0) * (2 + 3.0) / 4)
    assert compute_laplace_tail(2 * math.sqrt(2000.0), 1000) == pytest.approx(0.02275, rel=0.01)


@pytest.mark.parametrize(("law", "n_sums"), [("laplace", 1), ("laplace", 30), ("gaussian", 5)])
def test_drawn_noise_has_the_stated_variance_and_exceeds_the_limit_as_often(
    law: str, n_sums: int
) -> None:
    noise = CellNoise(law=law, variance=50.0, n_sums=n_sums)  # type: ignore[arg-type]
    drawn = noise.draw(np.random.default_rng(0), 200_000)
    assert np.var(drawn) == pytest.approx(50.0, rel=0.03)
    assert np.mean(drawn > noise.find_limit(0.01)) == pytest.approx(0.01, rel=0.1)
    pairs = drawn[::2] + drawn[1::2]
    assert np.mean(pairs > noise.find_limit(0.01, n_cells=2)) == pytest.approx(0.01, rel=0.15)


def test_noise_is_that_of_the_mechanism_as_often_as_there_are_sums() -> None:
    laplace = DiscreteLaplace.calibrate(
        sensitivity_l1=2, epsilon=Fraction(1, 10), neighbouring="replace-one"
    )
    noise = CellNoise.of(laplace, 7)
    assert (noise.law, noise.n_sums) == ("laplace", 7)
    assert noise.variance == pytest.approx(7 * 2 * 20**2, rel=0.01)
    assert noise.scale == pytest.approx(20.0, rel=0.01)
    gaussian = DiscreteGaussian.calibrate(
        n_coordinates=10,
        sensitivity_l2_squared=2,
        epsilon=ONE,
        delta=Fraction(1, 10**6),
        neighbouring="replace-one",
    )
    assert CellNoise.of(gaussian, 3).variance == 3 * gaussian.variance


def test_secret_presence_halves_the_noise_and_four_sums_double_it() -> None:
    both = choose_cells(10_000, ONE, "replace-one", 1, 2)
    assert both == choose_cells(10_000, ONE / 2, "add-remove-one", 1, 2)
    assert both == choose_cells(10_000, 2 * ONE, "replace-one", 4, 2)
    assert both == (71, 70)


def test_the_largest_grid_is_capped() -> None:
    assert choose_cells(10**9, ONE, "add-remove-one", 1, 2) == (512, 512)
    assert choose_cells(10**9, ONE, "add-remove-one", 1, 3) == (64, 64, 64)
    assert choose_cells(10**9, ONE, "add-remove-one", 1, 4) == (23, 23, 22, 22)
    assert choose_cells(10**9, ONE, "add-remove-one", 1, 1) == (MOST_SIZE,)


def test_a_limit_leaves_its_cells_to_the_other_dimensions() -> None:
    free = choose_cells(10**4, ONE, "replace-one", 1, 3)
    limited = choose_cells(10**4, ONE, "replace-one", 1, 3, (2, MOST_SIZE, MOST_SIZE))
    assert limited[0] == 2
    assert min(limited[1:]) > max(free)
    assert math.prod(limited) <= (10**4 / 2) ** 1.2
    assert choose_cells_for_noise(10**6, 1.0, 2, (2, 3)) == (2, 3)


def test_blocks_join_neighbours_and_end_with_the_box() -> None:
    grid = CellGrid(sizes=(3, 5), lower=np.zeros(2), upper=np.ones(2))
    blocks, shape = grid.find_blocks(1)
    assert shape == (2, 3)
    np.testing.assert_array_equal(
        blocks.reshape(3, 5), [[0, 0, 1, 1, 2], [0, 0, 1, 1, 2], [3, 3, 4, 4, 5]]
    )


def test_limits_are_those_of_the_papers_threshold_and_of_the_normal_law() -> None:
    noise = CellNoise(law="laplace", variance=2.0 * 200**2)
    assert noise.find_limit(1 / (2 * 5000)) == pytest.approx(200 * math.log(5000))
    normal = CellNoise(law="gaussian", variance=9.0)
    assert normal.find_limit(0.02275, n_cells=4) == pytest.approx(12.0, rel=1e-3)
    assert CellNoise(law="laplace", variance=0.0).find_limit(0.001) == 0.0


def test_noise_of_another_law_and_numbers_out_of_range_are_refused() -> None:
    class Other:
        variance = 1.0

    with pytest.raises(PrivacyError, match="mechanism"):
        CellNoise.of(Other(), 1)  # type: ignore[arg-type]
    with pytest.raises(PrivacyError, match="variance"):
        CellNoise(law="laplace", variance=-1.0)
    with pytest.raises(PrivacyError, match="n_sums"):
        CellNoise(law="laplace", variance=1.0, n_sums=0)
