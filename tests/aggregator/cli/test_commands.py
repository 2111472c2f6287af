import json
import os
import signal
import socket
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from sfumato.aggregator.database.schema import LATEST_REVISION
from sfumato.shared.command import main
from sfumato.shared.plan import plan_to_json
from tests.aggregator.fleet import SKETCH, Device, make_plan
from tests.aggregator.processes import read_announcement, start
from tests.ports import hold_port, port_of


@pytest.fixture(autouse=True)
def own_port(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let a server listen where no other does: the usual port may be taken."""
    with hold_port() as held:
        monkeypatch.setenv("SFUMATO_PORT", str(port_of(held)))
        yield


@pytest.fixture
def database(tmp_path: Path) -> str:
    return str(tmp_path / "commands.db")


@pytest.mark.parametrize(
    "command",
    [
        *("serve", "worker", "operator-key", "migrate"),
        *("backup", "restore", "copy", "check-store"),
    ],
)
def test_each_command_helps_with_examples(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    assert "Examples:\n" in capsys.readouterr().out
    assert main([command, "--no-such-option"]) == 2


def test_the_first_key_is_an_operators_shown_once_and_only_its_hash_is_stored(
    database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["operator-key", "--name", "me", "--json", "--database", database]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["key"].startswith("sfk_")
    assert (made["scope"], made["name"]) == ("operator", "me")
    contents = b"".join(path.read_bytes() for path in Path(database).parent.glob("commands.db*"))
    assert made["key_id"].encode() in contents
    assert made["key"].encode() not in contents
    # Alone on standard output, so that a shell can put it in a variable.
    assert main(["operator-key", "--name", "me", "--database", database]) == 0
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == 1
    assert captured.out.startswith("sfk_")
    assert "not shown again" in captured.err


def test_migrating_tells_the_version_and_draws_a_generation(
    database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["migrate", "--database", database]) == 0
    assert capsys.readouterr().out == f"schema version {LATEST_REVISION}\n"
    assert main(["migrate", "--database", database, "--new-generation"]) == 0
    first = capsys.readouterr().out
    assert main(["migrate", "--database", database, "--new-generation"]) == 0
    assert first != capsys.readouterr().out
    assert main(["migrate", "--database", database, "--to", "base"]) == 0
    assert capsys.readouterr().out == "schema version none\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ("check-store",),
        ("migrate", "--new-generation"),
        ("backup", "copy.db"),
        ("copy", "--to", "copy.db"),
    ],
    ids=" ".join,
)
def test_a_mistyped_path_makes_no_database(
    arguments: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([*arguments, "--database", str(tmp_path / "mistyped.db")]) == 2
    complaint = capsys.readouterr().err
    assert "mistyped.db" in complaint
    assert "orrect the path" in complaint
    assert list(tmp_path.iterdir()) == []


def test_a_version_that_there_is_not_is_refused_in_one_line(
    database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["migrate", "--database", database, "--to", "9999"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("sfumato: error: --to: '9999' is not a version")
    assert "0001" in said
    assert len(said.splitlines()) == 1


def test_a_server_in_the_open_needs_a_proxy(
    database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for host in ("0.0.0.0", "::", "192.0.2.1", "example.org"):
        assert main(["serve", "--host", host, "--database", database]) == 2
        assert "--behind-proxy" in capsys.readouterr().err
    assert not Path(database).exists()


@pytest.mark.parametrize("command", ["serve", "worker"])
def test_a_database_of_another_version_is_not_served(
    command: str, database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["migrate", "--database", database])
    with sqlite3.connect(database) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '0000'")
    connection.close()
    assert main([command, "--database", database]) == 2
    assert "sfumato migrate" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["serve", "worker", "migrate"])
def test_a_file_that_is_no_database_is_refused_at_once_and_left_alone(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "x.csv"
    file.write_text("pressure,humidity\n1,2\n")
    assert main([command, "--database", str(file)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"sfumato: error: database: {file} is not a SQLite database")
    assert file.read_text() == "pressure,humidity\n1,2\n"


def test_a_server_that_cannot_listen_leaves_no_database_behind(
    database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert main(["serve", "--port", port, "--database", database]) == 2
    assert "--port: " in capsys.readouterr().err
    assert not Path(database).exists()


def test_a_server_whose_sign_in_is_not_set_up_leaves_no_database_behind(
    database: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SFUMATO_OIDC_CLIENT_ID", "sfumato")
    assert main(["serve", "--port", "0", "--database", database]) == 2
    assert "oidc_issuer" in capsys.readouterr().err
    assert not Path(database).exists()


def test_wrong_options_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--port", "70000"]) == 2
    assert main(["serve", "--database", "nonsense://x"]) == 2
    assert main(["worker", "--database", "nonsense://x"]) == 2
    assert main(["operator-key", "--name", "me", "--database", "nonsense://x"]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 4
    assert errors[0].startswith("sfumato: error: --port: ")


def test_a_server_listens_works_and_stops_when_told(
    database: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    main(["operator-key", "--name", "me", "--json", "--database", database])
    secret = json.loads(capsys.readouterr().out)["key"]
    headers = {"Authorization": f"Bearer {secret}"}
    # Not a pipe, which is full before a slow decode has been asked for often enough.
    log = tmp_path / "log.jsonl"
    with log.open("w") as file, start("--database", database, stderr=file.fileno()) as process:
        address, announcement = read_announcement(process)
        with httpx.Client(base_url=address, headers=headers) as http:
            assert http.get("/readyz").status_code == 200
            body = {"name": "pumps", "plan": plan_to_json(make_plan())}
            study = http.post("/v1/studies", json=body).json()["study_id"]
            token = http.post(f"/v1/studies/{study}/tokens", json={}).json()["token"]
            enrolment = Device(1).enrolment(token, bytes.fromhex(study))
            assert http.post("/v1/enrolments", json=enrolment).status_code == 201
            sketch, message = Device(1).message(bytes.fromhex(study), make_plan())
            target = f"/v1/studies/{study}/sketches/{sketch}"
            assert http.put(target, content=message, headers=SKETCH).status_code == 201
            settings = {"n_replicates": 1}
            asked = http.post(
                f"/v1/studies/{study}/decodes", json={"n_clusters": 3, "settings": settings}
            )
            decode = asked.json()
            while decode["state"] in ("queued", "running"):
                decode = http.get(asked.headers["location"]).json()
            assert decode["state"] == "succeeded", decode
        process.send_signal(signal.SIGTERM)
        process.communicate()
    errors = log.read_text()
    assert process.returncode == 0, errors
    assert "sfumato operator-key" in announcement
    entries = [json.loads(line) for line in errors.splitlines()]
    events = {entry["event"] for entry in entries}
    assert {"request", "worker started", "worker stopped", "job taken"} <= events
    assert secret not in errors
    assert token not in errors


def test_a_server_stops_gracefully_on_ctrl_c(database: str) -> None:
    with start("--no-worker", "--database", database) as process:
        address, _ = read_announcement(process)
        assert httpx.get(f"{address}/readyz").status_code == 200
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate()
    assert process.returncode == 0, errors


def test_workers_end_with_a_server_that_is_killed(database: str) -> None:
    with start("--database", database) as process:
        assert process.stderr is not None
        read_announcement(process)
        started = json.loads(process.stderr.readline())
        assert started["event"] == "worker started"
        os.kill(process.pid, signal.SIGKILL)
        # Its end closes the last writer of the pipe, so this returns when the worker is gone.
        rest = process.stderr.read()
    assert "worker stopped" in rest
