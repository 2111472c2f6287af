"""The operator's and analyst's commands, each as its own process, against a real server."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from analyst import Client
from deploy.demo.cluster import BIN, Aggregator
from shared.plan import plan_from_spec
from tests.system.agents import Agent, make_agent
from tests.system.test_daemon import SLOT_S, SPEC


@dataclass(frozen=True)
class Desk:
    """Where an operator sits, with a study and an enrolled device."""

    url: str
    key: str
    study: str
    agent: Agent
    folder: Path

    def run(self, *arguments: str, status: int = 0, key: bool = True) -> str:
        done = self._start(*arguments, key=key)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr

    def ask(self, *arguments: str, status: int = 0) -> Any:
        done = self._start(*arguments, "--json", key=True)
        assert done.returncode == status, done.stdout + done.stderr
        return json.loads(done.stdout)

    def _start(self, *arguments: str, key: bool) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "SFUMATO_URL": self.url, "COLUMNS": "200"}
        if key:
            environment["SFUMATO_KEY"] = self.key
        return subprocess.run(
            [BIN / "sfumato", *arguments],
            capture_output=True,
            text=True,
            check=False,
            env=environment,
        )

    @property
    def device(self) -> str:
        (found,) = self.ask("device", "list", self.study)
        return str(found["device_id"])


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    folder = tmp_path_factory.mktemp("desk")
    server = Aggregator.start(folder)
    try:
        with Client(server.url, key=server.key) as client:
            study = str(client.create_study("desk", plan_from_spec(SPEC))["study_id"])
            token = client.create_token(study)
        data = folder / "records.csv"
        lines = [f"{i},{i % 9 - 4},{i % 7 - 3}\n" for i in range(4 * SLOT_S)]
        data.write_text("time,x,y\n" + "".join(lines), encoding="utf-8")
        agent = make_agent(
            folder / "agent", data=data, url=server.url, study_id=study, site="north", token=token
        )
        assert agent.run("once", "--no-send").returncode in (0, 75)
        yield Desk(server.url, server.key, study, agent, folder)
    finally:
        server.stop()


def export(desk: Desk, sequence: int) -> Path:
    path = desk.folder / f"{sequence}.sketch"
    if not path.exists():
        done = desk.agent.run("export", "points", str(sequence), "--to", str(path))
        assert done.returncode == 0, done.stderr
    return path


def test_an_exported_sketch_is_imported_once_without_a_key(desk: Desk) -> None:
    path = str(export(desk, 0))
    assert "stored as" in desk.run("sketch", "import", path, key=False)
    assert "was there already" in desk.run("sketch", "import", path, key=False)
    (item,) = desk.ask("sketch", "import", path)
    assert (item["result"], item["study_id"]) == ("known", desk.study)
    assert len(desk.ask("sketch", "list", desk.study)) == 1
    assert "points" in desk.run("sketch", "list", desk.study)
    # The agent sends it too, which changes nothing.
    assert desk.agent.once()["sent"] == 4
    assert len(desk.ask("sketch", "list", desk.study)) == 4


def test_what_cannot_be_imported_is_refused_by_name_and_the_rest_is_taken(desk: Desk) -> None:
    good, broken, forged = export(desk, 1), desk.folder / "broken", desk.folder / "forged"
    broken.write_bytes(b"no sketch")
    data = bytearray(export(desk, 2).read_bytes())
    data[-1] ^= 1
    forged.write_bytes(data)
    paths = [str(path) for path in (broken, forged, desk.folder / "absent", good)]
    found = desk.ask("sketch", "import", *paths, status=2)
    assert [item["result"] for item in found] == ["refused", "refused", "refused", "known"]
    assert found[0]["problem"] == "malformed-message"
    assert "absent: cannot be read" in found[2]["detail"]
    assert all(item["detail"] for item in found[:3])


def test_an_import_says_that_no_server_answers(desk: Desk) -> None:
    path = str(export(desk, 0))
    said = desk.run("sketch", "import", path, "--url", "http://127.0.0.1:9", status=2)
    assert "does not answer" in said


def test_a_decode_is_started_watched_shown_and_cancelled(desk: Desk) -> None:
    desk.agent.once()
    started = desk.ask("decode", "start", desk.study, "-k", "2")
    assert len(desk.ask("decode", "watch", started["decode_id"])["weights"]) == 2
    assert "SNR" in desk.run("decode", "show", started["decode_id"])
    assert "is succeeded" in desk.run("decode", "cancel", started["decode_id"])


def test_a_device_is_listed_shown_and_excluded(desk: Desk) -> None:
    desk.agent.once()
    device = desk.device
    assert "enrolled" in desk.run("device", "list")
    shown = desk.run("device", "show", device)
    assert "site = north" in shown
    assert "stream points: sketch 3 was the last" in shown
    assert "agent 0.1.0" in shown
    done = desk.ask("device", "exclude", device, "--reason", "tampered with")
    assert done["n_subtracted"] == 4
    assert "because: tampered with" in desk.run("device", "show", device)
    # It was stored before, so that a second copy changes nothing still.
    assert "was there already" in desk.run("sketch", "import", str(export(desk, 0)))


def test_a_device_is_revoked(desk: Desk) -> None:
    desk.run("device", "revoke", desk.device, "--reason", "stolen")
    assert desk.ask("device", "show", desk.device)["state"] in ("revoked", "excluded")


def test_the_tokens_of_a_study_are_listed_and_revoked(desk: Desk) -> None:
    secret = desk.run("study", "token", desk.study, "--uses", "3").strip()
    token_id = hashlib.sha256(secret.encode()).hexdigest()
    first, made = desk.ask("study", "tokens", desk.study)
    assert (first["state"], first["uses_left"]) == ("used-up", 0)
    assert (made["state"], made["max_uses"], made["uses_left"]) == ("usable", 3, 3)
    shown = desk.run("study", "tokens", desk.study)
    assert token_id in shown
    assert secret not in shown
    said = desk.run("study", "revoke-token", token_id)
    assert f"token {token_id} is revoked; it enrolled 0 device(s)" in said
    assert desk.ask("study", "revoke-token", token_id)["state"] == "revoked"
    assert desk.ask("study", "tokens", desk.study)[1]["state"] == "revoked"


@pytest.fixture
def other(desk: Desk) -> str:
    created = desk.ask("study", "create", "other", str(write_plan(desk.folder)))
    return str(created["study_id"])


def write_plan(folder: Path) -> Path:
    path = folder / "plan.json"
    done = subprocess.run(
        [BIN / "sfumato", "plan", "new", "deploy/demo/plan.toml"],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    path.write_text(done.stdout, encoding="utf-8")
    return path


def test_a_study_is_closed_opened_shown_and_deleted(desk: Desk, other: str) -> None:
    assert "is closed and takes until" in desk.run("study", "close", other, "--accept-for", "2")
    assert "closed, takes what was on its way" in desk.run("study", "show", other)
    assert desk.ask("study", "open", other)["state"] == "open"
    assert "nothing was refused" in desk.run("sketch", "refusals", other)
    desk.run("study", "delete", other, "--confirm", "wrong", status=2)
    assert "is withdrawn" in desk.run("study", "delete", other, "--confirm", "other")
    desk.run("study", "show", other, status=2)


@pytest.mark.parametrize(
    "command",
    [
        *(("study", verb) for verb in ("create", "list", "show", "open", "close", "delete")),
        *(("study", verb) for verb in ("tokens", "revoke-token")),
        *(("device", verb) for verb in ("list", "show", "revoke", "exclude")),
        *(("sketch", verb) for verb in ("import", "list", "refusals")),
        *(("decode", verb) for verb in ("start", "show", "watch", "cancel")),
    ],
)
def test_the_help_of_every_command_has_an_example_and_json(
    command: tuple[str, str], desk: Desk
) -> None:
    text = desk.run(*command, "--help")
    assert "Example" in text
    assert f"sfumato {' '.join(command)}" in " ".join(text.split())
    assert "--json" in text
