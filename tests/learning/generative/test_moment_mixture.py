"""Moments of parts: exact sums, sensitivities that hold, and Gaussians that fit."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray

from sfumato.learning.clustering.methods.contract import Curator
from sfumato.learning.generative.moment_mixture import BASIS_STEPS, MomentDesign
from sfumato.shared.core import SketchAccumulator
from sfumato.shared.errors import ConfigError, PrivacyError
from sfumato.shared.privacy.accounting import convert_concentrated
from sfumato.shared.privacy.testing import SeededSource

D, R, K = 4, 2, 3
SEEDS = st.integers(0, 2**32 - 1)


def make_design(**changes: Any) -> MomentDesign:
    usual: dict[str, Any] = {
        "lower": np.zeros(D),
        "upper": np.full(D, 2.0),
        "origin": "centre",
        "norm": 1.25,
        "n_parts": K,
        "n_directions": R,
        "relation": "add-remove-one",
        "epsilon": Fraction(1),
        "delta": Fraction(1, 10**6),
    }
    return MomentDesign(**(usual | changes))


def draw_basis(rng: np.random.Generator) -> NDArray[np.int64]:
    directions, _ = np.linalg.qr(rng.normal(size=(D, R)))
    basis: NDArray[np.int64] = np.trunc(directions * BASIS_STEPS).astype(np.int64)
    return basis


def draw_records(rng: np.random.Generator, n: int) -> NDArray[np.float64]:
    """Records inside, at and far outside of the bounds; some lack a value."""
    records: NDArray[np.float64] = rng.normal(1.0, 1.5, size=(n, D)) * rng.choice(
        [1.0, 1e6], size=(n, 1), p=[0.8, 0.2]
    )
    records[rng.random((n, D)) < 0.05] = np.nan
    return records


@given(SEEDS, st.sampled_from(["centre", "lower"]))
def test_the_sums_of_records_are_those_that_the_statistic_defines(seed: int, origin: str) -> None:
    records = draw_records(np.random.default_rng(seed), 30)
    design = make_design(origin=origin)
    steps, _ = design.clip(records)
    expected = SketchAccumulator(design.records_statistic)
    expected.add(records)
    assert design.sum_records(steps).tolist() == expected.sums.tolist()


@given(SEEDS)
def test_what_a_record_adds_to_its_part_depends_on_no_other_record(seed: int) -> None:
    rng = np.random.default_rng(seed)
    design, basis = make_design(), draw_basis(rng)
    steps, whole = design.clip(draw_records(rng, 40))
    parts = rng.integers(-1, K, size=40)[whole]
    together = design.sum_parts(steps, basis, parts)
    alone = sum(
        design.sum_parts(steps[i : i + 1], basis, parts[i : i + 1]) for i in range(len(steps))
    )
    assert together.tolist() == np.asarray(alone).tolist()


@given(SEEDS)
def test_sums_of_neighbours_are_no_further_apart_than_the_noise_counts_with(seed: int) -> None:
    rng = np.random.default_rng(seed)
    basis = draw_basis(rng)
    pair, _ = make_design().clip(np.nan_to_num(draw_records(rng, 2), nan=0.5))
    parts = rng.integers(0, K, size=2)
    for relation, is_one in (("add-remove-one", True), ("replace-one", False)):
        design = make_design(relation=relation)
        first, second = (
            [design.sum_records(pair[i : i + 1]) for i in range(2)],
            [design.sum_parts(pair[i : i + 1], basis, parts[i : i + 1]) for i in range(2)],
        )
        for sums, noise in ((first, design.basis_noise), (second, design.parts_noise)):
            apart = sums[0] if is_one else sums[0] - sums[1]
            squared = sum(int(x) ** 2 for x in apart.ravel())
            assert squared <= noise.sensitivity_l2_squared


def test_the_bound_is_nearly_reached_where_a_replaced_record_changes_its_part() -> None:
    design = make_design(
        relation="replace-one", lower=np.zeros(1), upper=np.ones(1), n_directions=1
    )
    basis = np.array([[BASIS_STEPS]])
    steps, _ = design.clip(np.array([[1.0], [1.0]]))
    sums = [design.sum_parts(steps[:1], basis, np.array([part])) for part in (0, 1)]
    squared = sum(int(x) ** 2 for x in (sums[0] - sums[1]).ravel())
    bound = design.parts_noise.sensitivity_l2_squared
    assert 0.5 * bound < squared <= bound
    # Counted as if it stayed in its part, it would not be hidden.
    assert squared > design.parts_statistic.measure_l2_squared("add-remove-one")


def test_both_releases_together_cost_what_was_asked_at_most() -> None:
    design = make_design()
    basis, parts = design.rounds
    assert basis.rho is not None
    assert parts.rho is not None
    together = convert_concentrated(basis.rho + parts.rho, design.delta)
    assert Fraction(999, 1000) < together <= design.epsilon
    assert float(basis.rho / (basis.rho + parts.rho)) == pytest.approx(0.3)
    for noise, planned in ((design.basis_noise, basis), (design.parts_noise, parts)):
        assert noise.guarantee.rho is not None
        assert planned.rho is not None
        assert noise.guarantee.rho <= planned.rho


def test_gaussians_of_many_records_are_those_of_the_parts() -> None:
    rng = np.random.default_rng(3)
    n = 60_000
    parts = rng.integers(0, 2, size=n)
    centres = np.array([[0.6, 0.6, 1.0, 1.0], [1.4, 1.4, 1.0, 1.0]])
    records = centres[parts] + rng.normal(size=(n, D)) * [0.1, 0.1, 0.02, 0.02]
    design = make_design(n_parts=3, n_directions=D)
    curator = Curator(rounds=design.rounds, relation=design.relation, source=SeededSource(1))
    model = design.read(design.release(records, parts, curator))
    # The third part has no record: noise alone, which is taken for nothing.
    assert model.sizes[2] == 0.0
    assert np.allclose(model.sizes[:2], np.bincount(parts), rtol=0.02)
    drawn, of = model.draw(40_000, np.random.default_rng(0))
    for part in range(2):
        found, real = drawn[of == part], records[parts == part]
        assert np.allclose(found.mean(axis=0), real.mean(axis=0), atol=0.01)
        assert np.allclose(found.std(axis=0)[:2], real.std(axis=0)[:2], rtol=0.15)
    assert not (of == 2).any()
    assert drawn.min() >= 0.0
    assert drawn.max() <= 2.0


def test_a_curator_is_asked_two_questions_and_each_within_its_plan() -> None:
    design = make_design()
    curator = Curator(rounds=design.rounds[:1], relation=design.relation, source=SeededSource(1))
    with pytest.raises(PrivacyError, match="all were asked"):
        design.release(np.ones((5, D)), np.zeros(5, dtype=np.intp), curator)
    # Noise of a smaller epsilon's plan is more than enough, and that of a larger is not.
    dear = make_design(epsilon=Fraction(2))
    curator = Curator(rounds=design.rounds, relation=design.relation, source=SeededSource(1))
    with pytest.raises(PrivacyError, match="within what was planned"):
        dear.release(np.ones((5, D)), np.zeros(5, dtype=np.intp), curator)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"n_parts": 0}, "n_parts"),
        ({"n_directions": D + 1}, "n_directions"),
        ({"origin": "median"}, "origin"),
        ({"norm": 0.0}, "norm"),
        ({"norm": float("nan")}, "norm"),
    ],
)
def test_a_number_out_of_range_is_refused_by_name(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError) as refused:
        make_design(**changes)
    assert refused.value.field == field
