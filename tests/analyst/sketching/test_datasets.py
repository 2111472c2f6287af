import json
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from sfumato.analyst.sketching.datasets import release_parts, sketch_dataset, sum_part
from sfumato.analyst.sketching.parts import Part, add_parts
from sfumato.analyst.sketching.sketch_file import SketchFile
from sfumato.shared.core import SketchAccumulator
from sfumato.shared.errors import (
    BudgetExceededError,
    ConfigError,
    MalformedMessageError,
    PlanMismatchError,
    PrivacyError,
    RecordError,
    SketchError,
)
from sfumato.shared.plan import plan_to_json
from sfumato.shared.privacy import Budget
from sfumato.shared.spending import Account
from tests.analyst.sketching.samples import NAMES, make_plan, make_records

pyarrow = pytest.importorskip("pyarrow")
import pyarrow.dataset as datasets  # noqa: E402
from pyarrow import parquet  # noqa: E402

PLAN = make_plan()
RECORDS = make_records(3000)


def make_table(records: np.ndarray[Any, Any] = RECORDS, **types: Any) -> Any:
    columns = {name: pyarrow.array(records[:, i]) for i, name in enumerate(NAMES)}
    return pyarrow.table({"city": ["x"] * len(records)} | columns)


def write_parts(folder: Path) -> Path:
    for i in range(3):
        parquet.write_table(make_table(RECORDS[1000 * i : 1000 * (i + 1)]), folder / f"{i}.parquet")
    return folder


def exact_sums(records: np.ndarray[Any, Any] = RECORDS) -> list[int]:
    accumulator = SketchAccumulator(PLAN.statistic_of(b"file/main"))
    accumulator.add(records)
    sums: list[int] = accumulator.sums.tolist()
    return sums


