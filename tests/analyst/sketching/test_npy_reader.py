import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from sfumato.analyst.sketching.reader import choose_fields
from sfumato.shared.core import SketchAccumulator
from sfumato.shared.core.masks import BLOCK_RECORDS
from sfumato.shared.errors import ConfigError, RecordError
from sfumato.shared.plan import plan_to_json
from sfumato.shared.reading import Fields, WatchedFile, open_rows
from tests.analyst.sketching.samples import NAMES, make_plan, make_records, sum_of
from tests.device_agent.sources.streams import make_dimensions

N = BLOCK_RECORDS + 123


def save(path: Path, records: NDArray[np.generic]) -> Path:
    np.save(path, records, allow_pickle=records.dtype.hasobject)
    return path


def structure(records: NDArray[np.float64]) -> NDArray[np.void]:
    """Fields in another order, of several types, one of them out of line with its size."""
    table = np.zeros(len(records), dtype=[("c", "<f4"), ("flag", "?"), ("a", ">f8"), ("b", "<f8")])
    for name, column in zip(NAMES, records.T, strict=True):
        table[name] = column
    return table


@pytest.mark.parametrize(
    "form",
    [
        np.ascontiguousarray,
        np.asfortranarray,
        lambda x: x.astype("<f4"),
        lambda x: np.asfortranarray(x.astype("<f4")),
        lambda x: x.astype(">f8"),
        lambda x: np.rint(np.nan_to_num(x)).astype(np.int16),
        structure,
    ],
    ids=["C", "Fortran", "float32", "Fortran32", "swapped", "int16", "structured"],
)
def test_any_array_gives_the_sums_of_its_values(form, tmp_path):  # type: ignore[no-untyped-def]
    array = form(make_records(N))
    columns = array if array.dtype.names is None else np.stack([array[n] for n in NAMES], axis=1)
    plan = make_plan()
    expected = SketchAccumulator(plan.statistic_of(b"file/main"))
    expected.add(columns.astype(np.float64))
    summed = sum_of(save(tmp_path / "x.npy", array), plan)
    assert summed.accumulator.sums.tolist() == expected.sums.tolist()
    assert summed.accumulator.n_records == N
    assert summed.accumulator.n_unsketchable == expected.n_unsketchable
    with np.errstate(invalid="ignore"):
        outside = np.count_nonzero(np.abs(columns.astype(np.float64)) > 3.0, axis=0)
    assert summed.n_clipped.tolist() == outside.tolist()


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((5, 2)), r"must have shape \(n, 3\).* and has \(5, 2\)"),
        (np.zeros(6), r"must have shape \(n, 3\)"),
        (np.zeros((2, 3, 1)), r"must have shape \(n, 3\)"),
        (np.float64(1.0), r"must have shape \(n, 3\)"),
        (np.zeros((5, 3), dtype=complex), "must hold one number a value and holds complex128"),
        (np.zeros((5, 3), dtype=bool), "must hold one number a value and holds bool"),
        (np.full((5, 3), "x"), "must hold one number a value and holds <U1"),
        (np.array([[1, 2, None]], dtype=object), "is not a NumPy file of numbers"),
        (np.zeros(4, dtype=[("a", "f8"), ("b", "f8")]), "c: the column is not in the header"),
        (
            np.zeros(4, dtype=[("a", "f8"), ("b", "f8", (2,)), ("c", "f8")]),
            "the field b must hold one number a value",
        ),
        (np.zeros((4, 1), dtype=[("a", "f8")]), r"must have shape \(n,\) as a structured"),
        (np.zeros((0, 3)), "holds 0 records, fewer than the plan's least_records"),
    ],
)
def test_an_array_that_the_plan_does_not_take_is_refused(
    array: NDArray[np.generic], message: str, tmp_path: Path
) -> None:
    path = save(tmp_path / "x.npy", np.asarray(array))
    with pytest.raises((RecordError, ConfigError), match=message):
        sum_of(path, make_plan())


