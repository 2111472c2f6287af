"""Words about a size never contradict whether there is a difference."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st

from sfumato.learning.insight.comparison import Comparison
from sfumato.learning.insight.devices import DeviceReport
from sfumato.learning.insight.groups import GroupComparison, GroupPair, compare_pairs
from sfumato.learning.insight.sizes import describe_size, find_largest, is_hidden, show_size
from tests.learning.insight.drawing import (
    MIXTURE,
    Fleet,
    make_examination,
    make_model,
    make_plan,
)

SIZES = st.floats(0.0, 3.0)
ERRORS = st.floats(1e-6, 3.0)


@given(SIZES, ERRORS)
def test_a_difference_that_is_certain_is_never_said_to_be_nothing(
    size: float, error: float
) -> None:
    words = describe_size(size, error, is_certain=True)
    assert "0.00 scales" not in words
    assert "noise alone" not in words
    # A figure is given as an estimate only where noise does not hide it.
    assert ("moved by" in words) == (size > 1.0 or (not is_hidden(size, error) and size >= 0.005))


@given(SIZES, ERRORS)
def test_a_size_that_may_be_noise_says_so_however_large(size: float, error: float) -> None:
    assert describe_size(size, error, is_certain=False).endswith("which noise alone may make")


@given(SIZES, ERRORS)
def test_the_largest_size_that_fits_is_within_two_errors(size: float, error: float) -> None:
    assert size < find_largest(size, error) <= size + 2.0 * error + 1e-9


@pytest.mark.parametrize(
    ("size", "error", "certain", "uncertain"),
    [
        (0.27, 0.05, "as if every record had moved by 0.27 scales (error 0.05)", "0.27 scales"),
        (
            *(0.0, 0.37),
            "by less than about 0.52 scales: clusters move, grow or spread, while noise hides",
            "0.00 scales (error 0.37), which noise alone may make",
        ),
        (
            0.37,
            0.4,
            "by some amount: clusters move",
            "0.37 scales (error 0.40), which noise alone may",
        ),
        (0.004, 0.001, "by less than 0.01 scales", "less than 0.01 scales, which noise"),
        (2.0, 0.1, "as if every record had moved by more than 1 scale", "more than 1 scale"),
        (0.0, 2.0, "by some amount: clusters move", "0.00 scales (error 2.00)"),
    ],
)
def test_sizes_in_words(size: float, error: float, certain: str, uncertain: str) -> None:
    assert describe_size(size, error, is_certain=True).startswith(certain)
    assert describe_size(size, error, is_certain=False).startswith(uncertain)
    assert show_size(size, error).split(" (")[0] in uncertain


def make_comparison(size: float, error: float, p: float) -> Comparison:
    return Comparison(
        first="north",
        second="south",
        size=size,
        size_error=error,
        p=p,
        p_all=0.5,
        p_moved=p,
        p_single=p,
        changes=(),
        n_draws=1999,
        level=0.05,
        smallest_shift=0.1,
        assumptions=(),
    )


def test_a_comparison_names_a_size_by_its_certainty() -> None:
    hidden = make_comparison(0.0, 0.1, 1e-3)
    assert hidden.describe()[0].startswith("size: by less than about 0.14 scales")
    noise = make_comparison(0.37, 0.4, 0.4)
    assert noise.describe()[0] == "size: 0.37 scales (error 0.40), which noise alone may make"


def test_groups_that_differ_by_what_noise_hides_say_so() -> None:
    pair = GroupPair(first=0, second=1, comparison=make_comparison(0.0, 0.1, 1e-3), p=1e-3)
    lines = GroupComparison(
        label="site",
        values=("north", "south"),
        n_records=(500, 500),
        n_sketches=(1, 1),
        pairs=(pair,),
        places=np.zeros((2, 2)),
        share_shown=1.0,
        tree=(),
        assumptions=(),
    ).describe()
    assert any("north and south differ by less than about 0.14 scales" in line for line in lines)
    assert any("1 of 1 pairs differ although noise hides by how much" in line for line in lines)
    assert replace(pair, p=0.3).words.startswith("cannot be told apart: 0.00 scales")


def test_a_small_change_of_real_sketches_may_be_certain_and_its_size_hidden() -> None:
    """The test looks where clusters change, and so sees more than all features together."""
    plan = make_plan(60)
    fleet, model = Fleet(plan, 5), make_model(plan)
    grown = replace(MIXTURE, weights=np.array([0.47, 0.33, 0.2]))
    n_hidden = 0
    for i in range(20):
        groups = [
            fleet.draw(3000, 2, mixture=mixture, name=name)
            for name, mixture in (("north", MIXTURE), ("south", grown))
        ]
        rng = np.random.default_rng(i)
        found = compare_pairs(model, groups, label="site", rng=rng, n_draws=999)
        (pair,) = found.pairs
        n_hidden += pair.is_certain and pair.is_hidden
        assert ("moved by" in pair.words) == (pair.is_certain and not pair.is_hidden)
    assert n_hidden


def test_a_device_without_a_size_may_differ_and_one_with_a_size_may_be_noise() -> None:
    lit = make_examination("device 0.0", 0.0, 0.1, differs=True)
    dark = make_examination("device 0.37", 0.37, 0.4, differs=False)
    assert lit.words.startswith("differs by less than about 0.14 scales")
    assert dark.words == (
        "no difference that is certain: 0.37 scales (error 0.40), which noise alone may make"
    )
    report = DeviceReport(
        devices=(lit, dark), unexamined=(), level=0.05, n_draws=999, assumptions=()
    )
    text = " ".join(report.describe())
    assert "1 devices differ although noise hides by how much" in text
    # Among several that pull the rest, one is named without a size that says nothing.
    pulled = replace(report, devices=(lit, replace(lit, device="b"), dark))
    assert pulled.describe()[-1].endswith("Look first at device 0.0, which differs most certainly")
