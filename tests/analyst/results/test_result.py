"""Results as tables, pictures, pages of a notebook and files."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfumato.analyst import DecodeResult
from sfumato.analyst.results.files import compute_digest
from sfumato.shared.errors import ConfigError, SketchError, UnsupportedVersionError
from tests.analyst.results.made import make_result

HOSTILE = '<script>alert("x")</script>'


def test_a_frame_has_a_row_for_each_cluster_in_either_library() -> None:
    result = make_result(("flow", "weight"), spreads=[[0.1, 0.2], [0.3, 0.4]])
    pandas, polars = result.to_frame(), result.to_frame("polars")
    assert list(pandas.columns) == list(polars.columns)
    assert list(pandas.columns) == [
        "cluster", "weight_", "resolved", "flow", "weight", "flow (spread)", "weight (spread)",
    ]  # fmt: skip
    assert pandas["weight_"].tolist() == polars["weight_"].to_list() == [0.9, 0.1]
    assert pandas["flow (spread)"].tolist() == [0.1, 0.3]


def test_a_notebook_shows_the_verdict_first_and_names_as_text() -> None:
    result = make_result(
        (HOSTILE,), (HOSTILE,), verdict={"word": "rough", "sentence": HOSTILE}, warnings=[HOSTILE]
    )
    shown = result._repr_html_()
    assert shown.startswith("<div><p><b>rough</b>: &lt;script&gt;")
    assert "<script" not in shown
    assert "cannot be told from noise" in shown


@pytest.mark.parametrize("n_axes", [1, 2, 3, 7])
def test_a_picture_is_drawn_for_any_number_of_axes(n_axes: int) -> None:
    figure = make_result([f"axis {i}" for i in range(n_axes)]).plot()
    texts = {text.get_text() for panel in figure.axes for text in panel.texts}
    assert {"0", "1"} <= texts, "clusters have the numbers that predict returns"


def test_a_saved_result_is_read_again_as_it_was(tmp_path: Path) -> None:
    result = make_result(("flow", "heat"), spreads=[[0.1, 1 / 3], [0.3, 1e-300]])
    result.save(tmp_path / "r.json")
    again = DecodeResult.load(str(tmp_path / "r.json"))
    assert again == result
    assert hash(again) == hash(result)
    assert again.seed == 3
    assert again.predict([[1.0, 1.0]]).tolist() == [0]
    assert [path.name for path in tmp_path.iterdir()] == ["r.json"]


def reseal(document: dict[str, Any]) -> str:
    return json.dumps(document | {"digest": compute_digest(document)})


def test_a_file_that_was_changed_or_is_another_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    make_result().save(path)
    document = json.loads(path.read_text(encoding="utf-8"))
    changed = document | {"result": document["result"] | {"weights": [0.5, 0.5]}}
    short = document | {"result": document["result"] | {"centroids": [[1.0, 2.0], [3.0]]}}
    wrong = document | {"plan": document["plan"] | {"n_frequencies": 61}}
    for text, error, message in (
        (json.dumps(changed), ConfigError, "not as it was written"),
        (reseal(document | {"version": 2}), UnsupportedVersionError, "reads version 1"),
        (reseal(document | {"format": "other"}), ConfigError, "is no result"),
        (reseal(short), ConfigError, "its tables have other axes"),
        (reseal(document | {"result": None}), SketchError, "result"),
        (reseal(wrong), SketchError, "n_frequencies|frequencies|digest|derives"),
        ("[1]", ConfigError, "is no result"),
        ("{", ConfigError, "is no result"),
        ("\xff", ConfigError, "is no result"),
    ):
        path.write_text(text, encoding="latin-1")
        with pytest.raises(error, match=message):
            DecodeResult.load(path)
    with pytest.raises(ConfigError, match="cannot be read"):
        DecodeResult.load(tmp_path / "none.json")
    with pytest.raises(ConfigError, match="cannot be written"):
        make_result().save(tmp_path / "no folder" / "r.json")


@pytest.mark.parametrize("library", ["arrow", "os", ""])
def test_a_library_that_makes_no_frames_is_refused(library: str) -> None:
    with pytest.raises(ConfigError, match="library: must be pandas or polars"):
        make_result().to_frame(library)


def test_results_differ_by_their_content_and_not_by_their_time() -> None:
    assert make_result(seconds=1.0) == make_result(seconds=2.0)
    assert make_result() != make_result(weights=[0.8, 0.2])
    assert make_result() != make_result(("heat",))
    assert make_result() != "result"


def test_arrays_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="read-only"):
        make_result().centroids[0, 0] = 0.0
    assert make_result().n_clusters == 2
    assert np.array_equal(make_result().weights, [0.9, 0.1])
    assert repr(make_result()) == "<DecodeResult rough: 2 clusters (90.0%, 10.0%)>"
