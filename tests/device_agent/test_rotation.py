"""Another key: the device stays who it is, and no crash or lost answer locks it out."""

import json
import shutil
import sqlite3
import stat
from pathlib import Path
from typing import Any

import pytest

from sfumato.device_agent.agent.exchange.rotation import rotate_key
from sfumato.device_agent.store.key import KEY_NAME, NEXT_KEY_NAME, load_key
from sfumato.device_agent.store.key_change import MOST_KEPT
from sfumato.shared.errors import AccessError, ConfigError, SketchError, StoreError
from sfumato.shared.plan import SketchPlan, WindowRule
from sfumato.shared.wire import decode_message
from tests.device_agent.conftest import BASE, HOUR, Agent, make_plan
from tests.device_agent.daemons import daemon, query, stop, wait_until
from tests.device_agent.driver import Driver, put_back
from tests.device_agent.faults import Crash, Faults, injecting
from tests.device_agent.killing import list_kills
from tests.device_agent.serving import TOKEN, Server
from tests.soak import small_and_soak

NOW = BASE + 1000.0 * HOUR
SECRET = make_plan(
    neighbouring="add-remove-one",
    least_records=None,
    window=WindowRule(kind="time", origin=BASE, length_s=250 * HOUR),
)


def rotate(agent: Agent, status: int = 0) -> dict[str, Any]:
    assert agent.run("rotate-key", "--json") == status, agent.out + agent.err
    document: dict[str, Any] = json.loads(agent.out) if status == 0 else {}
    return document


def public_key(agent: Agent) -> bytes:
    ((key, _),) = agent.server.devices.values()
    return key


def bodies(agent: Agent) -> dict[int, set[bytes]]:
    found: dict[int, set[bytes]] = {}
    for _, body in agent.server.received:
        found.setdefault(decode_message(body).header.sequence, set()).add(body)
    return found


def test_the_device_keeps_its_identity_and_signs_with_its_new_key(enrolled: Agent) -> None:
    (identity,) = enrolled.server.devices
    enrolled.append(0, lines=5)
    enrolled.once()
    before = enrolled.keys.joinpath(KEY_NAME).read_bytes()
    report = rotate(enrolled)
    assert report["device_id"] == report["old_key_id"] == identity.hex()
    assert (report["waiting"], report["was_begun"]) == (0, False)
    assert enrolled.keys.joinpath(KEY_NAME).read_bytes() != before
    assert stat.S_IMODE(enrolled.keys.joinpath(KEY_NAME).stat().st_mode) == 0o600
    (kept,) = enrolled.keys.glob(f"{KEY_NAME}.*")
    assert (kept.read_bytes(), stat.S_IMODE(kept.stat().st_mode)) == (before, 0o600)
    enrolled.append(1, lines=5)
    assert enrolled.once()["sent"] == 1
    first, second = (message for _, message in sorted(_by_number(enrolled.server).items()))
    assert first.header.device == second.header.device == identity
    second.verify(public_key(enrolled))
    # Again, and whoever enrols again is the same.
    assert rotate(enrolled)["old_key_id"] == report["key_id"]
    assert enrolled.run("init", "--token", "sfe_used_up") == 0
    assert f"device {identity.hex()} was enrolled already" in enrolled.out
    assert enrolled.run("check") == 0


def _by_number(server: Server) -> dict[int, Any]:
    return {message.header.sequence: message for message in server.stored.values()}


def test_it_says_what_happened_and_what_to_do_next(enrolled: Agent) -> None:
    enrolled.append(0, lines=5)
    enrolled.once("--no-send")
    assert enrolled.run("rotate-key") == 0
    (identity,) = enrolled.server.devices
    key = load_key(enrolled.keys)
    assert key is not None
    assert f"device {identity.hex()} signs with key {key.key_id.hex()}" in enrolled.out
    assert "1 sketch(es) that it has signed wait" in enrolled.out
    assert f"sfumato device revoke {identity.hex()} --key-id {identity.hex()}" in enrolled.out


