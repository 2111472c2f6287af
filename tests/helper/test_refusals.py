"""What a helper must not give away: order of its work, times of its answers, and its keys."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from sfumato.helper.app import create_app
from sfumato.shared.errors import ConfigError, NotFoundError
from sfumato.shared.plan import compute_plan_digest
from sfumato.shared.privacy import RandomSource
from sfumato.shared.sharing.batches import compute_members, compute_report
from sfumato.shared.sharing.masks import expand_mask
from sfumato.shared.system import SystemSource
from sfumato.shared.wire.sum_messages import SUM_MEDIA_TYPE, CommitRequest, ReportsRequest
from tests.helper.conftest import World
from tests.shared.sharing.samples import make_draft


class WatchedSource(RandomSource):
    """The operating system's generator, which notes when it is asked."""

    def __init__(self, notes: list[str]) -> None:
        self._notes, self._source = notes, SystemSource()

    def draw_bytes(self, n_bytes: int) -> bytes:
        self._notes.append("noise")
        return self._source.draw_bytes(n_bytes)


def test_noise_is_drawn_before_any_mask_is_expanded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the time of a draw could tell something of the masks."""
    notes: list[str] = []

    def note(*arguments: Any, **options: Any) -> Any:
        notes.append("mask")
        return expand_mask(*arguments, **options)

    monkeypatch.setattr("sfumato.helper.batches.expand_mask", note)
    world = World(folder=tmp_path, address=str(tmp_path / "helper.db"), source=WatchedSource(notes))
    reports = world.reports(3)
    world.check(reports)
    notes.clear()

    world.commit(reports)
    world.close()

    assert notes.count("mask") == 3
    assert notes.index("mask") > notes.count("noise") - 1
    assert "noise" in notes


def test_an_answer_leaves_at_a_whole_second(tmp_path: Path) -> None:
    """Two reports take milliseconds; their answer takes a second, and others' meanwhile do not."""
    world = World(folder=tmp_path, address=str(tmp_path / "helper.db"))
    reports = world.reports(2)
    world.check(reports)
    world.add_leader("secret")
    app = create_app(world.engine, world.batches, version="1")
    request = CommitRequest(
        members=compute_members(compute_report(each.data) for each in reports), count=2
    )

    async def ask() -> tuple[float, float]:
        transport = httpx.ASGITransport(app=app)
        headers = {"Authorization": "Bearer secret", "Content-Type": SUM_MEDIA_TYPE}
        path = f"/v1/batches/{world.key().batch_id.hex()}"
        async with httpx.AsyncClient(
            transport=transport, base_url="http://helper", headers=headers
        ) as http:

            async def commit() -> float:
                begun = time.monotonic()
                answer = await http.post(f"{path}/commit", content=request.encode())
                assert answer.status_code == 200
                return time.monotonic() - begun

            async def show() -> float:
                begun = time.monotonic()
                assert (await http.get(path)).status_code == 200
                return time.monotonic() - begun

            return tuple(await asyncio.gather(commit(), show()))  # type: ignore[return-value]

    committed, shown = asyncio.run(ask())
    world.close()

    assert committed >= 1.0
    assert shown < committed


def test_no_key_is_in_the_database(tmp_path: Path) -> None:
    world = World(folder=tmp_path, address=str(tmp_path / "helper.db"))
    world.check(world.reports(2))
    keys = [path.read_bytes() for path in (tmp_path / "keys").iterdir()]
    held = b"".join(path.read_bytes() for path in tmp_path.glob("helper.db*"))
    world.close()

    assert len(keys) == 2
    assert all(len(key) == 32 for key in keys)
    assert not any(key in held for key in keys)


def test_a_leader_reaches_the_batches_of_its_own_plan_alone(tmp_path: Path) -> None:
    world = World(folder=tmp_path, address=str(tmp_path / "helper.db"))
    for name in ("Ours", "Theirs"):
        world.add_leader(name)
    plans = world.batches.plans
    assert plans.choose_leader("Ours") == "Ours"
    for unknown in (None, "Others"):
        with pytest.raises(ConfigError, match="must be one of Ours, Theirs"):
            plans.choose_leader(unknown)
    world.plan = plans.accept(make_draft(most_records=7), name="Us", now=0.0, leader="Ours")
    world.digest = compute_plan_digest(world.plan)
    reports = world.reports(2)
    asked = ReportsRequest(batch=world.key(), headers=tuple(each.data for each in reports))
    members = compute_members(compute_report(each.data) for each in reports)
    path = f"/v1/batches/{world.key().batch_id.hex()}"
    calls = (
        ("PUT", f"{path}/reports", asked.encode()),
        ("GET", path, None),
        ("GET", f"{path}/reports", None),
        ("POST", f"{path}/commit", CommitRequest(members=members, count=2).encode()),
        ("POST", f"{path}/acknowledgement", b"rubbish"),
    )
    app = create_app(world.engine, world.batches, version="1", step_s=0.001)

    async def ask(secret: str, method: str, url: str, body: bytes | None) -> int:
        transport = httpx.ASGITransport(app=app)
        headers = {"Authorization": f"Bearer {secret}", "Content-Type": SUM_MEDIA_TYPE}
        async with httpx.AsyncClient(transport=transport, base_url="http://helper") as http:
            answer = await http.request(method, url, content=body, headers=headers)
        return answer.status_code

    for method, url, body in calls:
        assert asyncio.run(ask("Theirs", method, url, body)) == 403, url
        if body == asked.encode():
            with pytest.raises(NotFoundError):
                world.batches.show(world.key().batch_id)
        status = asyncio.run(ask("Ours", method, url, body))
        assert status in ((200, 204) if body != b"rubbish" else (400,)), (url, status)
    assert world.batches.show(world.key().batch_id)[0] == "answered"
    world.close()


def test_a_body_that_breaks_off_is_no_failure_of_the_helper(tmp_path: Path) -> None:
    world = World(folder=tmp_path, address=str(tmp_path / "helper.db"))
    world.add_leader("secret")
    app = create_app(world.engine, world.batches, version="1")
    headers = {b"authorization": b"Bearer secret", b"content-type": SUM_MEDIA_TYPE.encode()}
    scope: dict[str, Any] = {
        "type": "http",
        "method": "PUT",
        "path": f"/v1/batches/{world.key().batch_id.hex()}/reports",
        "headers": list(headers.items()),
    }
    coming = [
        {"type": "http.request", "body": b"begun", "more_body": True},
        {"type": "http.disconnect"},
    ]
    sent: list[Any] = []

    async def receive() -> Any:
        return coming.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    world.close()
    assert sent[0]["status"] == 499
