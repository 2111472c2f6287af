"""The journal of answers, and databases that were restored from backups."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sfumato.helper.journal import Entry, Journal
from sfumato.shared.errors import ConfigError, HelperRestoredError, NotFoundError
from tests.forking import Forked, run_forked
from tests.helper.conftest import HOUR, ORIGIN, World

ENTRY = Entry(kind="answer", values=("ab" * 32, "cd" * 32, "ef" * 32, "1000000"))


def test_a_journal_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal = Journal.open(path)
    for entry in (ENTRY, Entry(kind="restored", values=("1",)), ENTRY):
        journal.append(entry)

    assert Journal.open(path).entries == journal.entries


def test_a_last_line_that_a_crash_cut_off_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    Journal.open(path).append(ENTRY)
    whole = path.read_bytes()
    Journal.open(path).append(Entry(kind="answer", values=("01" * 32, "02" * 32, "03" * 32, "5")))
    path.write_bytes(path.read_bytes()[:-7])

    assert Journal.open(path).entries == [ENTRY]
    assert path.read_bytes() == whole


@pytest.mark.parametrize("place", [0, 70, 140, -5])
def test_an_altered_line_is_found(tmp_path: Path, place: int) -> None:
    path = tmp_path / "journal"
    journal = Journal.open(path)
    journal.append(ENTRY)
    journal.append(Entry(kind="restored", values=("1",)))
    data = bytearray(path.read_bytes())
    data[place] = ord("x")
    path.write_bytes(bytes(data))

    with pytest.raises(ConfigError, match="was altered, or a line before it is missing"):
        Journal.open(path)


def test_a_missing_line_is_found(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal = Journal.open(path)
    journal.append(ENTRY)
    journal.append(Entry(kind="restored", values=("1",)))
    path.write_text(path.read_text().split("\n", 1)[1])

    with pytest.raises(ConfigError, match="at line 1"):
        Journal.open(path)


def answer(world: World, *, slot: int = 0) -> None:
    reports = [world.report(100 * slot + i, slots=(slot, slot)) for i in range(3)]
    key = world.key(slot=slot)
    world.check(reports, key)
    world.commit(reports, key)


def test_a_helper_that_was_not_restored_serves(world: World) -> None:
    world.batches.require_up_to_date()
    answer(world)
    world.restart()
    world.batches.require_up_to_date()


def test_a_line_that_a_crash_kept_out_is_written_at_the_next_start(world: World) -> None:
    answer(world)
    journal = world.folder / "helper.journal"
    whole = journal.read_bytes()
    journal.unlink()
    world.restart()

    world.batches.require_up_to_date()

    assert journal.read_bytes() == whole


def test_a_restored_database_does_not_serve_until_its_operator_says_so(
    sqlite_world: World,
) -> None:
    world = sqlite_world
    waiting = [world.report(50 + i) for i in range(2)]
    world.check(waiting, world.key(number=1))
    world.back_up()
    answer(world)
    world.put_back()

    with pytest.raises(HelperRestoredError, match="a backup was restored"):
        world.batches.require_up_to_date()
    assert world.batches.mark_restored()[0] == 2
    world.restart()
    world.batches.require_up_to_date()

    # What the database forgot is burnt, with all other reports of the slot; later slots count.
    assert world.check([world.report(i) for i in range(3)]) == ["burnt"] * 3
    assert world.check([world.report(100, slots=(1, 1))], world.key(slot=1)) == ["burnt"]
    world.time += HOUR
    assert world.check([world.report(200, slots=(2, 2))], world.key(slot=2)) == ["accepted"]


def test_a_database_that_was_restored_twice_is_found_again(sqlite_world: World) -> None:
    world = sqlite_world
    world.back_up()
    world.batches.mark_restored()
    world.put_back()

    with pytest.raises(HelperRestoredError):
        world.batches.require_up_to_date()


def test_a_line_that_does_not_fit_the_disk_is_no_line(tmp_path: Path) -> None:
    """The system writes what fits, and calls that no error."""
    path = tmp_path / "journal"
    script = f"""
import resource
from pathlib import Path
from sfumato.helper.journal import Entry, Journal
from sfumato.shared.errors import DiskError
path = Path({str(path)!r})
journal = Journal.open(path)
journal.append(Entry(kind="restored", values=("1",)))
whole = path.read_bytes()
limits = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) + 20, limits[1]))
answer = Entry(kind="answer", values=("ab" * 32, "cd" * 32, "ef" * 32))
try:
    journal.append(answer)
    raise SystemExit("no error")