def test_what_waits_is_sent_as_the_old_key_signed_it_and_sent_again_the_same(
    enrolled: Agent,
) -> None:
    enrolled.append(0, 1, lines=5)
    enrolled.once("--no-send")
    ((first,), (second,)) = query(enrolled.state, "SELECT message FROM outbox ORDER BY sequence")
    rotate(enrolled)
    enrolled.append(2, lines=5)
    assert enrolled.once()["sent"] == 3
    enrolled.server.generation = "b" * 32
    enrolled.server.stored.clear()
    assert enrolled.once()["sent"] == 3
    assert bodies(enrolled)[0] == {first}
    assert bodies(enrolled)[1] == {second}
    assert [len(seen) for seen in bodies(enrolled).values()] == [1, 1, 1]


def restore(server: Server, before: tuple[Any, ...], generation: str) -> None:
    """Let the server be what it was, in another life of its database."""
    server.devices, server.stored = dict(before[0]), dict(before[1])
    server.retired.clear()
    server.generation = generation


def remember(server: Server) -> tuple[Any, ...]:
    return dict(server.devices), dict(server.stored)


@pytest.mark.parametrize("n_changes", [1, 3])
def test_a_server_restored_to_before_its_change_learns_the_present_key_and_what_it_lost(
    n_changes: int, enrolled: Agent
) -> None:
    enrolled.append(0, lines=5)
    enrolled.once()
    before = remember(enrolled.server)
    for slot in range(1, n_changes + 1):
        enrolled.append(slot, lines=5)
        enrolled.once()
        rotate(enrolled)
    enrolled.append(n_changes + 1, lines=5)
    enrolled.once()
    present = public_key(enrolled)
    restore(enrolled.server, before, "b" * 32)
    enrolled.append(n_changes + 2, lines=5)
    report = enrolled.once()
    assert (report["shelved"], report["waiting"]) == (0, 0)
    assert any("was restored from a backup" in message for message in report["messages"])
    assert public_key(enrolled) == present
    assert len(enrolled.server.retired) == n_changes
    assert sorted(_by_number(enrolled.server)) == list(range(n_changes + 3))
    assert all(len(seen) == 1 for seen in bodies(enrolled).values())
    assert enrolled.once()["messages"] == []


def test_a_server_of_the_same_life_is_never_shown_a_key_that_was_replaced(enrolled: Agent) -> None:
    before = remember(enrolled.server)
    rotate(enrolled)
    restore(enrolled.server, before, enrolled.server.generation)
    enrolled.server.requests.clear()
    assert enrolled.run("once") != 0
    assert not [request for request in enrolled.server.requests if request.startswith("POST")]
    assert public_key(enrolled) == before[0][next(iter(before[0]))][0]


def test_a_clone_brings_no_key_to_a_restored_server_that_knows_more(enrolled: Agent) -> None:
    before = remember(enrolled.server)
    rotate(enrolled)
    restore(enrolled.server, before, "b" * 32)
    enrolled.server.extra_sequences = {"meter": 7}
    assert enrolled.run("once") == 3
    assert "this ledger never sent (meter 0-7)" in enrolled.err
    assert not enrolled.server.retired
    assert query(enrolled.state, "SELECT suspended IS NOT NULL FROM streams") == [(1,)]


def test_without_the_replaced_key_the_refusal_stands(enrolled: Agent) -> None:
    before = remember(enrolled.server)
    rotate(enrolled)
    restore(enrolled.server, before, "b" * 32)
    for kept in enrolled.keys.glob(f"{KEY_NAME}.retired-*"):
        kept.unlink()
    assert enrolled.run("once") != 0
    assert not enrolled.server.retired


