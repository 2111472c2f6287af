"""The columns of a main plan: bounds that are rounded, categories, and values that are missing."""

import math
import tomllib
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, strategies as st

from sfumato.analyst.planning.refinement import format_column
from sfumato.learning.planning.main_columns import MainColumn, choose_columns, round_outward
from sfumato.shared.plan import Dimension, PlanSpec, SketchPlan, WindowRule, create_plan
from sfumato.shared.structure import structure
from sfumato.shared.wire.objects.declaration import make_sample
from sfumato.shared.wire.objects.statistics import (
    CalibrationBody,
    ColumnBody,
    HistogramBody,
    LevelBody,
    MarginalBody,
)

NUMBERS = st.floats(-1e12, 1e12)
LEVELS = tuple(f"level {i}" for i in range(17))


@given(lower=NUMBERS, width=st.floats(1e-9, 1e12))
def test_rounded_bounds_never_move_inward_and_hardly_outward(lower: float, width: float) -> None:
    upper = lower + width
    if not lower < upper:
        return
    low, high = round_outward(lower, upper)
    # Beyond what doubles of this size can tell apart.
    error = 2.0 * math.ulp(max(abs(lower), abs(upper)))
    assert low <= lower
    assert upper <= high
    assert lower - low <= (upper - lower) / 100.0 + error
    assert high - upper <= (upper - lower) / 100.0 + error


@given(lower=st.floats(-1e12, 1e12), factor=st.floats(1.0, 1e6))
def test_bounds_on_a_logarithmic_scale_keep_their_sign_and_move_by_a_hundredth_of_themselves(
    lower: float, factor: float
) -> None:
    lower, upper = sorted((lower, lower * factor))
    low, high = round_outward(lower, upper, resolution=1e-6)
    assert low <= lower <= upper <= high
    for rounded, exact in ((low, lower), (high, upper)):
        assert rounded * exact >= 0.0
        assert abs(rounded - exact) <= abs(exact) / 100.0


@pytest.mark.parametrize(
    ("bounds", "rounded"),
    [
        ((-149.6561234, 149.6561), (-150.0, 150.0)),
        ((0.1234567, 0.7654321), (0.123, 0.766)),
        ((1e9 + 0.12345, 1e9 + 7.5), (1e9 + 0.12, 1e9 + 7.5)),
    ],
)
def test_rounded_bounds_are_short(
    bounds: tuple[float, float], rounded: tuple[float, float]
) -> None:
    assert round_outward(*bounds) == rounded


def choose(
    dimension: Dimension, *, missing: float = 0.0, is_kept: bool = True, **changes: Any
) -> MainColumn:
    """Choose the only column of a pilot of it."""
    marginal = MarginalBody(
        name=dimension.name,
        unit=dimension.unit,
        scale="levels" if dimension.levels else "linear",
        n_records=1e4,
        bars=[],
        seen_lower=None,
        seen_upper=None,
        quantiles=[],
        levels=[LevelBody(level=level, share=0.1, error=0.001) for level in dimension.levels],
        below=0.0,
        above=0.0,
        missing=missing,
        error=0.001,
    )
    column: dict[str, Any] = (make_sample(ColumnBody) or {}) | {
        "name": dimension.name, "lower": -4.5678, "upper": 14.7123, "search_lower": 1.1234,
        "search_upper": 9.1234, "scale": 0.43219, "missing_share": missing, "is_kept": is_kept,
    }  # fmt: skip
    columns = [] if dimension.levels else [structure(ColumnBody, column | changes)]
    calibration = structure(CalibrationBody, (make_sample(CalibrationBody) or {}) | {"columns": []})
    histogram = structure(HistogramBody, (make_sample(HistogramBody) or {}) | {"marginals": []})
    (chosen,) = choose_columns(
        make_pilot(dimension),
        CalibrationBody(**(vars(calibration) | {"columns": columns})),
        HistogramBody(**(vars(histogram) | {"marginals": [marginal]})),
    )
    return chosen


def make_pilot(dimension: Dimension) -> SketchPlan:
    return create_plan(
        PlanSpec(
            dimensions=(dimension,),
            statistic="histogram",
            epsilon=Fraction(1),
            window=WindowRule(kind="count", length=1000),
            most_records=1000,
        )
    )


def read(chosen: MainColumn) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = tomllib.loads("\n".join(format_column(chosen))).get(
        "dimensions", []
    )
    return found


NUMBER = Dimension(name="pressure", unit="bar", lower=-1e6, upper=1e6)
CATEGORY = Dimension(name="site", unit="1", levels=("north", "south"))


def test_a_number_has_rounded_bounds_search_box_and_scale() -> None:
    chosen = choose(NUMBER)
    (written,) = read(chosen)
    assert (written["lower"], written["upper"], written["scale"]) == (-4.6, 14.8, 0.432)
    assert chosen.search == (1.12, 9.13)
    assert chosen.n_axes == 1


def test_a_category_of_few_levels_becomes_axes_and_keeps_its_rule() -> None:
    chosen = choose(Dimension(name="site", unit="1", levels=LEVELS[:16], missing="level 3"))
    assert (chosen.n_axes, chosen.is_kept, chosen.search) == (16, True, None)
    (written,) = read(chosen)
    assert (written["levels"], written["missing"]) == ([*LEVELS[:16]], "level 3")


def test_a_category_of_many_levels_is_left_out_with_the_reason() -> None:
    chosen = choose(Dimension(name="site", unit="1", levels=LEVELS))
    assert not chosen.is_kept
    assert read(chosen) == []
    assert "17 are more than 16" in format_column(chosen)[0]


@pytest.mark.parametrize("dimension", [NUMBER, CATEGORY])
def test_many_missing_values_without_a_rule_offer_one(dimension: Dimension) -> None:
    chosen = choose(dimension, missing=0.06)
    assert chosen.loses_records
    (written,) = read(chosen)
    assert "missing" not in written
    offered = next(line for line in format_column(chosen) if line.startswith("# missing = "))
    uncommented = "\n".join(format_column(chosen)).replace(offered, offered.removeprefix("# "))
    (chosen_rule,) = tomllib.loads(uncommented)["dimensions"]
    assert chosen_rule["missing"] in ("north", 5.1)
    assert not choose(dimension, missing=0.05).loses_records


def test_the_value_that_stands_for_missing_ones_is_kept_and_searched_for() -> None:
    ruled = Dimension(name="pressure", unit="bar", lower=-1e6, upper=1e6, missing=-2.0)
    chosen = choose(ruled, missing=0.2)
    assert not chosen.loses_records
    assert read(chosen)[0]["missing"] == -2.0
    assert chosen.search == (-2.0, 9.13)
    assert "a missing value counts as -2.0" in chosen.comments
    assert choose(ruled).search == (1.12, 9.13)


def test_a_value_for_missing_ones_outside_the_bounds_is_named() -> None:
    ruled = Dimension(name="pressure", unit="bar", lower=-1e6, upper=1e6, missing=-999.0)
    chosen = choose(ruled, missing=0.2)
    assert any("-999 lies outside the bounds" in comment for comment in chosen.comments)
    assert chosen.search == (1.12, 9.13)


def test_a_number_that_no_sketch_carries_is_left_out_with_the_reason() -> None:
    chosen = choose(NUMBER, name="other")
    assert read(chosen) == []
    assert "no sketch carries it" in chosen.comments[0]