class Stream:
    """What any other library hands over: the protocol, and nothing else."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def __arrow_c_stream__(self, schema: object = None) -> object:
        return self._table.__arrow_c_stream__(schema)


SOURCES: dict[str, Callable[[Path], object]] = {
    "a table": lambda _: make_table(),
    "the protocol alone": lambda _: Stream(make_table()),
    "a reader": lambda _: make_table().to_reader(max_chunksize=700),
    "batches": lambda _: iter(make_table().to_batches(max_chunksize=11)),
    "batches of the protocol": lambda _: [Stream(make_table().slice(0, 7)), make_table().slice(7)],
    "a folder": lambda folder: datasets.dataset(write_parts(folder)),
    "single precision": lambda _: make_table(RECORDS.astype(np.float32)),
}


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_of_arrow_gives_the_same_sum(name: str, tmp_path: Path) -> None:
    sketch = sketch_dataset(SOURCES[name](tmp_path), PLAN, exact=True, n_threads=2)
    records = RECORDS.astype(np.float32) if name == "single precision" else RECORDS
    assert sketch.sums.tolist() == exact_sums(records)
    assert sketch.n_records == 3000


def test_files_of_another_type_than_their_data_set_are_refused_whatever_they_hold(
    tmp_path: Path,
) -> None:
    whole = make_table(np.ones((3, 3)))
    for name, kind in (("0", "int64"), ("1", "float64")):
        cast = whole.set_column(1, NAMES[0], whole.column(1).cast(kind))
        parquet.write_table(cast, tmp_path / f"{name}.parquet")
    with pytest.raises(ConfigError, match=f"^{NAMES[0]}: holds double in one file, and int64"):
        sketch_dataset(datasets.dataset(tmp_path), PLAN, exact=True)
    for kind in ("float32", "null"):
        column = pyarrow.nulls(3) if kind == "null" else whole.column(1).cast(kind)
        found = whole.set_column(1, NAMES[0], column)
        parquet.write_table(found, tmp_path / "0.parquet")
        both = datasets.dataset(tmp_path, schema=whole.schema)
        assert sketch_dataset(both, PLAN, exact=True, max_unreadable=1).n_records == 6
    filtered = both.filter(datasets.field(NAMES[1]) > 0)
    assert sketch_dataset(filtered, PLAN, exact=True, max_unreadable=1).n_records == 6


@given(cuts=st.lists(st.integers(0, 3000), max_size=5), order=st.randoms(use_true_random=False))
def test_parts_add_up_to_one_pass_in_any_order(cuts: list[int], order: Any) -> None:
    edges = [0, *sorted(cuts), 3000]
    document = json.dumps(plan_to_json(PLAN)).encode()
    parts = [
        sum_part(document, make_table(RECORDS[start:stop]), name=str(i))
        for i, (start, stop) in enumerate(pairwise(edges))
    ]
    order.shuffle(parts)
    travelled = [Part.decode(part.encode()) for part in parts]
    added = add_parts(travelled, PLAN, expected=[str(i) for i in range(len(edges) - 1)])
    assert added.accumulator.sums.tolist() == exact_sums()
    assert added.accumulator.n_unsketchable == int(np.isnan(RECORDS).any(axis=1).sum())
    assert added.n_clipped.tolist() == (np.abs(RECORDS) > 3.0).sum(axis=0).tolist()


def test_a_part_that_is_there_twice_or_missing_is_refused() -> None:
    parts = [sum_part(PLAN, make_table(RECORDS[i::2]), name=str(i)) for i in range(2)]
    for some, said in (
        ([*parts, parts[0]], "part 0: is there twice"),
        (parts[:1], "part 1: is missing"),
        ([*parts, sum_part(PLAN, make_table(), name="2")], "part 2: is none of the data set's"),
    ):
        with pytest.raises(RecordError, match=said):
            add_parts(some, PLAN, expected=["0", "1"])


def test_a_part_of_another_plan_or_release_is_refused() -> None:
    part = sum_part(PLAN, make_table(), name="0")
    with pytest.raises(PlanMismatchError, match="part 0: was summed with another plan"):
        add_parts([part], make_plan(most=5000))
    with pytest.raises(MalformedMessageError):
        Part.decode(part.encode()[:-1])
    with pytest.raises(MalformedMessageError, match="one release of Sfumato on every worker"):
        Part.decode(part.encode().replace(b"sfumato-part", b"sfumato-tart"))


def test_a_release_that_is_on_disk_is_returned_without_a_look_at_the_records(
    tmp_path: Path,
) -> None:
    output = tmp_path / "records.sketch"
    first = sketch_dataset(make_table(), PLAN, output=output)
    assert sketch_dataset(None, PLAN, output=output) == first

    def compute() -> Iterator[Part]:
        raise AssertionError("nothing is to be computed")

    assert release_parts(compute, PLAN, output=output) == first
    with pytest.raises(ConfigError, match="holds another release"):
        sketch_dataset(None, PLAN, output=output, exact=True)
    with pytest.raises(PlanMismatchError):
        sketch_dataset(None, make_plan(most=5000), output=output)


def test_the_noise_of_parts_is_that_of_one_sketch() -> None:
    sketches: list[SketchFile] = [
        release_parts(
            lambda: (sum_part(PLAN, make_table(RECORDS[i::3]), name=str(i)) for i in range(3)),
            PLAN,
            expected=("0", "1", "2"),
        )
        for _ in range(80)
    ]
    noise = np.array([sketch.sums for sketch in sketches]) - np.array(exact_sums())
    # The relative sd of the mean of squares is below 0.08 with a common radius: 4 of them.
    assert np.mean(noise**2) == pytest.approx(PLAN.mechanism.variance, rel=0.32)


def test_the_owner_s_ledger_counts_and_refuses(tmp_path: Path) -> None:
    folder = write_parts(tmp_path)
    budget = Budget(per_record=Fraction(1))
    account = Account(ledger=tmp_path / "owner.ledger", records=folder, budget=budget)
    sketch_dataset(make_table(), PLAN, account=account)
    with pytest.raises(BudgetExceededError):
        sketch_dataset(make_table(), PLAN, account=account)
    sketch_dataset(make_table(), PLAN, account=account, exact=True)


def list_bad() -> Iterator[Any]:
    yield make_table()
    raise OSError("a secret value")


@pytest.mark.parametrize(
    ("source", "error", "said"),
    [
        (make_table().drop_columns(["b"]), RecordError, "b: the column is not in the header"),
        (make_table().set_column(1, "a", [["x"] * 3000]), RecordError, "a: must hold numbers"),
        ("records.parquet", ConfigError, "data set: is a str, which gives no batches of Arrow"),
        (3, ConfigError, "data set: is a int"),
        ([], RecordError, "data set: holds 0 records, fewer than"),
        (list_bad(), RecordError, "data set: cannot be read"),
    ],
    ids=["no column", "text", "a name", "a number", "empty", "broken"],
)
def test_a_source_that_cannot_serve_is_refused(
    source: object, error: type[SketchError], said: str
) -> None:
    with pytest.raises(error, match=said) as caught:
        sketch_dataset(source, PLAN)
    assert "secret" not in str(caught.value)


def test_more_records_than_the_plan_allows_are_refused_before_all_are_read() -> None:
    def endless() -> Iterator[Any]:
        while True:
            yield make_table()

    with pytest.raises(RecordError, match="more records than the plan's most_records = 5000"):
        sketch_dataset(endless(), make_plan(most=5000))


def test_columns_may_have_other_names() -> None:
    table = make_table().rename_columns(["city", "p", "b", "c"])
    sketch = sketch_dataset(table, PLAN, columns={"a": "p"}, exact=True)
    assert sketch.sums.tolist() == exact_sums()


def test_data_sets_of_text_are_refused_whatever_they_hold(tmp_path: Path) -> None:
    for name, text in (("csv", "a,b,c\n1,2,3\n"), ("json", '{"a": 1, "b": 2, "c": 3}\n')):
        (tmp_path / name).write_text(text)
        one = datasets.dataset(tmp_path / name, format=name)
        for source in (one, datasets.dataset([one, one])):
            with pytest.raises(ConfigError, match=f"data set: holds files of {name.upper()}"):
                sketch_dataset(source, PLAN)


def test_a_column_for_no_dimension_is_refused() -> None:
    with pytest.raises(ConfigError, match="columns: names no dimension of the plan by 'z'"):
        sketch_dataset(make_table(), PLAN, columns={"z": "p"})


def test_masks_depend_on_the_order_alone(tmp_path: Path) -> None:
    plan = make_plan(masked=True)
    whole = sketch_dataset(make_table(), plan, exact=True)
    pieces = sketch_dataset(make_table().to_batches(max_chunksize=100), plan, exact=True)
    assert whole == pieces
    with pytest.raises(PrivacyError, match="measurements_per_record: is less than the number"):
        sum_part(plan, make_table(), name="0")


def test_a_release_is_made_once() -> None:
    noised = [sketch_dataset(make_table(), PLAN) for _ in range(2)]
    assert noised[0].is_private
    assert noised[0] != noised[1]