def test_the_daemon_shows_a_restored_server_its_present_key(enrolled: Agent) -> None:
    before = remember(enrolled.server)
    rotate(enrolled)
    with daemon(enrolled.config) as process:
        enrolled.append(0, lines=5)
        wait_until(lambda: len(enrolled.server.stored) == 1)
        restore(enrolled.server, before, "b" * 32)
        # Refused first, for the server does not know its key yet; kept, and sent again.
        enrolled.append(1, lines=5)
        wait_until(lambda: len(enrolled.server.stored) == 2)
        assert stop(process) == 0
    assert query(enrolled.state, "SELECT COUNT(*) FROM outbox WHERE state = 'shelved'") == [(0,)]


def test_so_many_replaced_keys_are_kept_and_no_more(enrolled: Agent) -> None:
    for _ in range(MOST_KEPT + 2):
        rotate(enrolled)
    assert len(list(enrolled.keys.glob(f"{KEY_NAME}.retired-*"))) == MOST_KEPT
    # They are erased with the device.
    enrolled.run("forget", "--yes")
    assert not list(enrolled.keys.glob(f"{KEY_NAME}*"))


@pytest.mark.parametrize("answer", [None, 503])
def test_while_the_answer_is_lost_nothing_is_sent_and_everything_else_goes_on(
    answer: int | None, enrolled: Agent
) -> None:
    enrolled.append(0, lines=5)
    enrolled.once("--no-send")
    enrolled.server.key_answers = [answer]
    rotate(enrolled, status=75)
    assert "run `sfumato-agent rotate-key` again" in enrolled.err.replace("Run", "run")
    assert enrolled.run("status") == 0
    assert "a change of keys is not finished" in enrolled.out
    assert enrolled.run("init", "--token", TOKEN) == 2
    assert "rotate-key" in enrolled.err
    enrolled.server.stop()
    enrolled.append(1, lines=5)
    assert enrolled.once(status=75)["released"] == 1
    enrolled.server.start()
    report = enrolled.once()
    assert (report["sent"], report["shelved"]) == (2, 0)
    assert any("is finished" in message for message in report["messages"])
    enrolled.append(2, lines=5)
    assert enrolled.once()["sent"] == 1
    _by_number(enrolled.server)[2].verify(public_key(enrolled))


def test_the_command_finishes_what_it_began_and_begins_nothing_else(enrolled: Agent) -> None:
    enrolled.server.key_answers = [None]
    rotate(enrolled, status=75)
    taken = public_key(enrolled)
    assert rotate(enrolled)["was_begun"]
    assert public_key(enrolled) == taken
    assert len(enrolled.server.retired) == 1


def test_a_key_that_was_taken_is_used_though_the_old_one_is_revoked_since(enrolled: Agent) -> None:
    enrolled.server.key_answers = [None, AccessError("was revoked", field="device")]
    rotate(enrolled, status=75)
    enrolled.append(0, lines=5)
    assert enrolled.once()["sent"] == 1
    _by_number(enrolled.server)[0].verify(public_key(enrolled))


def test_a_key_that_the_server_refuses_is_forgotten_and_the_old_one_kept(enrolled: Agent) -> None:
    before = public_key(enrolled)
    enrolled.server.key_answers = [ConfigError("is or was in use", field="public_key")]
    rotate(enrolled, status=2)
    assert "public_key: is or was in use" in enrolled.err
    assert not (enrolled.keys / NEXT_KEY_NAME).exists()
    enrolled.append(0, lines=5)
    assert enrolled.once()["sent"] == 1
    assert public_key(enrolled) == before


def test_a_key_that_may_still_be_taken_is_not_forgotten(enrolled: Agent) -> None:
    # An earlier request of the same device is under way at the server.
    enrolled.server.key_answers = [StoreError("is being replaced", field="public_key")]
    rotate(enrolled, status=75)
    assert (enrolled.keys / NEXT_KEY_NAME).exists()
    assert rotate(enrolled)["was_begun"]


