"""MWEM: sensitivities by enumeration, a black-box audit, and tables that learn.

The auditor's bound on a true release exceeds its epsilon with probability at most 2e-6 over the
choice of a seed. Seeds are fixed.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sfumato.lab.generative.bins import Bins, count_boxes, draw_boxes
from sfumato.lab.generative.mwem import CellTable, MwemDesign
from sfumato.learning.clustering.methods.contract import Curator
from sfumato.shared.errors import ConfigError, DecodingError, PrivacyError
from sfumato.shared.privacy.testing import SeededSource
from tests.lab.generative.neighbours import list_neighbours, make_bins, play

RELATIONS = ["replace-one", "add-remove-one"]

Integers = NDArray[np.int64]


def make_design(kind: type[MwemDesign] = MwemDesign, **changes: Any) -> MwemDesign:
    bins = changes.get("bins", make_bins())
    usual: dict[str, Any] = {
        "bins": bins,
        "boxes": draw_boxes(bins.n_bins, 12, np.random.default_rng(0)),
        "n_rounds": 3,
        "relation": "add-remove-one",
        "epsilon": Fraction(1),
    }
    if changes.get("relation") == "replace-one":
        usual["n_records"] = 3
    return kind(**(usual | changes))


class OwnBounds(Bins):
    """Planted mistake: bounds that are read off the records."""

    def find(self, records: NDArray[np.floating]) -> Integers:
        whole = records[np.isfinite(records).all(axis=1)]
        if not len(whole):
            return np.zeros((0, self.n_dimensions), dtype=np.int64)
        width = np.ptp(whole, axis=0) + 1.0
        found = (whole - whole.min(axis=0)) * np.array(self.n_bins) // width
        bins: Integers = found.astype(np.int64)
        return bins


def find_moves(design: MwemDesign) -> tuple[int, int]:
    """Return by how much one count, and one score, can differ between neighbours."""
    rng = np.random.default_rng(1)
    tables = [rng.dirichlet(np.ones(6)).reshape(2, 3) for _ in range(3)]
    moved, scored = 0, 0
    for one, other in list_neighbours(design.relation, 2 + (design.n_records is None)):
        counts = [design.count(records) for records in (one, other)]
        moved = max(moved, int(np.abs(counts[0] - counts[1]).max()))
        for shares in tables:
            near, far = (design.score(each[:-1], shares, 3.0) for each in counts)
            scored = max(scored, int(np.abs(near - far).max()))
    return moved, scored


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_record_moves_counts_and_scores_by_what_the_noise_hides(relation: str) -> None:
    design = make_design(relation=relation)
    assert find_moves(design) == (design.noise.sensitivity_l1, design.choice.sensitivity)
    noise = design.count_noise
    assert noise is None or noise.sensitivity_l1 == 1


@pytest.mark.parametrize("relation", RELATIONS)
def test_planned_rounds_cost_what_was_asked_and_no_more_is_asked(relation: str) -> None:
    design = make_design(relation=relation)
    assert sum(planned.epsilon for planned in design.rounds) == 1
    records = np.zeros((3, 2))
    strong = make_design(relation=relation, epsilon=Fraction(200))
    answers = play(strong, records, 1)
    assert [answer.name for answer in answers] == [each.name for each in strong.rounds]
    # A design that spends more than the curator was told is stopped at its first question.
    curator = Curator(rounds=design.rounds, relation=relation, source=SeededSource(1))
    with pytest.raises(PrivacyError, match="within what was planned"):
        strong.release(records, curator)
    assert not curator.answers


def test_a_table_is_a_function_of_the_answers_and_learns_its_boxes() -> None:
    rng = np.random.default_rng(2)
    bins = make_bins((8, 8))
    records = rng.normal(2.0, 1.0, size=(20_000, 1)).round() + np.zeros((1, 2))
    design = make_design(bins=bins, boxes=draw_boxes(bins.n_bins, 60, rng), n_rounds=20)
    curator = Curator(rounds=design.rounds, relation=design.relation, source=SeededSource(3))
    table = design.release(records, curator)
    assert np.array_equal(design.read(curator.answers).shares, table.shares)
    true = count_boxes(bins.count_cells(bins.find(records)) / len(records), design.boxes)
    even = np.full(bins.n_bins, 1 / 64)
    missed = [
        np.abs(count_boxes(shares, design.boxes) - true).mean() for shares in (table.shares, even)
    ]
    assert missed[0] < 0.25 * missed[1]
    drawn = CellTable(bins=bins, shares=table.shares).draw(20_000, rng)
    found = bins.count_cells(bins.find(drawn)) / len(drawn)
    assert np.abs(found - table.shares).max() < 0.02


class SquaredScores(MwemDesign):
    """Planted mistake: squares of errors, which a record moves by more than 1."""

    def score(self, counts: Integers, shares: NDArray[np.float64], n_records: float) -> Integers:
        errors: Integers = super().score(counts, shares, n_records)
        return errors * errors


class ExactTotal(MwemDesign):
    """Planted mistake: the table is compared at the exact number of records in the fullest box."""

    def score(self, counts: Integers, shares: NDArray[np.float64], n_records: float) -> Integers:
        return super().score(counts, shares, 3.0 * counts.max())


@pytest.mark.parametrize(
    ("kind", "bins"), [(SquaredScores, Bins), (ExactTotal, Bins), (MwemDesign, OwnBounds)]
)
@pytest.mark.parametrize("relation", RELATIONS)
def test_planted_mistakes_move_more_than_the_noise_hides(
    kind: type[MwemDesign], bins: type[Bins], relation: str
) -> None:
    design = make_design(kind, relation=relation, bins=make_bins(kind=bins))
    moved, scored = find_moves(design)
    assert moved > design.noise.sensitivity_l1 or scored > design.choice.sensitivity


def test_noise_that_hides_all_records_says_so_instead_of_giving_a_table() -> None:
    weak = make_design(epsilon=Fraction(1, 100))
    with pytest.raises(DecodingError, match="noise: is so large"):
        play(weak, np.zeros((50, 2)), 1)
    # Where the number of records is public, nothing is asked before.
    public = make_design(relation="replace-one", epsilon=Fraction(1, 100))
    curator = Curator(rounds=public.rounds, relation="replace-one", source=SeededSource(1))
    with pytest.raises(DecodingError, match="fewer rounds"):
        public.release(np.zeros((3, 2)), curator)
    assert not curator.answers


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"n_rounds": 0}, "n_rounds"),
        ({"n_rounds": 13}, "n_rounds"),
        ({"boxes": np.array([[[0, 2], [1, 1]]]), "n_rounds": 1}, "boxes"),
        ({"boxes": np.array([[[0, 2], [0, 4]]]), "n_rounds": 1}, "boxes"),
        ({"n_records": 5}, "n_records"),
        ({"relation": "replace-one", "n_records": None}, "n_records"),
        ({"bins": make_bins((64,) * 4)}, "n_bins"),
    ],
)
def test_a_number_out_of_range_is_refused_by_name(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError) as refused:
        make_design(**changes)
    assert refused.value.field == field
