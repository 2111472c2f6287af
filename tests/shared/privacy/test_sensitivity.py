import numpy as np
import pytest

from sfumato.shared.core import AMPLITUDE, GridStatistic, Quantiser, feature_table
from sfumato.shared.errors import PrivacyError
from sfumato.shared.privacy import Sensitivity, compute_sensitivity, measure_sensitivity
from sfumato.shared.privacy.polygon import GON24, compute_norm_sensitivity
from sfumato.shared.privacy.sensitivity import NEIGHBOURINGS


def test_enumeration_agrees_with_a_search_over_every_pair_of_a_coarser_table() -> None:
    coarse = feature_table()[::256]
    points = np.vstack([coarse, [[0, 0]]]).astype(np.int64)
    difference = points[:, None, :] - points[None, :, :]
    sensitivity = compute_sensitivity(coarse, measurements_per_record=3, neighbouring="replace-one")
    assert sensitivity.l1 == 3 * int(np.abs(difference).sum(axis=2).max())
    assert sensitivity.l2_squared == 3 * int((difference**2).sum(axis=2).max())


@pytest.mark.parametrize("relation", NEIGHBOURINGS)
def test_a_record_that_cannot_be_read_is_a_neighbour_and_adds_zero(relation: str) -> None:
    # Within the hull of the true table zero decides nothing. Here all rows lie on one side of it.
    table = np.array([[1000, 10], [1000, -10], [990, 0]], dtype=np.int16)
    points = np.vstack([table, [[0, 0]]]).astype(np.int64)
    changes = points if relation == "add-remove-one" else (points[:, None] - points).reshape(-1, 2)
    found = compute_norm_sensitivity(table, GON24, neighbouring=relation)
    assert found == int(GON24.norm(changes[:, 0], changes[:, 1]).max())


def test_replace_one_costs_twice_add_remove_one() -> None:
    replace = compute_sensitivity(
        feature_table(), measurements_per_record=5, neighbouring="replace-one"
    )
    remove = compute_sensitivity(
        feature_table(), measurements_per_record=5, neighbouring="add-remove-one"
    )
    assert replace.l1 == 2 * remove.l1
    assert replace.l2_squared == 4 * remove.l2_squared


def test_integers_stay_below_the_formula_and_close_to_it() -> None:
    # Seed Prop. 1 and the table of sensitivities: 2 sqrt(2) A r in L1, 2 sqrt(r) A in L2.
    found = compute_sensitivity(
        feature_table(), measurements_per_record=100, neighbouring="replace-one"
    )
    formula = 2 * 2**0.5 * AMPLITUDE * 100
    assert 0.999 * formula < found.l1 <= formula
    assert found.l2_squared <= 4 * 100 * AMPLITUDE**2


def test_a_table_without_half_turn_symmetry_is_refused() -> None:
    broken = feature_table().copy()
    broken[5] = 0
    with pytest.raises(PrivacyError, match="half a turn"):
        compute_sensitivity(broken, measurements_per_record=1, neighbouring="replace-one")


def test_a_statistic_states_its_sensitivity_under_both_relations() -> None:
    grid = GridStatistic(quantiser=Quantiser.from_bounds([0.0], [1.0]), cells=(5,))
    assert measure_sensitivity(grid, neighbouring="replace-one") == Sensitivity(l1=2, l2_squared=2)
    assert measure_sensitivity(grid, neighbouring="add-remove-one").l1 == 1
    with pytest.raises(PrivacyError, match="replace-one, add-remove-one"):
        measure_sensitivity(grid, neighbouring="both")


def test_an_unknown_relation_is_refused() -> None:
    with pytest.raises(PrivacyError, match="replace-one, add-remove-one"):
        compute_sensitivity(feature_table(), measurements_per_record=1, neighbouring="both")
