from importlib.metadata import version

import numpy as np
import pytest

from benchmarks import estimator
from benchmarks.estimator import draw_records, measure
from benchmarks.runner import Bench


def test_records_are_drawn_in_chunks_and_the_same_for_a_seed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = draw_records(5000, seed=1)
    assert first.shape == (5000, 10)
    assert first.dtype == np.float32
    assert np.array_equal(first, draw_records(5000, seed=1))
    assert not np.array_equal(first, draw_records(5000, seed=2))
    monkeypatch.setattr(estimator, "_CHUNK", 999)
    chunked = draw_records(5000, seed=1)
    assert chunked.std(axis=0) == pytest.approx(first.std(axis=0), rel=0.1)


def test_each_way_to_fit_is_compared_with_the_same_choice_of_labels(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(estimator, "N_CLUSTERS", 2)
    monkeypatch.setattr(estimator, "N_DIMENSIONS", 2)
    rows = list(measure(Bench(quick=True, own={"records": [20_000]})))
    against = {row.case.split(" n=")[0]: row.baseline for row in rows if row.figure == "cpu_ratio"}
    plain = f"MiniBatchKMeans of scikit-learn {version('scikit-learn')}"
    assert against == {
        "exact": plain,
        "exact with labels": f"{plain}, with labels",
        "epsilon=1": plain,
    }
    errors = {row.case.split(" n=")[0]: row.value for row in rows if row.figure == "relative_sse"}
    assert len(errors) == 5
    assert errors["exact"] == pytest.approx(1.0, abs=0.05)
    assert 0.95 < errors["epsilon=1"] < 2.0
