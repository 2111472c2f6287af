"""An agent that is too old for the server: its sketches wait for the upgrade, and are then sent."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from sfumato.analyst import Client
from sfumato.shared.plan import plan_from_spec
from tests.system.agents import make_agent
from tests.system.servers import start_server
from tests.system.test_daemon import SLOT_S, SPEC


def test_an_agent_that_is_too_old_is_told_so_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "records.csv"
    lines = [f"{i},{i % 9 - 4},{i % 7 - 3}\n" for i in range(4 * SLOT_S)]
    data.write_text("time,x,y\n" + "".join(lines), encoding="utf-8")
    server = start_server(tmp_path)
    port = int(server.url.rpartition(":")[2])
    try:
        with Client(server.url, key=server.key) as client:
            study = client.create_study("steps", plan_from_spec(SPEC)).study_id
            agent = make_agent(tmp_path / "agent", client, study, data=data)
        assert agent.run("once", "--no-send").returncode in (0, 75)
    finally:
        server.stop()
    monkeypatch.setenv("SFUMATO_LEAST_AGENT", "99.0.0")
    server = start_server(tmp_path, port=port)
    try:
        refused = agent.run("once", "--send-for", "1")
        told = refused.stdout + refused.stderr
        assert refused.returncode == 75, told
        assert "must be version 99.0.0 or later, and is 0.1.0" in told
        assert "upgrade the agent" in told.lower()
        # Nobody else is kept out.
        answer = httpx.get(f"{server.url}/v1/studies/{study}/plan")
        assert answer.status_code == 200
        old = {"User-Agent": "sfumato-agent/98.9.9"}
        answer = httpx.get(f"{server.url}/v1/studies/{study}/plan", headers=old)
        assert (answer.status_code, answer.headers["upgrade"]) == (426, "sfumato-agent")
        new = {"User-Agent": "sfumato-agent/99.0.0.dev1"}
        assert httpx.get(f"{server.url}/v1/studies/{study}/plan", headers=new).status_code == 200
    finally:
        server.stop()
    monkeypatch.setenv("SFUMATO_LEAST_AGENT", "0.1.0")
    server = start_server(tmp_path, port=port)
    try:
        done = agent.run("once")
        assert done.returncode in (0, 75), done.stderr
        with Client(server.url, key=server.key) as client:
            (device,) = client.devices(study)
            assert device.n_sketches >= 3
            assert device.heartbeat is not None
            assert device.heartbeat.agent == "0.1.0"
    finally:
        server.stop()
