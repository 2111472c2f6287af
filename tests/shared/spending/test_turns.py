"""Turns: a release is counted before it is drawn, and drawn once however its program ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from sfumato.shared.errors import BudgetExceededError, ConfigError, LedgerError
from sfumato.shared.privacy import Budget
from sfumato.shared.spending import Account, take_turn
from tests.shared.spending.killing import EVENT, LEDGER, count_releases, read_kept, release
from tests.soak import small_and_soak

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def account(tmp_path: Path) -> Account:
    (tmp_path / "records.csv").write_text("x\n")
    return Account(
        ledger=tmp_path / LEDGER,
        records=tmp_path / "records.csv",
        budget=Budget(per_record=Fraction(1)),
    )


@small_and_soak("step", 3, 1)
def test_a_program_that_is_killed_anywhere_is_finished_by_the_next_and_counted_once(
    step: int, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.shared.spending.killing", str(tmp_path), str(step)],
        cwd=ROOT,
        # Forked children must have no threads of a numerical library.
        env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["killed"] > 50 // step
    assert 5 // step < found["same"] < found["killed"]


def test_what_was_drawn_and_could_not_be_shown_is_the_next_release(account: Account) -> None:
    folder = account.ledger.parent
    (folder / "answer").mkdir()
    with pytest.raises(IsADirectoryError):
        release(folder)
    ((*drawn,),) = read_kept(folder)
    (folder / "answer").rmdir()
    assert release(folder) == drawn
    assert count_releases(folder) == 1
    assert sorted(path.name for path in folder.iterdir()) == ["answer", LEDGER, "records.csv"]


def test_what_is_refused_leaves_no_file_and_names_the_parameter(account: Account) -> None:
    folder = account.ledger.parent
    release(folder)
    with pytest.raises(
        BudgetExceededError, match=r"^budget: .*above the owner's limit 1"
    ) as caught:
        release(folder)
    assert caught.value.field == "budget"
    assert not list(folder.glob("*.turn"))
    assert count_releases(folder) == 1


def test_a_torn_or_changed_line_of_a_turn_is_not_read_and_nothing_is_drawn_in_its_place(
    account: Account,
) -> None:
    folder = account.ledger.parent
    (folder / "answer").mkdir()
    with pytest.raises(IsADirectoryError):
        release(folder)
    (path,) = folder.glob("*.turn")
    whole = path.read_bytes()
    begun = whole.index(b"\n") + 1
    for damaged in (whole[:-1], whole[:-9] + b"00000000\n", whole[: begun + 4]):
        path.write_bytes(damaged)
        assert read_kept(folder) == []
    (folder / "answer").rmdir()
    with pytest.raises(LedgerError, match="was released before"):
        release(folder)
    assert count_releases(folder) == 1


def test_one_release_of_some_choices_runs_at_a_time(account: Account) -> None:
    with (
        take_turn({"a": 1}, account),
        pytest.raises(ConfigError, match="another release of these records"),
        take_turn({"a": 1}, account),
    ):
        pass
    with take_turn({"a": 1}, account), take_turn({"a": 2}, account):
        pass


def test_a_ledger_where_no_file_can_be_is_refused(account: Account) -> None:
    nowhere = Account(
        ledger=account.ledger / "none", records=account.records, budget=account.budget
    )
    account.ledger.write_bytes(b"")
    with pytest.raises(ConfigError, match="cannot be opened"), take_turn({}, nowhere):
        pass


def test_without_an_account_every_turn_draws_anew() -> None:
    drawn = []
    for i in range(2):
        with take_turn({"a": 1}, None) as turn:
            assert turn.keep(b"design") == b"design"
            turn.require_affordable(EVENT)
            turn.reserve(EVENT)
            drawn += turn.draw(lambda: np.array([i])).tolist()  # noqa: B023
            turn.show()
    assert drawn == [0, 1]
