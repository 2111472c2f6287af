import numpy as np
import pytest

from benchmarks.real_tables import LEAST_ROWS, draw_tables, read_table


def write(columns: dict[str, list[object]]) -> bytes:
    """Write a CSV file with names of rows, as R does."""
    lines = [",".join(['""', *columns])]
    rows = zip(*columns.values(), strict=True)
    lines += [",".join(map(str, [i, *row])) for i, row in enumerate(rows)]
    return "\n".join(lines).encode()


N = LEAST_ROWS
NUMBERS: list[object] = [0.5 * i for i in range(N)]
WORDS: list[object] = ["a"] * N
MISSING: list[object] = ["NA", *NUMBERS[1:]]
FEW: list[object] = [i % 9 for i in range(N)]


def test_columns_of_numbers_are_taken_and_rows_that_lack_one_left_out() -> None:
    more: list[object] = [*NUMBERS, 7]
    missing: list[object] = ["NA", *more[1:]]
    words: list[object] = [*WORDS, "b"]
    table = read_table("t", write({"x": more, "word": words, "y": missing}))
    assert table is not None
    assert table.columns == ("x", "y")
    assert table.records.shape == (N, 2)
    np.testing.assert_array_equal(table.records[0], [0.5, 0.5])


@pytest.mark.parametrize(
    "columns",
    [
        {"x": NUMBERS, "word": WORDS},
        {"x": NUMBERS, "few": FEW},
        {"x": NUMBERS[1:], "y": NUMBERS[1:]},
        {"x": NUMBERS, "y": MISSING},
        {"x": NUMBERS, "y": ["NA"] * (N // 4) + NUMBERS[N // 4 :]},
    ],
    ids=["one column", "few values", "few rows", "a row too few", "much missing"],
)
def test_a_table_with_too_little_is_none(columns: dict[str, list[object]]) -> None:
    assert read_table("t", write(columns)) is None


def test_a_text_says_which_tables_are_drawn() -> None:
    good, bad = write({"x": NUMBERS, "y": NUMBERS}), write({"x": NUMBERS})
    files = {str(i): bad if i % 3 == 0 else good for i in range(30)}

    def names(text: str) -> list[str]:
        return [table.name for table in draw_tables(files, text, 5)]

    assert names("one") == names("one")
    assert len(names("one")) == 5
    assert names("one") != names("other")
    assert all(int(name) % 3 for name in names("one"))
