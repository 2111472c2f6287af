from fractions import Fraction
from pathlib import Path

import pytest

from sfumato.device_agent.settings.agent_settings import load_settings
from sfumato.device_agent.sources.file_source import FileSettings
from sfumato.shared.core.engines import list_engines
from sfumato.shared.errors import ConfigError
from sfumato.shared.privacy import Budget
from sfumato.shared.privacy.limits import DEFAULT_DELTA
from tests.device_agent.conftest import Agent

STUDY = "ab" * 32
GOOD = f"""
state_dir = "state"
server = "https://example.org/"
study = "{STUDY}"
[budget]
per_record = "1"
lifetime = "3/2"
[[streams]]
name = "meter"
[streams.source]
kind = "csv"
path = "records.csv"
timestamp = "time"
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "agent.toml"
    path.write_text(text)
    return path


def test_a_configuration_is_read_with_paths_beside_it(tmp_path: Path) -> None:
    settings = load_settings(write(tmp_path, GOOD), {})
    assert settings.state_dir == tmp_path / "state"
    assert settings.server == "https://example.org"
    assert settings.study == bytes.fromhex(STUDY)
    assert settings.limits == Budget(
        per_record=Fraction(1),
        lifetime=Fraction(3, 2),
        delta=DEFAULT_DELTA,
        defaults=frozenset({"delta"}),
    )
    (stream,) = settings.streams
    assert isinstance(stream.source, FileSettings)
    assert stream.source.path == tmp_path / "records.csv"
    assert stream.source.timestamp_format == "iso8601"


def test_the_environment_overrides_scalar_keys(tmp_path: Path) -> None:
    environment = {"SFUMATO_AGENT_SERVER": "http://localhost:1", "SFUMATO_AGENT_STUDY": "cd" * 32}
    settings = load_settings(write(tmp_path, GOOD), environment)
    assert (settings.server, settings.study) == ("http://localhost:1", bytes.fromhex("cd" * 32))


def test_the_environment_forces_an_engine(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD)
    assert load_settings(path, {"SFUMATO_ENGINE": "numpy"}).engine.name == "numpy"
    assert load_settings(path, {}).engine.name == list_engines()[0]
    with pytest.raises(ConfigError, match="SFUMATO_ENGINE: must be 'numpy', 'native'"):
        load_settings(path, {"SFUMATO_ENGINE": "abacus"})


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ('state_dir = "state"', "", "state_dir: is missing"),
        ('state_dir = "state"', "state_dir = 1", "state_dir: must be a path"),
        (
            'state_dir = "state"',
            'state_dir = "s"\ntypo = 1',
            "typo: is not a known key",
        ),
        ("https://example.org/", "ftp://example.org", "server: must be an address"),
        ("https://example.org/", "https://example.org:port", "server: must be an address"),
        (STUDY, "abc", "study: must be 64 hexadecimal digits"),
        ('"1"', "0.1", "budget.per_record: must be an exact number"),
        ('"1"', '"-1"', "budget.per_record: must be an exact number"),
        ('"3/2"', '"3/0"', "budget.lifetime: must be an exact number"),
        ("per_record", "per_recrd", "budget.per_recrd: is not a known key. Did you mean"),
        ('name = "meter"', "", "streams[0].name: is missing"),
        ('name = "meter"', f'name = "{"m" * 65}"', "streams[0].name: must have 1 to 64"),
        ('name = "meter"', 'name = "me\\u001bter"', "streams[0].name: must have 1 to 64"),
        ('kind = "csv"', 'kind = "xml"', "streams[0].source.kind: must be one of csv"),
        ('path = "records.csv"', "", "streams[0].source.path: is missing"),
        ('"time"', '"time"\ntimestamp_format = "us"', "streams[0].source.timestamp_format: must"),
        ('"time"', '"time"\n[streams.columns]\nx = 1', "streams[0].columns.x: must be text or"),
        ("[[streams]]", "[streams]", "streams: must be a list"),
        ("[budget]", "[budget", ""),
    ],
)
def test_a_wrong_key_is_named_on_one_line(old: str, new: str, field: str, agent: Agent) -> None:
    assert old in GOOD
    agent.config.write_text(GOOD.replace(old, new))
    for command in ("once", "check", "status", "budget"):
        assert agent.run(command) == 2
        assert agent.err.startswith(f"sfumato-agent: error: {field}")
        assert agent.err.count("\n") == 1
        assert agent.out == ""


def test_a_missing_configuration_is_named(agent: Agent) -> None:
    agent.config.unlink()
    assert agent.run("status") == 2
    assert str(agent.config) in agent.err


@pytest.mark.parametrize(
    ("path", "field"),
    [("other.csv", "streams[1].name"), ("./records.csv", "streams[1].")],
)
def test_streams_share_neither_name_nor_file(path: str, field: str, tmp_path: Path) -> None:
    name = "meter" if path == "other.csv" else "second"
    second = f'[[streams]]\nname = "{name}"\n[streams.source]\nkind = "csv"\npath = "{path}"\n'
    with pytest.raises(Exception, match=r"streams\[1\]") as caught:
        load_settings(write(tmp_path, GOOD + second), {})
    assert str(caught.value).startswith(field)


def test_two_links_to_one_file_are_one_source(tmp_path: Path) -> None:
    (tmp_path / "link.csv").symlink_to("records.csv")
    second = '[[streams]]\nname = "b"\n[streams.source]\nkind = "csv"\npath = "link.csv"\n'
    with pytest.raises(ConfigError, match="may give records of stream"):
        load_settings(write(tmp_path, GOOD + second), {})


def test_a_variable_that_overrides_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"SFUMATO_AGENT_STATE: .*SFUMATO_AGENT_STATE_DIR"):
        load_settings(write(tmp_path, GOOD), {"SFUMATO_AGENT_STATE": "/elsewhere"})


def test_a_label_or_column_that_the_plan_does_not_know_is_refused(agent: Agent) -> None:
    text = agent.config.read_text()
    agent.config.write_text(text + '\n[streams.columns]\nz = "x"\n')
    assert agent.run("init", "--token", "sfe_test") == 2
    assert "streams[0].columns.z: must be a dimension" in agent.err
    agent.config.write_text(text.replace("[budget]", '[labels]\nsite = "a"\n[budget]'))
    assert agent.run("init", "--token", "sfe_test") == 2
    assert "labels.site: must be a label" in agent.err
    agent.config.write_text(text.replace('timestamp = "time"\n', ""))
    assert agent.run("init", "--token", "sfe_test") == 2
    assert "streams[0].source.timestamp: is missing" in agent.err
    assert not agent.server.devices
