"""The tree of pairs: sensitivities by enumeration, a black-box audit, and trees that are found.

The auditor's bound on a true release exceeds its epsilon with probability at most 2e-6 over the
choice of a seed. Seeds are fixed.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sfumato.lab.generative.bins import Bins
from sfumato.lab.generative.pair_tree import PairTree, PairTreeDesign
from sfumato.learning.clustering.methods.contract import Curator
from sfumato.shared.errors import ConfigError, DecodingError
from sfumato.shared.privacy.mechanisms.laplace import DiscreteLaplace
from sfumato.shared.privacy.selection import PermuteAndFlip
from sfumato.shared.privacy.testing import SeededSource
from tests.lab.generative.neighbours import list_neighbours, make_bins, play

RELATIONS = ["replace-one", "add-remove-one"]


def make_design(kind: type[PairTreeDesign] = PairTreeDesign, **changes: Any) -> PairTreeDesign:
    usual: dict[str, Any] = {
        "bins": make_bins(),
        "relation": "add-remove-one",
        "epsilon": Fraction(1),
    }
    return kind(**(usual | changes))


class OwnMargins(PairTreeDesign):
    """Planted mistake: independence judged by the exact histograms."""

    def score(self, counts: NDArray[np.int64], columns: Any) -> NDArray[np.int64]:
        exact = self.cut_columns(np.diagonal(counts).copy())
        return super().score(counts, [each.astype(np.float64) + 1e-9 for each in exact])


def find_moves(design: PairTreeDesign) -> tuple[int, int, int]:
    """Return by how much histograms, a score, and the table of a pair can differ, in L1."""
    released = [np.array([0.7, 2.3]), np.array([1.0, 1.5, 0.5])]
    moved = [0, 0, 0]
    for one, other in list_neighbours(design.relation):
        counts = [design.count(design.bins.find(records)) for records in (one, other)]
        apart = counts[0] - counts[1]
        scores = [design.score(each, released) for each in counts]
        found = (
            np.abs(np.diagonal(apart)).sum(),
            np.abs(scores[0] - scores[1]).max(),
            np.abs(design.cut_table(apart, (0, 1))).sum(),
        )
        moved = [max(most, int(each)) for most, each in zip(moved, found, strict=True)]
    return moved[0], moved[1], moved[2]


def list_stated(design: PairTreeDesign) -> tuple[int, int, int]:
    return (
        design.column_noise.sensitivity_l1,
        design.choice.sensitivity,
        design.pair_noise.sensitivity_l1 // design.n_pairs,
    )


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_record_moves_tables_and_scores_by_what_the_noise_hides(relation: str) -> None:
    design = make_design(relation=relation)
    assert find_moves(design) == list_stated(design)


def test_a_record_is_in_one_cell_of_each_table_of_the_tree() -> None:
    design = make_design(bins=make_bins((2, 2, 2, 2)), relation="replace-one")
    near, far = np.zeros((1, 4)), np.ones((1, 4))
    apart = design.count(design.bins.find(near)) - design.count(design.bins.find(far))
    tables = [design.cut_table(apart, pair) for pair in ((0, 1), (1, 2), (2, 3))]
    assert sum(int(np.abs(table).sum()) for table in tables) == design.pair_noise.sensitivity_l1
    assert int(np.abs(np.diagonal(apart)).sum()) == design.column_noise.sensitivity_l1


@pytest.mark.parametrize("n_columns", [1, 2, 5])
def test_planned_rounds_cost_what_was_asked(n_columns: int) -> None:
    design = make_design(bins=make_bins((3,) * n_columns))
    assert sum(planned.epsilon for planned in design.rounds) == 1
    answers = play(design, np.zeros((500, n_columns)), 1)
    assert [answer.name for answer in answers] == [each.name for each in design.rounds]


def draw_chain(rng: np.random.Generator, n: int) -> NDArray[np.float64]:
    """Draw columns 2, 0, 1, 3 of which each mostly repeats the one before."""
    found = np.zeros((n, 4))
    before = rng.integers(0, 4, n)
    for column in (2, 0, 1, 3):
        found[:, column] = before
        before = np.where(rng.random(n) < 0.2, rng.integers(0, 4, n), before)
    return found


def test_a_chain_is_found_and_its_records_are_drawn() -> None:
    rng = np.random.default_rng(4)
    records = draw_chain(rng, 30_000)
    design = make_design(bins=make_bins((4,) * 4), epsilon=Fraction(2))
    curator = Curator(rounds=design.rounds, relation=design.relation, source=SeededSource(1))
    tree = design.release(records, curator)
    assert isinstance(tree, PairTree)
    edges = {frozenset((i, j)) for i, j in tree.order if j is not None}
    assert edges == {frozenset((0, 2)), frozenset((0, 1)), frozenset((1, 3))}
    again = design.read(curator.answers)
    assert all(np.array_equal(a, b) for a, b in zip(tree.shares, again.shares, strict=True))
    drawn = design.bins.find(tree.draw(30_000, rng))
    real = design.bins.find(records)
    assert np.abs(design.count(drawn) - design.count(real)).max() < 0.02 * len(real)


class OneColumn(PairTreeDesign):
    """Planted mistake: histograms counted as if a record were in one of them."""

    @property
    def column_noise(self) -> DiscreteLaplace:
        return self._calibrate(1, self.rounds[0])


class StillScore(PairTreeDesign):
    """Planted mistake: a score that a replaced record moves by 1 only."""

    @property
    def choice(self) -> PermuteAndFlip:
        return PermuteAndFlip.calibrate(
            sensitivity=1, epsilon=self.rounds[1].epsilon, neighbouring=self.relation
        )


@pytest.mark.parametrize(
    ("kind", "relation"),
    [
        (OneColumn, "replace-one"),
        (OneColumn, "add-remove-one"),
        (StillScore, "replace-one"),
        (OwnMargins, "add-remove-one"),
    ],
)
def test_planted_mistakes_move_more_than_the_noise_hides(
    kind: type[PairTreeDesign], relation: str
) -> None:
    design = make_design(kind, relation=relation)
    moved = zip(find_moves(design), list_stated(design), strict=True)
    assert any(most > stated for most, stated in moved)


def test_empty_bins_and_constant_columns_do_not_matter() -> None:
    rng = np.random.default_rng(5)
    records = np.column_stack([rng.integers(0, 2, 5000), np.zeros(5000), rng.integers(0, 2, 5000)])
    design = make_design(bins=make_bins((8, 8, 8)), epsilon=Fraction(5))
    curator = Curator(rounds=design.rounds, relation=design.relation, source=SeededSource(1))
    drawn = design.bins.find(design.release(records, curator).draw(5000, rng))
    assert np.mean(drawn[:, 1] == 0) > 0.98
    assert np.mean(drawn[:, 0] < 2) > 0.98


def test_noise_that_hides_all_records_says_so_instead_of_giving_a_tree() -> None:
    with pytest.raises(DecodingError, match="cannot be told from none"):
        play(make_design(epsilon=Fraction(1, 1000)), np.zeros((20, 2)), 1)


def test_too_many_bins_are_refused() -> None:
    bins = Bins(lower=np.zeros(3), upper=np.ones(3), n_bins=(4096,) * 3)
    with pytest.raises(ConfigError, match="n_bins: must be 8192 in all columns"):
        make_design(bins=bins)
