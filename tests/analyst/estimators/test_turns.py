from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

from sfumato.analyst.estimators import CompressiveKMeans, PrivatePCA
from sfumato.analyst.estimators.turns import take_turn
from sfumato.shared.errors import BudgetExceededError, ConfigError
from sfumato.shared.ledger import OwnersLedger
from sfumato.shared.privacy import Budget
from tests.analyst.estimators.killing import read_kept

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
@pytest.mark.parametrize("kind", ["pca", "k-means", "pilot", "grid"])
def test_a_fit_that_is_killed_at_each_call_is_finished_by_the_next(
    kind: str, tmp_path: Path
) -> None:
    found = kill_everywhere(kind, tmp_path, step=1)
    assert found["killed"] > 50
    assert 0 < found["same"] < found["killed"]


CELL = """
import json
from pathlib import Path
import numpy as np
from sfumato.analyst.estimators import CompressiveKMeans

records = np.random.default_rng(0).normal(size=(20_000, 2))
private = CompressiveKMeans(
    3, epsilon="0.6", bounds=(-5, 5), scale=1.0, ledger="ledger.db", source="records.csv"
).fit(records)
Path("sums.json").write_text(json.dumps(private.release_.sums.tolist()))
"""


@contextmanager
def start_kernel(folder: Path) -> Iterator[tuple[KernelManager, BlockingKernelClient]]:
    """Start a notebook's kernel that works in a folder, and kill it at the end."""
    kernel = KernelManager(kernel_name="python3")
    paths = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    kernel.start_kernel(cwd=str(folder), env=os.environ | {"PYTHONPATH": paths})
    client = kernel.blocking_client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=600)
        yield kernel, client
    finally:
        client.stop_channels()
        kernel.shutdown_kernel(now=True)


def wait_until(holds: Any) -> None:
    """Wait until something holds, ten minutes at most."""
    end = time.monotonic() + 600.0
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.005)


@pytest.mark.soak  # kernels start slowly; forks are killed in the quick form above
@pytest.mark.parametrize("is_drawn", [False, True])
def test_a_kernel_that_is_killed_has_released_nothing_or_the_next_one_releases_the_same(
    is_drawn: bool, tmp_path: Path
) -> None:
    (tmp_path / "records.csv").write_text("a,b\n")
    with start_kernel(tmp_path) as (kernel, client):
        client.execute(CELL)
        # As soon as the fit has begun, or while it decodes what it has drawn.
        wait_until(lambda: read_kept(tmp_path) if is_drawn else list(tmp_path.glob("*.fit")))
        kernel.shutdown_kernel(now=True)
    kept = read_kept(tmp_path)
    assert len(list(tmp_path.glob("*.fit"))) == 1
    assert not (tmp_path / "sums.json").exists()
    assert len(kept) == 1 or not is_drawn
    with start_kernel(tmp_path) as (_, client):
        done = client.execute_interactive(CELL, timeout=600)
    assert done["content"]["status"] == "ok"
    assert kept in ([], [json.loads((tmp_path / "sums.json").read_text())])
    assert count_releases(tmp_path) == 1
    assert not list(tmp_path.glob("*.fit"))


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
