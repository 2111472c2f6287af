"""Many who follow one decode are told alike, by one look at the database."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from sqlalchemy import event

from sfumato.aggregator.resources.jobs.record import DecodeRecord
from sfumato.aggregator.resources.keys.record import KeyRecord
from sfumato.shared.errors import AccessError
from tests.aggregator.databases import open_kind
from tests.aggregator.fleet import Device, make_plan
from tests.aggregator.serving import Server, open_server

pytestmark = pytest.mark.anyio


async def queue(server: Server) -> tuple[DecodeRecord, KeyRecord]:
    plan, device, desk = make_plan(), Device(1), server.desk
    study = await desk.open(device, plan=plan)
    await desk.put(study, *device.message(study, plan))
    made = await desk.post(f"/v1/studies/{study.hex()}/decodes", {"n_clusters": 2})
    decode = await server.services.decodes.get(bytes.fromhex(made.json()["decode_id"]))
    _, key = await server.services.keys.create(name="wall", scope="analyst")
    return decode, key


async def follow(
    server: Server, decode: DecodeRecord, key: KeyRecord, states: list[str] | None = None
) -> list[str]:
    """Follow a decode to its end; return the states that were told, and note each at once."""
    watch, told = server.services.watch, decode
    states = [] if states is None else states
    states.append(str(told.state))
    with watch.follow(told, key):
        while told.finished is None:
            until = asyncio.get_running_loop().time() + 60
            now = await watch.next(told, key, until=until)
            assert now is not None
            told = now
            states.append(str(told.state))
    return states


async def test_one_look_serves_all_and_all_are_told_the_same(tmp_path: Path) -> None:
    async with open_kind("sqlite", tmp_path) as store, open_server(store) as server:
        decode, key = await queue(server)
        looks: list[str] = []

        def note(_c: object, _k: object, statement: str, *_: object) -> None:
            if "FROM decodes" in statement or "FROM api_keys" in statement:
                looks.append(statement)

        event.listen(store.engine.sync_engine, "before_cursor_execute", note)
        told: list[list[str]] = [[] for _ in range(200)]
        followers = [asyncio.create_task(follow(server, decode, key, each)) for each in told]
        await asyncio.sleep(2.2)
        # Of the decode and of the key, once in half a second.
        assert 2 <= len(looks) < 100
        assert await server.services.jobs.take(lease_s=60.0) is not None
        while not all("running" in each for each in told):
            await asyncio.sleep(0.05)
        await server.services.decodes.cancel(decode.decode_id)
        assert await asyncio.gather(*followers) == [["queued", "running", "cancelled"]] * 200
        looks.clear()
        await asyncio.sleep(0.8)
        assert looks == [], "nobody follows anything, and it looks on"


async def test_only_those_whose_key_was_revoked_are_sent_away(tmp_path: Path) -> None:
    async with open_kind("sqlite", tmp_path) as store, open_server(store) as server:
        decode, key = await queue(server)
        _, other = await server.services.keys.create(name="other", scope="analyst")
        stays = asyncio.create_task(follow(server, decode, other))
        goes = [asyncio.create_task(follow(server, decode, key)) for _ in range(3)]
        await asyncio.sleep(0)
        await server.services.keys.revoke(key.key_id)
        for task in goes:
            with pytest.raises(AccessError, match="revoked"):
                await task
        await server.services.decodes.cancel(decode.decode_id)
        assert await stays == ["queued", "cancelled"]
