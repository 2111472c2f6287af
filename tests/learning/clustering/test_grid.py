from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sfumato.learning.clustering.cells import CellNoise, choose_cells
from sfumato.learning.clustering.grid import GridProblem, GridSolver
from sfumato.learning.clustering.grid_verdict import GridEvidence, judge_grid, warn_of_grid
from sfumato.shared.core import Quantiser, SketchAccumulator
from sfumato.shared.core.statistics.grid import GridStatistic
from sfumato.shared.errors import DecodingCancelledError, DecodingError
from sfumato.shared.privacy.mechanisms.laplace import DiscreteLaplace
from sfumato.shared.privacy.testing import SeededSource

MEANS = np.array([[-5.0, -4.0], [5.0, -5.0], [0.0, 6.0]])
BOX = 10.0
SOLVER = GridSolver(n_redraws=3)


def draw_records(n: int, seed: int) -> NDArray[np.float64]:
    rng = np.random.default_rng(seed)
    return MEANS[rng.choice(3, size=n, p=(0.5, 0.3, 0.2))] + rng.normal(size=(n, 2))


def count(records: NDArray[np.float64], cells: tuple[int, ...]) -> NDArray[np.int64]:
    quantiser = Quantiser.from_bounds([-BOX] * 2, [BOX] * 2)
    accumulator = SketchAccumulator(GridStatistic(quantiser=quantiser, cells=cells))
    accumulator.add(records)
    return accumulator.sums


def pose(records: NDArray[np.float64], epsilon: Fraction, n_sums: int, seed: int) -> GridProblem:
    cells = choose_cells(len(records), epsilon, "replace-one", n_sums, 2)
    law = DiscreteLaplace.calibrate(sensitivity_l1=2, epsilon=epsilon, neighbouring="replace-one")
    source = SeededSource(seed)
    counts = sum(
        law.add_noise(count(part, cells), source) for part in np.array_split(records, n_sums)
    )
    return GridProblem(
        counts=np.asarray(counts),
        cells=cells,
        lower=np.full(2, -BOX),
        upper=np.full(2, BOX),
        unit=np.full(2, BOX),
        noise=CellNoise.of(law, n_sums),
        n_records=float(len(records)),
        n_clusters=3,
    )


def test_centroids_shares_and_spreads_are_recovered_from_one_sum() -> None:
    problem = pose(draw_records(20_000, 0), Fraction(1), 1, 0)
    found = SOLVER.solve(problem, rng=np.random.default_rng(0))
    np.testing.assert_allclose(found.centroids, MEANS, atol=0.1)
    np.testing.assert_allclose(found.weights, (0.5, 0.3, 0.2), atol=0.02)
    assert found.spreads is not None
    np.testing.assert_allclose(found.spreads, 1.0, atol=0.2)
    assert found.verdict is not None
    assert found.verdict.word == "sound"
    assert found.succeeded
    assert found.warnings == ()
    assert found.solver == "grid/1"


def test_noise_alone_gives_no_usable_answer() -> None:
    problem = pose(draw_records(200, 2), Fraction(1, 100), 1, 2)
    found = SOLVER.solve(problem, rng=np.random.default_rng(0))
    assert not found.succeeded
    assert found.verdict is not None
    assert found.verdict.word == "do not use"
    assert found.warnings[0].startswith("no count can be told from noise")
    assert np.all(np.isfinite(found.centroids))
    assert np.all(np.abs(found.centroids) <= BOX)


def test_another_unit_of_a_dimension_gives_the_same_answer_in_that_unit() -> None:
    problem = pose(draw_records(5000, 6), Fraction(1), 1, 6)
    factors = np.array([1000.0, 0.01])
    scaled = replace(
        problem,
        lower=problem.lower * factors,
        upper=problem.upper * factors,
        unit=problem.unit * factors,
    )
    one = SOLVER.solve(problem, rng=np.random.default_rng(0))
    two = SOLVER.solve(scaled, rng=np.random.default_rng(0))
    np.testing.assert_allclose(two.centroids, one.centroids * factors, rtol=1e-9)


