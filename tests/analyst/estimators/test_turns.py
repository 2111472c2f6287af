"""Turns of estimators: what a fit has drawn is finished by the next, whatever ended the first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfumato.analyst.estimators import CompressiveKMeans, GridKMeans, PrivatePCA
from sfumato.analyst.estimators.clustering import pack
from sfumato.shared.errors import BudgetExceededError
from sfumato.shared.spending import OwnersLedger
from sfumato.shared.spending.turns import CountedTurn

RECORDS = np.random.default_rng(0).normal(size=(500, 2))


def make_options(folder: Path, **changes: Any) -> dict[str, Any]:
    source = folder / "records.csv"
    source.write_text("x,y\n")
    given = {"epsilon": "0.6", "bounds": (-5, 5), "ledger": folder / "ledger.db", "source": source}
    return given | changes


def count_releases(folder: Path) -> int:
    events, _ = OwnersLedger(folder / "ledger.db").load()
    return sum(event.count for event in events)


def fit(kind: str, folder: Path) -> list[list[int]]:
    """Fit, and return the sums of all that was released."""
    options = make_options(folder, epsilon="1/2")
    if kind == "grid":
        # Several rounds, kept together.
        return [pack(GridKMeans(2, **options).fit(RECORDS).release_.encode()).tolist()]
    if kind == "pca":
        return [PrivatePCA(**options).fit(RECORDS).release_.sums.tolist()]
    scale: Any = "pilot" if kind == "pilot" else 1.0
    records = np.tile(RECORDS, (12, 1)) if kind == "pilot" else RECORDS
    found = CompressiveKMeans(1, random_state=0, scale=scale, **options).fit(records)
    releases = [found.pilot_, found.release_] if kind == "pilot" else [found.release_]
    return [release.sums.tolist() for release in releases]


class Killed(BaseException):
    """Ends a fit as a signal does: nothing that follows is done."""


@pytest.mark.parametrize("kind", ["pca", "k-means", "pilot", "grid"])
def test_a_fit_that_is_killed_before_it_shows_its_release_is_finished_by_the_next(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[list[int]] = []

    def draw(turn: CountedTurn, draw_sums: Any, *, original: Any = CountedTurn.draw) -> Any:
        drawn.append(original(turn, draw_sums).tolist())
        raise Killed

    monkeypatch.setattr(CountedTurn, "draw", draw)
    with pytest.raises(Killed):
        fit(kind, tmp_path)
    monkeypatch.undo()
    assert len(list(tmp_path.glob("*.turn"))) == 1
    again = fit(kind, tmp_path)
    assert drawn == again[:1]
    assert count_releases(tmp_path) == len(again)
    assert not list(tmp_path.glob("*.turn"))


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


def test_a_fit_with_a_source_is_counted_without_a_ledger_and_says_how_often(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options = make_options(tmp_path)
    del options["ledger"]
    PrivatePCA(**options).fit(RECORDS)
    assert caplog.messages == []
    PrivatePCA(**options).fit(RECORDS)
    (message,) = caplog.messages
    assert message.startswith("this is the 2nd release of these records: together epsilon 1.2 (")
    with pytest.raises(BudgetExceededError, match="above the owner's limit 3/2"):
        PrivatePCA(**options, budget="1.5").fit(RECORDS)
    # Nobody can count what comes from nowhere.
    del options["source"]
    PrivatePCA(**options).fit(RECORDS)
    assert len(caplog.messages) == 1


def test_a_first_fit_with_a_pilot_is_no_second_release_of_its_records(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options = make_options(tmp_path, budget="5")
    CompressiveKMeans(1, **options).fit(np.tile(RECORDS, (4, 1)))
    assert count_releases(tmp_path) == 2
    assert caplog.messages == []
    CompressiveKMeans(1, **options).fit(np.tile(RECORDS, (4, 1)))
    (message,) = caplog.messages
    assert message.startswith("this is the 4th release of these records: together epsilon 1.2 (")


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
