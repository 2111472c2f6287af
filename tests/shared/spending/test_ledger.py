"""The owner's ledger in a file of its own: what several programs spend from one budget."""

import sqlite3
import stat
import subprocess
import sys
from fractions import Fraction
from functools import partial
from pathlib import Path

import pytest

from sfumato.shared.errors import (
    BudgetExceededError,
    ConfigError,
    DiskError,
    LedgerError,
    StoreError,
)
from sfumato.shared.privacy import Budget, Origin, PrivacyEvent
from sfumato.shared.spending import OwnersLedger, Reservation

BUDGET = Budget(per_record=Fraction(1))
FILE = Origin(kind="path", name="/data/records.csv")


def make(
    *,
    holder: bytes = b"h" * 16,
    stream: str = "meter",
    sequence: int = 0,
    origin: Origin = FILE,
    epsilon: Fraction = Fraction(1),
    neighbouring: str = "replace-one",
    sketch_id: bytes | None = None,
) -> Reservation:
    event = PrivacyEvent(
        study=b"s" * 32,
        stream=stream,
        plan_digest=b"p" * 32,
        sequence=sequence,
        neighbouring=neighbouring,
        epsilon=epsilon,
    )
    name = f"{holder!r} {stream} {sequence}".encode()
    return Reservation(
        sketch_id=sketch_id or name.ljust(32)[:64], holder=holder, event=event, origins=(origin,)
    )


@pytest.fixture
def ledger(tmp_path: Path) -> OwnersLedger:
    return OwnersLedger(tmp_path / "owner.ledger")


def test_windows_of_one_stream_cost_once_and_another_state_over_the_same_file_costs_again(
    ledger: OwnersLedger,
) -> None:
    for sequence in range(3):
        ledger.reserve(make(sequence=sequence), BUDGET, now=0.0)
    other = make(holder=b"i" * 16)
    for attempt in (ledger.require_affordable, lambda r, b: ledger.reserve(r, b, now=0.0)):
        with pytest.raises(BudgetExceededError, match="per_record"):
            attempt(other, BUDGET)
    elsewhere = Origin(kind="path", name="/data/others.csv")
    ledger.reserve(make(holder=b"i" * 16, origin=elsewhere), BUDGET, now=0.0)


def test_releases_under_both_relations_cost_what_a_replaced_record_loses(
    ledger: OwnersLedger,
) -> None:
    ledger.reserve(make(neighbouring="add-remove-one"), BUDGET, now=0.0)
    other, limit = make(holder=b"i" * 16), Budget(per_record=Fraction(2))
    with pytest.raises(BudgetExceededError, match="epsilon 3 under replace-one"):
        ledger.reserve(other, limit, now=0.0)
    ledger.reserve(other, Budget(per_record=Fraction(3)), now=0.0)
    assert {event.neighbouring for event in ledger.load()[0]} == {"add-remove-one", "replace-one"}
    connection = sqlite3.connect(ledger.path)
    with pytest.raises(sqlite3.IntegrityError, match=r"NOT NULL.*neighbouring"):
        connection.execute("UPDATE entries SET neighbouring = NULL")
    connection.close()


def test_states_that_read_times_apart_of_one_file_do_not_add_up(ledger: OwnersLedger) -> None:
    def reading(times: str) -> Origin:
        return Origin(kind="path", name="/data/meter.csv", times=times)

    ledger.reserve(make(origin=reading("10 20 alike")), BUDGET, now=0.0)
    ledger.reserve(make(holder=b"i" * 16, origin=reading("20  alike")), BUDGET, now=0.0)
    for times in ("19  alike", "20  otherwise", ""):
        with pytest.raises(BudgetExceededError, match="per_record"):
            ledger.reserve(make(holder=b"j" * 16, origin=reading(times)), BUDGET, now=0.0)


def test_a_reservation_is_taken_up_again_at_no_cost_until_it_is_confirmed(
    ledger: OwnersLedger,
) -> None:
    budget = Budget(lifetime=Fraction(1))
    ledger.reserve(make(), budget, now=0.0)
    ledger.reserve(make(), budget, now=1.0)
    with pytest.raises(LedgerError, match="another cost"):
        ledger.reserve(make(epsilon=Fraction(1, 2)), budget, now=1.0)
    with pytest.raises(LedgerError, match="another cost"):
        ledger.reserve(make(neighbouring="add-remove-one"), budget, now=1.0)
    ledger.confirm([make()], now=2.0)
    with pytest.raises(LedgerError, match="released before"):
        ledger.reserve(make(), budget, now=3.0)
    with pytest.raises(LedgerError, match="released before"):
        ledger.require_affordable(make(), budget)
    events, _ = ledger.load()
    assert [event.count for event in events] == [1]


def test_a_reservation_that_is_taken_up_must_be_paid_for_at_its_present_origins(
    ledger: OwnersLedger,
) -> None:
    elsewhere = Origin(kind="path", name="/data/others.csv")
    ledger.reserve(make(), BUDGET, now=0.0)
    ledger.reserve(make(holder=b"i" * 16, origin=elsewhere), BUDGET, now=0.0)
    with pytest.raises(BudgetExceededError):
        ledger.reserve(make(origin=elsewhere), BUDGET, now=1.0)
    ledger.reserve(make(), BUDGET, now=2.0)


