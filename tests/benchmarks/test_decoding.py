import sys
from pathlib import Path

import pytest

from benchmarks import decoding
from benchmarks.datasets import Mixture
from benchmarks.decoding import measure, parse_law
from benchmarks.runner import Bench
from benchmarks.trials import Setting
from sfumato.shared.core import RadiusLaw
from sfumato.shared.errors import SketchError


def test_without_pycle_a_row_says_why(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Mixture(n_dimensions=2, n_clusters=2, n_records=300)
    monkeypatch.setattr(decoding, "PEERS", Setting(source=source, features=5))
    # As where pycle is not installed, whatever this machine has.
    monkeypatch.setitem(sys.modules, "pycle", None)
    rows = {row.figure: row for row in measure(Bench(cases=["peers"], seeds=1))}
    assert rows["pycle_available"].value == 0.0
    assert "pycle" in rows["pycle_available"].baseline
    assert 0.99 < rows["median_relative_sse"].value < 100.0
    assert rows["speedup_over_cl-ompr"].value > 0.0
    assert "speedup_over_pycle/1.2" not in rows


def test_a_case_is_run_with_each_law() -> None:
    laws = ["adapted:1:4", "adapted:1:2:0.25:16"]
    bench = Bench(cases=["weather noiseless"], seeds=1, own={"law": laws})
    assert {row.case for row in measure(bench)} == {f"weather noiseless law={law}" for law in laws}


def test_a_law_is_read() -> None:
    folded = RadiusLaw(kind="folded-gaussian", sigma_low=0.5, sigma_high=2.0, tail_share=0.0)
    assert parse_law("folded-gaussian:0.5:2") == folded
    tailed = RadiusLaw(sigma_low=1.0, sigma_high=2.0, tail_share=0.25, tail_high=16.0)
    assert parse_law("adapted:1:2:0.25:16") == tailed


@pytest.mark.parametrize(
    "text",
    [
        *("adapted", "adapted:1", "adapted:one:2", "adapter:1:4", "adapted:1:2:0.5", ""),
        *("adapted:1:2:2:16", "adapted:1:2:0.5:1", "adapted:4:1", "adapted:nan:1"),
    ],
)
def test_a_law_that_cannot_be_used_is_refused(text: str) -> None:
    with pytest.raises(SketchError) as caught:
        parse_law(text)
    assert caught.value.field is not None
