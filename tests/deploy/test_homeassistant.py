"""The add-on of Home Assistant: its options make a configuration that the agent reads."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import yaml

from deploy.homeassistant.run import make_config
from sfumato.device_agent.settings.agent_settings import load_settings
from sfumato.device_agent.sources import open_source
from tests.device_agent.sources.streams import DIGEST_KEY, make_dimensions

ROOT = Path(__file__).parents[2]
ADDON = yaml.safe_load((ROOT / "deploy/homeassistant/config.yaml").read_text())
OPTIONS: dict[str, Any] = ADDON["options"] | {
    "server": "https://sfumato.example.org",
    "study": "ab" * 32,
    "token": "sft_1",
    "entities": [
        {"column": 'room "1", °C', "entity": "sensor.kitchen_temperature"},
        {"column": "humidity", "entity": "sensor.kitchen_humidity"},
    ],
}


def fits(value: Any, kind: Any) -> bool:
    """Return whether a value is one that the Supervisor lets pass."""
    if isinstance(kind, dict):
        return value.keys() == kind.keys() and all(fits(value[name], kind[name]) for name in kind)
    if isinstance(kind, list):
        return all(fits(each, kind[0]) for each in value)
    name, _, rule = kind.rstrip(")").partition("(")
    if name == "int":
        least, most = map(int, rule.split(","))
        return isinstance(value, int) and least <= value <= most
    return isinstance(value, str) and (name != "match" or re.search(rule, value) is not None)


def test_options_that_fit_the_schema_make_a_configuration_that_reads_the_recorder(
    tmp_path: Path,
) -> None:
    assert fits(OPTIONS, ADDON["schema"])
    database = tmp_path / "home-assistant_v2.db"
    recipe = (ROOT / "docs/how-to/recipes.md").read_text()
    (script,) = re.findall(r"^```sql\n(.*?)^```$", recipe, re.MULTILINE | re.DOTALL)
    with closing(sqlite3.connect(database)) as recorder:
        recorder.executescript(script)
    config = tmp_path / "agent.toml"
    config.write_text(make_config(OPTIONS, str(database)), encoding="utf-8")
    settings = load_settings(config, {})
    assert settings.server == OPTIONS["server"]
    (stream,) = settings.streams
    dimensions = make_dimensions(*stream.columns)
    with closing(
        open_source(stream, dimensions, (), DIGEST_KEY, now=lambda: 1_767_226_300.0)
    ) as source:
        rows = [row for batch in source.read() for row in batch.values.tolist()]
    assert rows[0] == [21.75, 48.0]


def test_each_option_has_a_type_and_is_used() -> None:
    assert ADDON["options"].keys() == ADDON["schema"].keys()
    made = make_config(OPTIONS)
    assert all(str(OPTIONS[name]) in made for name in ("server", "study", "budget", "since"))
    assert OPTIONS["token"] not in made


def test_the_image_is_the_agents_and_keeps_the_ledger_apart_from_the_state() -> None:
    lines = (ROOT / "deploy/homeassistant/Dockerfile").read_text().splitlines()
    assert "ARG AGENT_IMAGE=sfumato-agent" in lines
    assert "FROM ${AGENT_IMAGE}" in lines
    ledger = next(line for line in lines if line.startswith("ENV SFUMATO_LEDGER="))
    folder = ledger.partition("=")[2].rpartition("/")[0]
    writable = [each["path"] for each in ADDON["map"] if not each["read_only"]]
    assert writable == [folder]