@pytest.mark.parametrize("keep", [0, 5, 10, 100, 128, 200, -1])
def test_a_file_that_was_cut_is_refused(keep: int, tmp_path: Path) -> None:
    path = save(tmp_path / "x.npy", make_records(10))
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(RecordError, match=r"x\.npy: (is not a NumPy file|is empty|has \d+ bytes)"):
        sum_of(path, make_plan())


def test_a_file_that_shrinks_while_it_is_read_is_refused(tmp_path: Path) -> None:
    path = save(tmp_path / "x.npy", make_records(3 * BLOCK_RECORDS))
    with WatchedFile(path) as file:
        tables = open_rows("npy", file, Fields(values=NAMES)).tables()
        next(tables)
        os.truncate(path, 1000)
        with pytest.raises(RecordError, match=r"ended at byte .* before its .* bytes were read"):
            next(tables)


def test_values_that_change_while_they_are_read_are_noticed(tmp_path: Path) -> None:
    path = save(tmp_path / "x.npy", make_records(10))
    with WatchedFile(path) as file:
        list(open_rows("npy", file, Fields(values=NAMES)).tables())
        file.require_unchanged()
        with path.open("ab") as other:
            other.write(b"more")
        with pytest.raises(RecordError, match="was changed while it was read"):
            file.require_unchanged()


def test_a_file_that_is_replaced_while_it_is_read_is_noticed(tmp_path: Path) -> None:
    path = save(tmp_path / "x.npy", make_records(10))
    with WatchedFile(path) as file:
        other = save(tmp_path / "y.npy", make_records(10))
        os.utime(other, ns=(path.stat().st_mtime_ns, path.stat().st_mtime_ns))
        other.replace(path)
        with pytest.raises(RecordError, match="was changed while it was read"):
            file.require_unchanged()


def test_what_is_no_regular_file_is_refused_without_opening_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.npy")
    with pytest.raises(RecordError, match="is not a regular file"):
        WatchedFile(tmp_path / "pipe.npy")
    with pytest.raises(RecordError, match=r"cannot be read \(No such file"):
        WatchedFile(tmp_path / "nowhere.npy")


def test_a_file_with_more_bytes_than_its_header_says_is_refused(tmp_path: Path) -> None:
    path = save(tmp_path / "x.npy", make_records(10))
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(RecordError, match="has 369 bytes, and its header says 368"):
        sum_of(path, make_plan())


def test_column_names_for_an_array_without_any_are_refused(tmp_path: Path) -> None:
    path = save(tmp_path / "x.npy", make_records(10))
    with pytest.raises(RecordError, match="has no column names to choose from"):
        sum_of(path, make_plan(), choose_fields(make_dimensions(*NAMES), ["a=b"]))


def measure_peak(path: Path, plan: Path) -> float:
    """Sketch a file in a process of its own, and return its largest memory in MiB."""
    program = "import sys; from sfumato.shared.command import main; sys.exit(main())"
    words = ["sketch", path, "--plan", plan, "--threads", 2, "-o", path.with_suffix(".sketch")]
    # Waited for by its number, for its own memory and no other child's.
    child = os.posix_spawn(
        sys.executable, [sys.executable, "-c", program, *map(str, words)], os.environ
    )
    _, status, usage = os.wait4(child, 0)
    assert status == 0
    # Kilobytes on Linux, bytes on macOS.
    return usage.ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(plan_to_json(make_plan(most=10**7))))
    peaks = []
    for n in (3 * 10**5, 6 * 10**6):
        path = tmp_path / f"{n}.npy"
        with path.open("wb") as file:
            header = {"descr": "<f8", "fortran_order": True, "shape": (n, len(NAMES))}
            np.lib.format.write_array_header_1_0(file, header)
            # Zeros that take no room on the disk; reading them takes memory like any others.
            file.truncate(file.tell() + n * len(NAMES) * 8)
        peaks.append(measure_peak(path, plan))
    # The larger file has 144 MB; the smaller does not fill the batches in flight, of 5 MB each.
    assert peaks[1] < peaks[0] + 50