def test_a_clone_or_restored_backup_does_not_lock_the_device_out(enrolled: Agent) -> None:
    enrolled.server.extra_sequences = {"meter": 7}
    rotate(enrolled, status=3)
    assert "this ledger never sent (meter 0-7)" in enrolled.err
    # Nor once that is known and counted, until the owner has looked.
    rotate(enrolled, status=3)
    assert "is suspended" in enrolled.err
    assert not enrolled.server.retired
    assert not (enrolled.keys / NEXT_KEY_NAME).exists()
    assert enrolled.run("resume", "meter", "--i-understand") == 0
    rotate(enrolled)


def test_without_the_next_key_nothing_is_released_until_it_is_back(enrolled: Agent) -> None:
    enrolled.server.key_answers = [None]
    rotate(enrolled, status=75)
    path = enrolled.keys / NEXT_KEY_NAME
    kept = path.rename(enrolled.folder / "kept")
    enrolled.append(0, lines=5)
    assert enrolled.run("once") == 3
    assert f"must hold {NEXT_KEY_NAME}" in enrolled.err
    kept.rename(path)
    assert enrolled.once()["sent"] == 1


def test_a_forgotten_device_leaves_no_key_that_was_to_follow(enrolled: Agent) -> None:
    enrolled.server.key_answers = [None]
    rotate(enrolled, status=75)
    shutil.copy(enrolled.keys / KEY_NAME, enrolled.keys / f"{NEXT_KEY_NAME}.part")
    assert enrolled.run("forget", "--yes") == 0
    assert not list(enrolled.keys.glob(f"{KEY_NAME}*"))
    enrolled.server.tokens[TOKEN] = 1
    enrolled.init()
    assert len(enrolled.server.devices) == 2


@pytest.mark.parametrize("when", ["open", "finished"])
def test_a_database_that_lost_the_change_is_made_again_with_it(when: str, enrolled: Agent) -> None:
    enrolled.append(0, lines=5)
    enrolled.once()
    database = enrolled.state / "agent.sqlite"
    before = database.read_bytes()
    enrolled.server.key_answers = [None] if when == "open" else []
    rotate(enrolled, status=75 if when == "open" else 0)
    database.write_bytes(before)
    enrolled.append(1, lines=5)
    report = enrolled.once()
    assert any("lacks a change of keys" in message for message in report["messages"])
    assert (report["sent"], report["shelved"]) == (1, 0)
    _by_number(enrolled.server)[1].verify(public_key(enrolled))


@pytest.mark.parametrize("digit", ["0", "f"])
def test_a_key_that_flipped_in_the_database_is_read_from_the_journal(
    digit: str, enrolled: Agent
) -> None:
    rotate(enrolled)
    with sqlite3.connect(enrolled.state / "agent.sqlite") as connection:
        ((keys,),) = connection.execute("SELECT value FROM meta WHERE key = 'keys'")
        flipped = keys.replace(public_key(enrolled).hex(), digit * 64)
        connection.execute("UPDATE meta SET value = ? WHERE key = 'keys'", (flipped,))
    connection.close()
    enrolled.append(0, lines=5)
    report = enrolled.once()
    assert any(
        "a row of meta is not as it was written" in message for message in report["messages"]
    )
    assert report["sent"] == 1


@pytest.mark.parametrize("name", ["agent.sqlite", "spent.journal"])
def test_what_is_lost_of_the_state_is_made_again_with_an_open_change(
    name: str, enrolled: Agent
) -> None:
    enrolled.server.key_answers = [None]
    rotate(enrolled, status=75)
    (enrolled.state / name).unlink()
    enrolled.append(0, lines=5)
    assert enrolled.once()["sent"] == 1
    (enrolled.state / name).unlink()
    enrolled.append(1, lines=5)
    assert enrolled.once()["sent"] == 1


