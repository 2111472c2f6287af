"""Questions from plain Python values: those that are malformed are refused by their names."""

from typing import Any

import pytest

from sfumato.analyst.questions import make_questions
from sfumato.shared.errors import ConfigError


def test_questions_keep_names_ends_and_shares() -> None:
    asked = make_questions(
        ranges=[{"x": (1, None)}], quantiles=[("x", 0.5)], means=["x", ("x", {"y": (None, 2)})]
    )
    assert asked.ranges == [{"x": [1.0, None]}]
    assert [(each.dimension, each.share) for each in asked.quantiles] == [("x", 0.5)]
    assert [(each.mean_of, each.within) for each in asked.means] == [
        ("x", {}),
        ("x", {"y": [None, 2.0]}),
    ]


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"ranges": {"x": (1, 2)}}, r"ranges\[0\]: must be a mapping"),
        ({"ranges": [{"x": 1}]}, r"ranges\[0\]\.x: must have a lower and an upper end"),
        ({"ranges": [{"x": (1, 2, 3)}]}, r"ranges\[0\]\.x: must have a lower and an upper end"),
        ({"ranges": [{"x": ("a", "a")}]}, r"ranges\[0\]\.x: must have a lower and an upper end"),
        ({"quantiles": ["x"]}, r"quantiles\[0\]: must be a dimension and a share"),
        ({"quantiles": [("x", "half")]}, r"quantiles\[0\]: must be a dimension and a share"),
        ({"means": [("x", (1, 2))]}, r"means\[0\]: must be a mapping"),
        ({"means": [3]}, r"means\[0\]: must be a dimension"),
        ({}, "questions: asks nothing"),
    ],
)
def test_a_malformed_question_is_refused_by_its_place(asked: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError, match=field):
        make_questions(**asked)
