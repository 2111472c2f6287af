"""Search boxes on a command line and through the client."""

from pathlib import Path

import pytest

from sfumato.analyst.cli.search_boxes import describe_search_box, read_search_box
from sfumato.shared.errors import ConfigError

ID = "ab" * 32


def test_options_give_bounds_by_name(tmp_path: Path) -> None:
    assert read_search_box(None) is None
    assert read_search_box(["flow=-1e-3:2", "a = b = 0 : 1.5"]) == {
        "flow": [-1e-3, 2.0],
        "a = b": [0.0, 1.5],
    }
    assert read_search_box(["flow=1:2", "plan"]) == {}
    path = tmp_path / "box.toml"
    path.write_text('[search_box]\nflow = [0, 1]\n"air flow" = [2.5, 3]\n', encoding="utf-8")
    # What stands later counts.
    found = read_search_box([str(path), "flow=4:5"])
    assert found == {"flow": [4.0, 5.0], "air flow": [2.5, 3.0]}
    assert describe_search_box(found) == "flow 4 to 5, air flow 2.5 to 3"
    assert describe_search_box({}) == "the plan's bounds"


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("[search_box]\nflow = [1]", "search_box.flow"),
        ("[search_box]\nflow = 1", "search_box.flow"),
        ('[search_box]\nflow = [1, "2"]', "search_box.flow[1]"),
        ("[box]\nflow = [1, 2]", "box"),
    ],
)
def test_a_malformed_file_is_refused_by_field(text: str, field: str, tmp_path: Path) -> None:
    path = tmp_path / "box.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        read_search_box([str(path)])
    assert caught.value.field == field
