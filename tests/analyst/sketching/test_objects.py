from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from sfumato.analyst.sketching.datasets import sketch_dataset
from sfumato.shared.core import SketchAccumulator
from sfumato.shared.errors import RecordError
from sfumato.shared.plan import Dimension, PlanSpec, SketchPlan, WindowRule, create_plan
from tests.analyst.sketching.samples import NAMES, make_plan, make_records

pytest.importorskip("pyarrow")
pandas = pytest.importorskip("pandas")

ANYTHING = [1.5, "text", b"x", 10**30, True, None, Decimal("1.5"), datetime(2020, 1, 1), [1.0], 2]


def make_bins(*levels: str) -> SketchPlan:
    bounds: dict[str, Any] = {"levels": levels} if levels else {"lower": -5.0, "upper": 5.0}
    return create_plan(
        PlanSpec(
            dimensions=(Dimension(name="x", unit="1", **bounds),),
            statistic="histogram",
            bins_log2=None if levels else 6,
            epsilon=Fraction(1),
            window=WindowRule(kind="count", length=100),
            least_records=1,
            most_records=100,
        )
    )


@pytest.mark.parametrize("value", ANYTHING, ids=repr)
@pytest.mark.parametrize(
    ("plan", "others"),
    [
        (make_bins(), [0.5]),
        (make_bins(), [1]),
        (make_bins("1", "2"), [1]),
        (make_bins("a", "b"), ["a"]),
    ],
)
def test_an_object_in_a_table_of_pandas_matters_to_its_own_record_alone(
    plan: SketchPlan, others: list[Any], value: Any
) -> None:
    def count(values: list[Any]) -> list[int]:
        column = pandas.Series(values, dtype=object, index=[*values[:-1], 0])
        frame = pandas.DataFrame({"x": column, "other": values})
        sums: list[int] = sketch_dataset(frame, plan, exact=True).sums.tolist()
        return sums

    usual, found = count(others * 21), count([value, *others * 20])
    # The others stay in their bin, and it is in one at most.
    moved = [b - a for a, b in zip(usual, found, strict=True)]
    assert sorted(filter(None, moved)) in ([], [-1, 1])


def test_numbers_of_pandas_with_a_type_are_read_as_those_of_arrow() -> None:
    plan, records = make_plan(), make_records(300)
    expected = SketchAccumulator(plan.statistic_of(b"file/main"))
    expected.add(records)
    frame = pandas.DataFrame(dict(zip(NAMES, records.T, strict=True)))
    assert np.array_equal(sketch_dataset(frame, plan, exact=True).sums, expected.sums)
    with pytest.raises(RecordError, match=r"^b: the column is not in the header"):
        sketch_dataset(frame.drop(columns="b"), plan)


def test_categories_of_any_objects_are_read_as_the_objects_are() -> None:
    column = pandas.Series(["1", 2, None, b"x"], dtype=object).astype("category")
    frame = pandas.DataFrame({"x": column})
    sketch = sketch_dataset(frame, make_bins("1", "2"), exact=True, max_unreadable=1)
    assert sorted(sketch.sums.tolist(), reverse=True)[:3] == [2, 1, 1]
