"""The commands of operators over the REST interface of a running server."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from aggregator.cli import audit, key
from tests.aggregator.processes import running


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("remote") / "commands.db"


@pytest.fixture(scope="module")
def url(database: Path) -> Iterator[str]:
    with running("--database", str(database)) as address:
        yield address


@pytest.fixture
def operator(
    database: Path,
    url: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> str:
    options = ["--scope", "operator", "--name", "op", "--json", "--database", str(database)]
    assert key(["create", *options]) == 0
    made = json.loads(capsys.readouterr().out)
    monkeypatch.setenv("SFUMATO_KEY", made["key"])
    return str(made["key_id"])


def test_keys_are_made_listed_and_revoked_over_the_interface(
    url: str, operator: str, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--scope", "enrol", "--name", "factory", "--json", "--url", url]
    assert key(["create", *options]) == 0
    made = json.loads(capsys.readouterr().out)
    assert key(["revoke", made["key_id"], "--url", url]) == 0
    assert key(["revoke", made["key_id"], "--url", url]) == 1
    assert "not a key in use" in capsys.readouterr().err
    assert key(["list", "--json", "--url", url]) == 0
    listed = capsys.readouterr().out
    keys = {record["key_id"]: record for record in map(json.loads, listed.splitlines())}
    assert keys[made["key_id"]]["revoked"] is not None
    assert keys[operator]["last_used"] is not None
    assert made["key"] not in listed


def test_the_audit_log_is_the_same_in_the_database_and_over_the_interface(
    database: Path, url: str, operator: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert key(["create", "--scope", "analyst", "--name", "ana", "--url", url]) == 0
    capsys.readouterr()
    assert audit(["list", "--json", "--url", url]) == 0
    remote = capsys.readouterr().out
    assert audit(["list", "--json", "--database", str(database)]) == 0
    assert capsys.readouterr().out == remote
    entries = [json.loads(line) for line in remote.splitlines()]
    assert entries[-1]["actor"] == operator
    assert (entries[-1]["action"], entries[-1]["details"]["name"]) == ("key.create", "ana")
    assert "local" in {entry["actor"] for entry in entries}


def test_a_server_that_is_not_there_or_a_missing_key_is_one_line(
    url: str,
    operator: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert key(["list", "--url", "http://127.0.0.1:1"]) == 1
    assert "does not answer" in capsys.readouterr().err
    monkeypatch.setenv("SFUMATO_KEY", "sfk_wrong")
    assert key(["list", "--url", url]) == 1
    assert "unknown or revoked" in capsys.readouterr().err
    monkeypatch.delenv("SFUMATO_KEY")
    assert key(["list", "--url", url]) == 2
    assert "SFUMATO_KEY" in capsys.readouterr().err
