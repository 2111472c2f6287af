"""A server that is killed between an alarm and its delivery: another delivers it."""

import asyncio
import json
import signal
import subprocess
from pathlib import Path

import pytest

from sfumato.aggregator.base.clock import SystemClock
from sfumato.aggregator.base.store import Store
from sfumato.aggregator.resources.alarms.record import DeliveryRecord
from sfumato.aggregator.resources.alarms.service.events import Event
from sfumato.aggregator.resources.alarms.service.outbox import queue_events
from sfumato.aggregator.resources.alarms.store import lease_deliveries
from sfumato.aggregator.services import Services
from sfumato.aggregator.settings import Settings
from sfumato.shared.plan import plan_to_json
from tests.aggregator.api.test_alarms import SECRET, receiving
from tests.aggregator.databases import find_address, open_kind
from tests.aggregator.fleet import make_plan
from tests.aggregator.processes import read_announcement, start

pytestmark = pytest.mark.anyio

KILLED = """
import sys
from sfumato.aggregator.resources.alarms.service.webhooks import Sender

async def hang(*arguments, **named):
    import os, signal
    os.kill(os.getpid(), signal.SIGKILL)

Sender.send = hang
from sfumato.shared.command import main
sys.exit(main(["serve", *sys.argv[1:]]))
"""
"""A server that is killed when it has leased a message and is about to send it."""


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_an_alarm_survives_the_server_that_was_to_deliver_it(
    kind: str, tmp_path: Path
) -> None:
    async with open_kind(kind, tmp_path) as store, receiving() as receiver:
        alarm_id = await queue_alarm(store, receiver.url)
        options = ("--no-worker", "--database", find_address(store), "--webhook-hosts", "127.0.0.1")
        with start(*options, stderr=subprocess.DEVNULL, program=KILLED) as doomed:
            await asyncio.to_thread(doomed.communicate)
        assert doomed.returncode == -signal.SIGKILL
        assert receiver.messages == []
        async with store.begin(write=True) as transaction:
            # Its lease of a minute is over.
            (left,) = await lease_deliveries(
                transaction,
                [alarm_id],
                token=b"later",
                now=SystemClock().now() + 61.0,
                expires=0.0,
                most=9,
            )
        assert left.attempts == 2
        with start(*options, stderr=subprocess.DEVNULL) as heir:
            await asyncio.to_thread(read_announcement, heir)
            while not receiver.messages:
                await asyncio.sleep(0.05)
            heir.send_signal(signal.SIGTERM)
            await asyncio.to_thread(heir.communicate)
        (message,) = receiver.messages
        assert json.loads(message[1])["data"] == {"words": ["the records changed"]}
        async with store.begin() as transaction:
            delivery = await transaction.get(DeliveryRecord, left.delivery_id)
        assert delivery is not None
        assert delivery.state == "delivered"


async def queue_alarm(store: Store, url: str) -> bytes:
    services = Services(store, SystemClock(), Settings(webhook_hosts="127.0.0.1"))
    summary, _, _ = await services.studies.create("pumps", plan_to_json(make_plan()))
    study_id = summary.study.study_id
    alarm = await services.alarms.create(study_id, url=url, secret=SECRET)
    event = Event(name="alarm", kind="timeline.alarm", data={"words": ["the records changed"]})
    async with store.begin(write=True) as transaction:
        assert await queue_events(transaction, study_id, [event], now=SystemClock().now()) == 1
    return alarm.alarm_id
