import math
from pathlib import Path

import numpy as np
import pytest

from benchmarks import real_sets
from benchmarks.honest_trials import run_trial
from benchmarks.honesty_page import write_page
from benchmarks.tables import Table


def test_a_table_goes_through_the_whole_path_and_its_first_line_is_judged(cache: Path) -> None:
    rng = np.random.default_rng(0)
    middles = rng.normal(0.0, 9.0, size=(4, 3))[rng.integers(4, size=1500)]
    table = Table(
        name="cars", columns=("a", "b", "c"), records=middles + rng.normal(size=(1500, 3))
    )
    shape = real_sets.make_shape(table, "a text")
    assert real_sets.make_shape(table, "a text").guess == shape.guess
    assert 3 <= shape.dataset.n_clusters <= 8
    bare = real_sets.list_situations(1500)[0]
    trial = run_trial(shape, bare, "a text")
    rows = list(real_sets.describe([trial]))
    assert rows[0].case.startswith("worst cars n=1500, no noise, d=3")
    true = next(row for row in rows if row.figure == "true_first_lines")
    limit = real_sets.WORST_OF_WORD.get(trial.word, math.inf)
    assert true.value == float(trial.ratio <= limit)
    page = write_page(rows, "# Title\n")
    assert "| cars n=1500, no noise" in page
    assert "## Quality" not in page


@pytest.mark.parametrize(
    ("option", "value", "rule"),
    [
        ("--sets", "0", "must be a whole number of at least 1, not '0'"),
        ("--sets", "-1", "must be a whole number of at least 1, not '-1'"),
        ("--page", "nowhere/page.md", "must be a file in a folder that exists"),
    ],
)
def test_a_wrong_option_is_refused_before_anything_is_decoded(
    option: str,
    value: str,
    rule: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.argv", ["real_sets", option, value])
    with pytest.raises(SystemExit) as caught:
        real_sets.main()
    assert caught.value.code == 2
    told = capsys.readouterr().err
    assert f"argument {option}: {rule}" in told
