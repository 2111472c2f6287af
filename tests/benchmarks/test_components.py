import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from benchmarks import components
from benchmarks.components import DELTA, draw_sample, measure, run_diffprivlib, run_product
from benchmarks.runner import Bench


def test_a_share_is_one_for_the_best_directions_and_less_for_others() -> None:
    sample = draw_sample(4, 0.5, seed=0)
    vectors = np.linalg.eigh(np.cov(sample.records.T))[1].T
    assert sample.measure_share(vectors[:0:-1]) == pytest.approx(1.0)
    assert sample.measure_share(vectors[:3]) < 0.8
    assert sample.measure_turn(-vectors[-1]) == pytest.approx(0.0)
    assert sample.measure_turn(vectors[0]) == pytest.approx(1.0)


def test_gaussian_noise_captures_more_than_pure_noise() -> None:
    sample, epsilon = draw_sample(10, 0.7, seed=0), Fraction(1, 20)
    pure, gaussian = (
        run_product(sample, epsilon, delta, "replace-one").captured for delta in (0 * DELTA, DELTA)
    )
    assert 0.6 < pure < gaussian
    assert gaussian > 0.95


def test_rows_of_another_library_are_left_out_with_a_word(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(components, "_CASES", ((5, 10_000),))
    rows = list(measure(Bench(seeds=2)))
    assert "--diffprivlib" in capsys.readouterr().err
    assert {row.case.split(" d=")[0] for row in rows} == {
        "laplace",
        "gaussian",
        "laplace add-remove-one",
    }
    share = {row.case: row.value for row in rows if row.figure == "median_captured_share"}
    assert min(share.values()) > 0.98


def test_the_other_environment_answers_or_its_error_is_told(tmp_path: Path) -> None:
    sample = draw_sample(4, 0.5, seed=0)
    with pytest.raises(RuntimeError, match="diffprivlib"):
        run_diffprivlib([sample], Fraction(1), sys.executable)
    # A stand-in that answers with the axes shows that records and answers travel whole.
    package = tmp_path / "diffprivlib"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "models.py").write_text(
        "import numpy as np\n"
        "class PCA:\n"
        "    def __init__(self, kept, *, epsilon, data_norm, bounds, random_state):\n"
        "        self.kept = kept\n"
        "    def fit(self, records):\n"
        "        assert records.shape == (20_000, 4)\n"
        "        self.components_ = np.linalg.eigh(np.cov(records.T))[1].T[: -self.kept - 1 : -1]\n"
        "        return self\n"
    )
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path} exec {sys.executable} "$@"\n')
    python.chmod(0o700)
    trials = run_diffprivlib([sample, sample], Fraction(1), str(python))
    assert [trial.captured for trial in trials] == pytest.approx([1.0, 1.0])