def test_records_with_a_missing_value_are_in_no_cluster_and_reported() -> None:
    records = draw_records(10_000, 7)
    records[:3000, 0] = np.nan
    problem = pose(records, Fraction(2), 1, 7)
    assert problem.n_located == pytest.approx(7000, abs=50)
    found = SOLVER.solve(problem, rng=np.random.default_rng(0))
    np.testing.assert_allclose(found.centroids, MEANS, atol=0.2)
    assert any("missing value" in text for text in found.warnings)


def test_a_solve_reports_progress_and_can_be_cancelled() -> None:
    problem = pose(draw_records(500, 8), Fraction(1), 1, 8)
    seen: list[float] = []
    SOLVER.solve(problem, rng=np.random.default_rng(0), progress=seen.append)
    assert seen[-1] == 1.0
    assert seen == sorted(seen)
    with pytest.raises(DecodingCancelledError):
        SOLVER.solve(problem, rng=np.random.default_rng(0), cancelled=lambda: True)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("counts", np.zeros(5, dtype=np.int64)),
        ("lower", np.zeros(3)),
        ("lower", np.full(2, 11.0)),
        ("unit", np.array([1.0, 0.0])),
        ("n_records", 0.0),
        ("n_clusters", 0),
        ("n_clusters", 10**6),
    ],
)
def test_a_problem_that_does_not_fit_together_is_refused(field: str, value: Any) -> None:
    problem = pose(draw_records(100, 9), Fraction(1), 1, 9)
    with pytest.raises(DecodingError, match=field):
        replace(problem, **{field: value})


GOOD = GridEvidence(
    kept_share=0.98,
    redraw_excess=0.001,
    worst_redraw_excess=0.002,
    cell_over_spread=0.7,
    agreement=0.8,
    n_points=300,
    n_empty=0,
    missing_share=0.0,
    n_clusters=5,
)


def test_sums_of_many_devices_add_up_and_so_does_their_noise() -> None:
    problem = pose(draw_records(40_000, 1), Fraction(1), 20, 1)
    found = SOLVER.solve(problem, rng=np.random.default_rng(0))
    np.testing.assert_allclose(found.centroids, MEANS, atol=0.2)
    assert problem.noise.n_sums == 20


def test_cells_wider_than_clusters_are_not_called_sound() -> None:
    records = draw_records(20_000, 3)
    problem = replace(
        pose(records, Fraction(10), 1, 3), cells=(3, 3), counts=count(records, (3, 3))
    )
    found = SOLVER.solve(problem, rng=np.random.default_rng(0))
    assert found.verdict is not None
    assert found.verdict.word in ("doubtful", "do not use")
    assert "wide as clusters" in found.verdict.sentence
    assert any("wide as clusters" in text for text in found.warnings)


def test_the_order_of_records_and_their_division_do_not_matter_before_noise() -> None:
    records = draw_records(500, 4)
    shuffled = np.random.default_rng(0).permutation(records)
    parts = sum(count(part, (9, 8)) for part in np.array_split(shuffled, 7))
    np.testing.assert_array_equal(count(records, (9, 8)), parts)


def test_the_answer_is_a_function_of_the_problem_and_the_generator() -> None:
    problem = pose(draw_records(3000, 5), Fraction(1), 1, 5)
    one, two = (SOLVER.solve(problem, rng=np.random.default_rng(9)) for _ in range(2))
    np.testing.assert_array_equal(one.centroids, two.centroids)
    assert one.verdict == two.verdict


def test_a_setting_out_of_range_is_refused() -> None:
    with pytest.raises(DecodingError, match="n_replicates"):
        GridSolver(n_replicates=0)


def test_worse_evidence_never_gives_a_lower_band() -> None:
    good = judge_grid(GOOD)
    assert good.word == "sound"
    assert warn_of_grid(GOOD) == ()
    for worse in (
        replace(GOOD, redraw_excess=0.3, worst_redraw_excess=0.5),
        replace(GOOD, cell_over_spread=3.2),
        replace(GOOD, kept_share=0.1),
        replace(GOOD, n_empty=2),
    ):
        verdict = judge_grid(worse)
        assert verdict.high > good.high
        assert verdict.word in ("doubtful", "do not use")
        assert len(verdict.sentence) > 20
