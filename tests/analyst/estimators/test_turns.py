from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analyst.estimators import CompressiveKMeans, PrivatePCA
from analyst.estimators.turns import take_turn
from shared.errors import BudgetExceededError, ConfigError
from shared.ledger import OwnersLedger
from shared.privacy import Budget

ROOT = Path(__file__).resolve().parents[3]
RECORDS = np.random.default_rng(0).normal(size=(500, 2))


def make_options(folder: Path, **changes: Any) -> dict[str, Any]:
    source = folder / "records.csv"
    source.write_text("x,y\n")
    given = {"epsilon": "0.6", "bounds": (-5, 5), "ledger": folder / "ledger.db", "source": source}
    return given | changes


def count_releases(folder: Path) -> int:
    events, _ = OwnersLedger(folder / "ledger.db").load()
    return sum(event.count for event in events)


def kill_everywhere(kind: str, folder: Path, step: int) -> dict[str, int]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.analyst.estimators.killing", kind, str(folder), str(step)],
        cwd=ROOT,
        # Forked children must have no threads of a numerical library.
        env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, int] = json.loads(done.stdout)
    return found


def test_a_fit_that_is_killed_anywhere_is_finished_by_the_next_and_counted_once(
    tmp_path: Path,
) -> None:
    found = kill_everywhere("pca", tmp_path, step=11)
    assert found["killed"] > 5
    assert 0 < found["same"] < found["killed"]


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["pca", "k-means", "pilot"])
def test_a_fit_that_is_killed_at_each_call_is_finished_by_the_next(
    kind: str, tmp_path: Path
) -> None:
    found = kill_everywhere(kind, tmp_path, step=1)
    assert found["killed"] > 50
    assert 0 < found["same"] < found["killed"]


def test_the_ledger_counts_releases_of_all_estimators_and_refuses_beyond_the_budget(
    tmp_path: Path,
) -> None:
    options = make_options(tmp_path)
    PrivatePCA(**options).fit(RECORDS)
    refused = CompressiveKMeans(1, scale=1.0, **options)
    with pytest.raises(
        BudgetExceededError, match=r"^budget: .*above the owner's limit 1"
    ) as caught:
        refused.fit(RECORDS)
    assert caught.value.field == "budget"
    assert not {"release_", "events_", "_held"} & set(vars(refused))
    assert count_releases(tmp_path) == 1
    allowed = refused.set_params(budget="2").fit(RECORDS)
    assert allowed.events_
    assert count_releases(tmp_path) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ledger.db", "records.csv"]


def test_two_fits_that_are_done_are_two_releases(tmp_path: Path) -> None:
    options = make_options(tmp_path, budget="5", public_seed=1, scale=1.0)
    first, second = (CompressiveKMeans(1, **options).fit(RECORDS) for _ in range(2))
    assert first.release_.digest != second.release_.digest
    assert count_releases(tmp_path) == 2


def test_parts_are_counted_when_they_are_released(tmp_path: Path) -> None:
    options = make_options(tmp_path, budget="5", scale=1.0, max_records=500)
    found = CompressiveKMeans(1, **options).partial_fit(RECORDS[:200])
    assert not (tmp_path / "ledger.db").exists()
    found.release()
    assert count_releases(tmp_path) == 1
    assert found.partial_fit(RECORDS[200:]).cluster_centers_.shape == (1, 2)
    assert count_releases(tmp_path) == 2


def test_the_same_fit_cannot_run_twice_at_a_time(tmp_path: Path) -> None:
    options = make_options(tmp_path)
    named = {"ledger": options["ledger"], "source": options["source"], "budget": Budget()}
    with (
        take_turn({"a": 1}, **named),
        pytest.raises(ConfigError, match="another fit of these records"),
        take_turn({"a": 1}, **named),
    ):
        pass
    with take_turn({"a": 1}, **named), take_turn({"a": 2}, **named):
        pass


def test_a_ledger_where_no_file_can_be_is_refused(tmp_path: Path) -> None:
    options = make_options(tmp_path, ledger=tmp_path / "none" / "ledger.db")
    with pytest.raises(ConfigError, match="cannot be opened"):
        PrivatePCA(**options).fit(RECORDS)