except DiskError:
    pass
assert path.read_bytes() == whole
assert not journal.has_answer("ab" * 32)
resource.setrlimit(resource.RLIMIT_FSIZE, limits)
journal.append(answer)
assert Journal.open(path).entries == journal.entries
"""
    done = run_forked([sys.executable, "-c", script])
    assert done.returncode == 0, done.stderr


def test_a_restored_helper_takes_no_report_of_a_slot_that_may_have_been_answered(
    sqlite_world: World,
) -> None:
    """Reports of a slot are taken shortly before it begins, for clocks differ."""
    world = sqlite_world
    world.time = ORIGIN + HOUR - 100
    key = world.key(slot=1)
    world.batches.mark_restored()

    assert world.check([world.report(1, slots=(1, 1))], key) == ["burnt"]


def test_a_restored_helper_whose_clock_is_behind_burns_what_it_answered(
    sqlite_world: World,
) -> None:
    world = sqlite_world
    world.back_up()
    world.time += 5 * HOUR
    answer(world, slot=5)
    world.put_back()
    world.time -= 5 * HOUR
    world.batches.mark_restored()
    world.time += 5 * HOUR

    assert world.check([world.report(500, slots=(5, 5))], world.key(slot=5)) == ["burnt"]
    world.time += HOUR
    assert world.check([world.report(600, slots=(6, 6))], world.key(slot=6)) == ["accepted"]


def test_one_process_at_a_time_writes_a_journal(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    Journal.open(path).append(ENTRY)
    script = f"""
from pathlib import Path
from sfumato.helper.journal import Journal
Journal.open(Path({str(path)!r}), is_alone=True)
print("locked", flush=True)
input()
"""
    other: subprocess.Popen[bytes] = Forked(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert other.stdout is not None
    assert other.stdout.readline() == b"locked\n"

    with pytest.raises(ConfigError, match="is in use by another process"):
        Journal.open(path, is_alone=True)

    other.kill()
    other.communicate()
    Journal.open(path, is_alone=True)


def test_a_database_that_is_put_back_under_a_running_helper_answers_nothing(
    sqlite_world: World,
) -> None:
    """Else the same reports, in the same batch or another, would get a second noise."""
    world = sqlite_world
    reports = [world.report(i) for i in range(3)]
    world.check(reports)
    world.back_up()
    first = world.commit(reports)
    world.put_back(restarts=False)

    with pytest.raises(HelperRestoredError, match="a backup was restored"):
        world.commit(reports)
    with pytest.raises(HelperRestoredError):
        world.check(reports, world.key(number=1))

    assert first
    assert world.batches.show(world.key().batch_id)[0] == "open"


def test_a_helper_that_went_on_after_a_restore_serves(sqlite_world: World) -> None:
    world = sqlite_world
    answer(world)
    world.batches.mark_restored()
    world.time += 2 * HOUR

    answer(world, slot=3)


def test_a_helper_that_forgot_a_total_gives_no_answer_again(sqlite_world: World) -> None:
    """Or the other server, restored too, would add a second noise and show a second total."""
    world = sqlite_world
    reports, key = [world.report(i) for i in range(3)], world.key()
    answer(world)
    world.back_up()
    total = bytes(world.plan.n_coordinates * world.plan.payload_width)
    world.batches.acknowledge(key.batch_id, total)
    world.put_back(restarts=False)
    with pytest.raises(HelperRestoredError, match="a backup was restored"):
        world.commit(reports)
    world.restart()
    with pytest.raises(HelperRestoredError, match="a backup was restored"):
        world.batches.require_up_to_date()
    world.batches.mark_restored()
    world.batches.require_up_to_date()

    with pytest.raises(NotFoundError):
        world.commit(reports)
    assert world.check(reports) == ["burnt"] * 3


def test_a_total_of_a_batch_that_a_restored_helper_forgot_is_taken_note_of(
    sqlite_world: World,
) -> None:
    """Its reports are burnt, so there is no answer any more that could be given twice."""
    world = sqlite_world
    world.back_up()
    answer(world)
    world.put_back()
    world.batches.mark_restored()
    total = bytes(world.plan.n_coordinates * world.plan.payload_width)

    world.batches.acknowledge(world.key().batch_id, total)

    with pytest.raises(NotFoundError):
        world.batches.acknowledge(world.key(number=7).batch_id, total)
