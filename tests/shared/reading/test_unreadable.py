import numpy as np
import pytest

from sfumato.shared.core import Columns
from sfumato.shared.reading.unreadable import (
    Unreadable,
    UnreadableError,
    count_unreadable,
    find_unreadable,
    guess_cause,
)


def test_the_likely_cause_follows_from_a_text_and_shows_nothing_of_it() -> None:
    texts = {
        "commas": ["52,39", "-1,5", "1,234.5", " 1.234,56 "],
        "missing": ["", "-", "N/A", "null", "unavailable", "unknown", "NaN", "?"],
        "such as a unit": ["52.39 °C", "9%", "-3kW", "1,5 V"],
        "points": ["51.98", "-3.5"],
        "no numbers": ["north", "12:30", "2025-01-01", "1.2.3", "0x1f"],
    }
    wrong = [
        (word, text)
        for word, found in texts.items()
        for text in found
        if word not in guess_cause(text)[0]
    ]
    assert wrong == []
    assert "missing or no numbers" in guess_cause(None)[0]


@pytest.mark.parametrize(
    ("n_unreadable", "n_lost", "most", "expected"),
    [
        ([0, 0], 0, 0.1, None),
        ([0, 10], 10, 0.1, None),
        ([3, 11], 11, 0.1, Unreadable(column=1, share=0.11)),
        ([100, 0], 100, 0.5, Unreadable(column=0, share=1.0)),
        ([100, 0], 100, 1.0, None),
        ([9] * 10, 90, 0.1, Unreadable(column=0, share=0.09, share_lost=0.9)),
        ([9] * 10, 90, 0.9, None),
    ],
)
def test_a_tenth_of_a_column_or_half_of_the_records_is_too_much(
    n_unreadable: list[int], n_lost: int, most: float, expected: Unreadable | None
) -> None:
    assert find_unreadable(n_unreadable, 100, n_lost=n_lost, most=most) == expected
    assert find_unreadable(n_unreadable, 0, n_lost=0) is None


def test_values_are_counted_in_columns_and_rows_alike() -> None:
    rows = np.array([[1.0, np.nan], [np.inf, np.nan], [2.0, 3.0]])
    assert count_unreadable(rows).tolist() == [1, 2]
    assert count_unreadable(Columns(tuple(rows.T))).tolist() == [1, 2]
    assert count_unreadable(rows[2:]).tolist() == [0, 0]


def test_the_error_says_which_share_of_what_why_and_what_to_do() -> None:
    found = Unreadable(column=1, share=1.0)
    text = str(UnreadableError(found, ["t", "h"], text="9,4", field="r.csv"))
    assert text.startswith("r.csv: must mostly be numbers: 100% of the values of 'h'")
    for part in ("commas", "Nothing was spent", "decimal mark", "raise max_unreadable"):
        assert part in text
    found = Unreadable(column=0, share=0.09, share_lost=0.9)
    assert "90.0% have a value that cannot be read; 9.0%" in str(
        UnreadableError(found, ["t"], text=None, field="X")
    )