def test_what_was_released_without_a_reservation_is_added_whatever_the_budget_says(
    ledger: OwnersLedger,
) -> None:
    ledger.confirm([make(sequence=i, stream=f"s{i}") for i in range(3)], now=0.0)
    with pytest.raises(BudgetExceededError):
        ledger.require_affordable(make(sequence=9), Budget(per_record=Fraction(3)))
    ledger.require_affordable(make(sequence=9), Budget(per_record=Fraction(4)))


def test_a_state_is_told_which_of_its_releases_are_confirmed(ledger: OwnersLedger) -> None:
    ledger.confirm([make(sequence=i) for i in range(3)], now=0.0)
    ledger.reserve(make(sequence=3), BUDGET, now=0.0)
    found = ledger.find_confirmed(b"h" * 16)
    assert [sequence for _, sequence in found] == [0, 1, 2]
    assert not ledger.find_confirmed(b"i" * 16)


def test_the_file_is_closed_to_others_and_a_foreign_one_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "owner.ledger"
    OwnersLedger(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    with pytest.raises(ConfigError, match="closed to others"):
        OwnersLedger(path)
    foreign = tmp_path / "foreign"
    connection = sqlite3.connect(foreign)
    connection.execute("CREATE TABLE mine (x)")
    connection.close()
    foreign.chmod(0o600)
    before = foreign.read_bytes()
    with pytest.raises(ConfigError, match="is not an owner's ledger"):
        OwnersLedger(foreign)
    assert foreign.read_bytes() == before
    garbage = tmp_path / "garbage"
    garbage.write_bytes(b"no database, and long enough to be looked at" * 100)
    garbage.chmod(0o600)
    with pytest.raises(StoreError):
        OwnersLedger(garbage)
    with pytest.raises(ConfigError, match="cannot be opened"):
        OwnersLedger(tmp_path / "absent" / "ledger")


def test_a_ledger_that_another_program_locks_or_that_has_no_locks_counts_nothing(
    ledger: OwnersLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sfumato.shared.spending.ledger._PRAGMAS", ("PRAGMA busy_timeout = 1",))
    connection = sqlite3.connect(ledger.path, isolation_level=None)
    connection.execute("BEGIN EXCLUSIVE")
    with pytest.raises(DiskError, match=r"^ledger .*locked.*SFUMATO_LEDGER"):
        ledger.reserve(make(), BUDGET, now=0.0)
    connection.close()
    assert ledger.load()[0] == []


def test_entries_are_never_deleted(ledger: OwnersLedger) -> None:
    ledger.reserve(make(), BUDGET, now=0.0)
    connection = sqlite3.connect(ledger.path)
    for table in ("entries", "origins"):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            connection.execute(f"DELETE FROM {table}")
    connection.close()


@pytest.mark.parametrize(
    "forged",
    [
        *("epsilon = '-1'", "epsilon = '0'", "epsilon = 'no number'", "epsilon = '1/0'"),
        *("delta = '-1'", "rho = '-1'", "neighbouring = 'none'", "holder = 'text'"),
    ],
)
def test_a_row_that_no_release_has_written_is_refused_by_name_and_gives_no_budget_back(
    forged: str, ledger: OwnersLedger
) -> None:
    ledger.reserve(make(), BUDGET, now=0.0)
    connection = sqlite3.connect(ledger.path)
    with connection:
        connection.execute(f"UPDATE entries SET {forged}")
    connection.close()
    before = ledger.path.read_bytes()
    for spend in (ledger.require_affordable, partial(ledger.reserve, now=0.0)):
        with pytest.raises(LedgerError, match=r"^ledger /.*sketch 0 of stream 'meter'"):
            spend(make(stream="other"), BUDGET)
    assert ledger.path.read_bytes() == before


_SPENDER = """
import sys
from fractions import Fraction
from pathlib import Path
from sfumato.shared.errors import BudgetExceededError
from sfumato.shared.spending import OwnersLedger, Reservation
from sfumato.shared.privacy import Budget, Origin, PrivacyEvent

path, name = Path(sys.argv[1]), sys.argv[2]
ledger, n_reserved = OwnersLedger(path), 0
for sequence in range(20):
    event = PrivacyEvent(
        study=b"s", stream=name, plan_digest=b"p", sequence=sequence, neighbouring="replace-one",
        epsilon=Fraction(1),
    )
    reservation = Reservation(
        sketch_id=f"{name} {sequence}".encode(),
        holder=name.encode(),
        event=event,
        origins=(Origin(kind="stdin", name=""),),
    )
    try:
        ledger.reserve(reservation, Budget(lifetime=Fraction(20)), now=0.0)
    except BudgetExceededError:
        break
    n_reserved += 1
print(n_reserved)
"""


def test_programs_that_spend_at_once_never_exceed_the_budget_together(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _SPENDER, str(tmp_path / "owner.ledger")]
    processes = [
        subprocess.Popen([*command, f"stream{i}"], stdout=subprocess.PIPE) for i in range(3)
    ]
    spent = [int(process.communicate()[0]) for process in processes]
    assert sum(spent) == 20
