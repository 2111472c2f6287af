"""Every recipe of the page reads its own lines as the page says."""

import math
import re
import shutil
import sqlite3
import subprocess
import time
import tomllib
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from sfumato.device_agent.sources import open_source
from sfumato.device_agent.sources.settings import StreamSettings
from sfumato.shared.structure import structure
from tests.device_agent.sources.streams import make_dimensions
from tests.device_agent.sources.test_mqtt_source import HOST, PORT, broker_answers

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "recipes.md"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def list_recipes() -> Iterator[tuple[str, dict[str, Any], str, str, str]]:
    """Yield a recipe's name, settings, what a program writes, the records, and a command between.

    The command reads the file that it names before the one that the settings name.
    """
    for section in PAGE.read_text().split("\n## ")[1:]:
        found = _BLOCK.findall(section)
        commands = [text for kind, text in found if kind == "sh"]
        blocks = [text for kind, text in found if kind != "sh"]
        for i in range(0, len(blocks), 3):
            settings, written, records = blocks[i : i + 3]
            name = f"{section.partition(chr(10))[0]} {i // 3}"
            yield name, tomllib.loads(settings)["streams"], written, records, "".join(commands)


RECIPES = list(list_recipes())


def test_the_page_has_its_recipes() -> None:
    assert len(RECIPES) >= 12


def write(folder: Path, source: dict[str, Any], written: str, command: str) -> None:
    path = folder / source["path"]
    if command:
        if shutil.which(command.split(maxsplit=1)[0]) is None:
            pytest.skip(f"{command.split(maxsplit=1)[0]} is not installed")
        (folder / command.split()[-3]).write_text(written)
        subprocess.run(command, cwd=folder, shell=True, check=True)
        return
    if source["kind"] == "sqlite":
        with closing(sqlite3.connect(path)) as database:
            database.executescript(written)
        return
    path.write_bytes(written.encode(source.get("encoding", "utf-8")))


def publish(prefix: str, written: str) -> None:
    client = mqtt.Client(CallbackAPIVersion.VERSION2)
    client.connect(HOST, PORT)
    client.loop_start()
    for line in written.splitlines():
        topic, _, payload = line.partition(" ")
        client.publish(f"{prefix}/{topic}", payload, qos=1).wait_for_publish(10)
    client.disconnect()
    client.loop_stop()


def put_below(prefix: str, document: dict[str, Any]) -> None:
    """Let a recipe listen to topics that no other test uses."""
    source, columns = document["source"], document.get("columns", {})
    source["topic"] = f"{prefix}/{source['topic']}"
    source["client_id"] = prefix[-16:]
    if "join" in source:
        document["columns"] = {name: f"{prefix}/{text}" for name, text in columns.items()}


@pytest.mark.parametrize(("document", "written", "records", "command"), [e[1:] for e in RECIPES],
    ids=[e[0] for e in RECIPES])  # fmt: skip
def test_a_recipe_reads_what_the_program_writes(
    document: dict[str, Any], written: str, records: str, command: str, tmp_path: Path
) -> None:
    expected = [[float(cell) for cell in line.split()] for line in records.splitlines()]
    source, is_live = document["source"], document["source"]["kind"] == "mqtt"
    names = list(document.get("columns", {})) or ["temperature", "humidity"]
    prefix = f"sfumato-test-{uuid.uuid4().hex}"
    if is_live:
        if not broker_answers():
            pytest.skip(f"no MQTT broker answers at {HOST}:{PORT}")
        put_below(prefix, document)
    else:
        write(tmp_path, source, written, command)
    document = {"name": "main", **document}
    stream = structure(StreamSettings, document, "streams[0]", folder=tmp_path)
    # Files are read when all of it is over; what comes now is joined when its interval is over.
    every_s = source.get("join", {}).get("every_s", 0.0)
    clock = [time.time() if is_live else 1_767_225_600.0 + 2.0 * every_s + 300.0]
    found: list[list[float]] = []
    with closing(
        open_source(stream, make_dimensions(*names), (), bytes(32), now=lambda: clock[0])
    ) as opened:
        if is_live:
            list(opened.read())
            publish(prefix, written)
        for _ in range(20):
            found += [row for batch in opened.read() for row in batch.values.tolist()]
            if len(found) >= len(expected):
                break
        clock[0] += 2 * 3600.0 if is_live else 0.0
        found += [row for batch in opened.read() for row in batch.values.tolist()]
    if is_live and "join" in source:
        # The interval before may have closed only now.
        first = next(i for i, row in enumerate(found) if not all(map(math.isnan, row)))
        found = found[first : first + len(expected)]
    assert len(found) == len(expected)
    for row, wanted in zip(found, expected, strict=True):
        assert row == pytest.approx(wanted, rel=1e-5, nan_ok=True)
