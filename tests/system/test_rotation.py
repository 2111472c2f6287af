"""A device changes its key at a real server: before, after, and with the answer lost."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from deploy.demo.cluster import Aggregator
from sfumato.analyst import Client
from sfumato.device_agent.agent.exchange.rotation import rotate_key
from sfumato.device_agent.server.http_connection import NoAnswerError
from sfumato.device_agent.server.messages import KeyOffer
from sfumato.device_agent.server.transport import ServerClient
from sfumato.device_agent.settings.agent_settings import load_settings
from sfumato.shared.plan import plan_from_spec
from sfumato.shared.wire import SKETCH_MEDIA_TYPE
from sfumato.shared.wire.objects.studies import SketchBody
from tests.device_agent.daemons import query
from tests.system.agents import Agent, make_agent
from tests.system.test_daemon import SLOT_S, SPEC, require_the_same_bytes


class Rotating:
    """A device at a server, and the operator who looks at both."""

    def __init__(self, folder: Path, server: Aggregator) -> None:
        self.records = folder / "records.csv"
        self.records.write_text("time,x,y\n", encoding="utf-8")
        self.n_slots = 0
        self.url = server.url
        self.operator = Client(server.url, key=server.key)
        study = self.operator.create_study(
            f"rotation {folder.name}", plan_from_spec(SPEC), allow_same_plan=True
        )
        self.study_id = study.study_id
        self.agent: Agent = make_agent(
            folder / "agent", self.operator, self.study_id, data=self.records
        )
        self.state = self.agent.config.parent / "state"

    def append(self) -> None:
        with self.records.open("a", encoding="utf-8") as file:
            file.writelines(f"{self.n_slots * SLOT_S + i},{i % 7},{i % 5}\n" for i in range(12))
        self.n_slots += 1

    def stored(self) -> list[SketchBody]:
        return list(self.operator.sketches(self.study_id))

    def resend(self) -> list[int]:
        """Send every sketch of the outbox once more, as it is."""
        statuses = []
        for sketch_id, message in query(self.state, "SELECT sketch_id, message FROM outbox"):
            assert isinstance(sketch_id, bytes)
            assert isinstance(message, bytes)
            answer = httpx.put(
                f"{self.url}/v1/studies/{self.study_id}/sketches/{sketch_id.hex()}",
                content=message,
                headers={"Content-Type": SKETCH_MEDIA_TYPE},
            )
            statuses.append(answer.status_code)
        return statuses


@pytest.fixture
def device(tmp_path: Path, server: Aggregator) -> Iterator[Rotating]:
    device = Rotating(tmp_path, server)
    yield device
    device.operator.close()


def test_a_device_with_another_key_is_the_same_and_what_it_sent_is_known(device: Rotating) -> None:
    device.append()
    assert device.agent.once()["sent"] == 1
    device.append()
    assert device.agent.run("once", "--no-send").returncode == 0
    done = device.agent.run("rotate-key", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["waiting"] == 1
    device.append()
    device.append()
    assert device.agent.once()["sent"] == 3
    stored = device.stored()
    assert sorted(sketch.sequence for sketch in stored) == [0, 1, 2, 3]
    require_the_same_bytes(device.state, stored)
    assert device.resend() == [200, 200, 200, 200]
    shown = device.operator.device(report["device_id"])
    assert [(key.key_id, key.state) for key in shown.keys] == [
        (report["key_id"], "present"),
        (report["old_key_id"], "retired"),
    ]
    # The owner says that the old key was stolen: what is stored stays, and the device goes on.
    device.operator.revoke_device(report["device_id"], reason="stolen", key_id=report["old_key_id"])
    device.append()
    assert device.agent.once()["sent"] == 1
    assert device.resend() == [200] * 5


@pytest.mark.parametrize("is_heard", [True, False])
def test_a_change_whose_answer_is_lost_is_finished_by_the_next_run(
    is_heard: bool, device: Rotating, monkeypatch: pytest.MonkeyPatch
) -> None:
    device.append()
    device.append()
    device.agent.once()
    change_key = ServerClient.change_key

    def lose(client: ServerClient, offer: KeyOffer) -> None:
        if is_heard:
            change_key(client, offer)
        raise NoAnswerError("the answer is lost")

    with monkeypatch.context() as patch:
        patch.setattr(ServerClient, "change_key", lose)
        with pytest.raises(NoAnswerError.__bases__[0], match="answer is lost"):
            rotate_key(load_settings(device.agent.config, {}), clock=time.time)
    # Released meanwhile, without a server, by the key that it cannot know to be the old one.
    device.append()
    settings = device.agent.config.read_text()
    device.agent.config.write_text(settings.replace(device.url, "http://127.0.0.1:9"))
    assert device.agent.run("once", "--no-send").returncode == 0
    device.agent.config.write_text(settings)
    device.append()
    report = device.agent.once()
    assert any("is finished" in message for message in report["messages"])
    assert (report["sent"], report["shelved"]) == (2, 0)
    require_the_same_bytes(device.state, device.stored())
