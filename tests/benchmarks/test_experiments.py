import argparse
from pathlib import Path
from typing import Any

import pytest

from benchmarks import datasets
from benchmarks.cases import TEN
from benchmarks.datasets import RealData
from benchmarks.experiments import Options, leave_out_missing, read_options, select_cases
from benchmarks.laws import format_law
from benchmarks.trials import Case
from sfumato.shared.errors import SketchError

CASES = (
    Case(name="noiseless a", source=TEN, quick_runs=3),
    Case(name="noiseless b", source=TEN),
    Case(name="private a", source=TEN, runs=5),
)


def given(**changes: Any) -> argparse.Namespace:
    known = {
        "quick": False, "case": [], "seeds": None, "first_seed": 1000, "solver": None, "law": [],
    }  # fmt: skip
    return argparse.Namespace(**(known | changes))


def names(options: Options) -> list[str]:
    return [case.name for case in select_cases(CASES, options)]


def test_all_cases_run_unless_some_are_named_or_the_run_is_quick() -> None:
    assert len(names(Options())) == 3
    assert names(Options(quick=True)) == ["noiseless a"]
    assert names(Options(cases=("noiseless",))) == ["noiseless a", "noiseless b"]
    assert names(Options(cases=("b", "private"))) == ["noiseless b", "private a"]
    assert names(Options(quick=True, cases=("private",))) == ["private a"]


def test_options_of_the_command_line_are_read() -> None:
    options = read_options(given(case=["a"], seeds=2, law=["adapted:1:2", "adapted:1:8"]))
    assert options.cases == ("a",)
    assert [format_law(law) for law in options.laws if law] == ["adapted:1:2", "adapted:1:8"]
    assert read_options(given()).laws == (None,)


@pytest.mark.parametrize(
    ("changes", "field"),
    [({"seeds": 0}, "--seeds"), ({"law": ["x"]}, "--law"), ({"solver": "magic"}, "solver")],
)
def test_options_that_cannot_be_used_are_refused(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(SketchError) as caught:
        read_options(given(**changes))
    assert caught.value.field == field


def test_cases_whose_data_cannot_be_had_are_left_out_with_a_word(
    cache: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datasets, "_load_real", datasets._load_real.__wrapped__)
    shuttle = RealData(name="shuttle")
    cases = [
        CASES[0],
        Case(name="shuttle noiseless", source=shuttle),
        Case(name="shuttle private", source=shuttle),
    ]
    assert leave_out_missing(cases) == [CASES[0]]
    assert capsys.readouterr().err.count("without shuttle: river==") == 1