def test_the_daemon_finishes_an_open_change_before_it_sends(enrolled: Agent) -> None:
    enrolled.append(0, lines=5)
    enrolled.once("--no-send")
    enrolled.server.key_answers = [None]
    rotate(enrolled, status=75)
    enrolled.append(1, lines=5)
    enrolled.server.stop()
    with daemon(enrolled.config) as process:
        # Without a server it goes on reading, with the key that it has.
        wait_until(lambda: len(query(enrolled.state, "SELECT 1 FROM events")) == 2)
        enrolled.server.key_answers = [503]
        enrolled.server.start()
        wait_until(lambda: len(enrolled.server.stored) == 2)
        enrolled.append(2, lines=5)
        wait_until(lambda: len(enrolled.server.stored) == 3)
        assert enrolled.run("rotate-key") == 3
        assert "cannot be used by two sfumato-agents" in enrolled.err
        assert stop(process) == 0
    _by_number(enrolled.server)[2].verify(public_key(enrolled))
    assert query(enrolled.state, "SELECT COUNT(*) FROM outbox WHERE state = 'shelved'") == [(0,)]
    assert "is finished" in (enrolled.folder / "daemon.log").read_text()


class Stage:
    """A device with sketches sent and waiting, as often as it is asked for."""

    def __init__(self, folder: Path, server: Server) -> None:
        folder.mkdir()
        self.server = server
        self.driver = Driver(folder, server, clock=lambda: NOW)
        self.driver.enrol()
        self.driver.append(0, 1, lines=3)
        self.driver.once()
        self.driver.once()
        self.driver.append(300, 301, lines=3)
        self.driver.once(send=False)
        self._copy = folder / "copy"
        shutil.copytree(self.driver.state, self._copy)
        self._records = self.driver.records.read_text()
        self._kept = remember(server)

    def reset(self) -> None:
        put_back(self._copy, self.driver.state)
        self.driver.records.write_text(self._records)
        restore(self.server, self._kept, self.server.generation)
        self.server.received.clear()


@small_and_soak("every", False, True)
@pytest.mark.parametrize("plan", [make_plan(), SECRET], ids=["replace-one", "add-remove-one"])
def test_wherever_it_dies_the_device_has_the_key_that_the_server_takes(
    plan: SketchPlan, every: bool, tmp_path: Path
) -> None:
    server = Server(plan, clock=lambda: NOW)
    server.start()
    try:
        with injecting() as faults:
            stage = Stage(tmp_path / "stage", server)
            # What differs where presence is secret is not how a write fails.
            for kind in ("before", "after", "full") if every or plan is not SECRET else ("after",):
                stage.reset()
                die(stage, faults, kind, 0)
                assert len(faults.names) > 15
                for at in list_kills(faults.names, every=every):
                    stage.reset()
                    is_done = die(stage, faults, kind, at)
                    require_whole(stage)
                assert is_done
                assert len(server.retired) == 1
    finally:
        server.stop()


def die(stage: Stage, faults: Faults, kind: str, at: int) -> bool:
    """Change the key with a fault at one of the writes; tell whether it was not reached."""
    faults.arm(kind if at else "", at)
    try:
        rotate_key(stage.driver.settings, clock=stage.driver.clock)
    except (Crash, SketchError):
        return False
    finally:
        is_reached = faults.count >= at
        faults.disarm()
    return not is_reached


def require_whole(stage: Stage) -> None:
    """Check that the next run sends all of it, and the one after that signs anew."""
    driver, server = stage.driver, stage.server
    waiting = dict(
        query(driver.state, "SELECT sketch_id, message FROM outbox WHERE state = 'waiting'")
    )
    for _ in range(2):
        report = driver.once()
        assert not report.errors
        assert (report.outbox.waiting, report.outbox.shelved) == (0, 0)
    assert not (driver.keys / NEXT_KEY_NAME).exists() or not server.retired
    key = load_key(driver.keys)
    assert key is not None
    ((present, _),) = server.devices.values()
    assert key.public_bytes == present
    for sketch_id, body in server.received:
        assert waiting.get(sketch_id, body) == body
    assert sorted(_by_number(server)) == list(range(4))
