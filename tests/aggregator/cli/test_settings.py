import json
import signal
import socket
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from sfumato.aggregator.cli.settings import read_settings
from sfumato.aggregator.settings import Settings
from sfumato.aggregator.worker.supervisor import worker_environment
from sfumato.shared.command import main
from sfumato.shared.errors import ConfigError
from tests.aggregator.processes import read_announcement, start


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "sfumato.toml"
    path.write_text('port = 9001\nhost = "::1"\ndevice_rate = 2.5\n')
    return path


def test_an_option_outweighs_a_variable_and_a_variable_the_file(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SFUMATO_PORT", "9002")
    settings = read_settings(config=config, port=9003)
    assert (settings.port, settings.host, settings.device_rate) == (9003, "::1", 2.5)
    assert read_settings(config=config).port == 9002
    monkeypatch.delenv("SFUMATO_PORT")
    assert read_settings(config=config).port == 9001
    assert read_settings().port == 8750


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "port = 70000",
            "port: input should be less than or equal to 65535. Correct the option, "
            "SFUMATO_PORT, or 'port' in the file of settings",
        ),
        ("least_agent = 'new'", "least_agent: must be written as in 0.2.0. Correct the option"),
        ("page_url = 'a/'", "page_url: must be written as in https://sketches.example.org"),
        ("prot = 1", "prot: is not a setting. Use one of: database_url, host, port,"),
        ("port = ", "--config: is not TOML: "),
        ('port = "many"', "port: input should be a valid integer"),
        ('log_format = "xml"', "log_format: input should be 'console' or 'json'"),
        ('proxies = "*"', "proxies: '*' does not appear to be an IPv4 or IPv6 network"),
    ],
)
def test_what_is_wrong_in_a_file_names_setting_rule_and_fix(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, message: str
) -> None:
    path = tmp_path / "sfumato.toml"
    path.write_text(content)
    assert main(["serve", "--config", str(path)]) == 2
    errors = capsys.readouterr().err
    assert errors.startswith(f"sfumato: error: {message}")
    assert len(errors.splitlines()) == 1


def test_a_wrong_variable_is_refused_in_the_same_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SFUMATO_KEY_RATE", "1_0")
    with pytest.raises(ConfigError, match="key_rate: must have no digits but 0 to 9"):
        read_settings()
    monkeypatch.setenv("SFUMATO_KEY_RATE", "10")
    monkeypatch.setenv("SFUMATO_KEY_BURST", "0")
    with pytest.raises(ConfigError) as caught:
        read_settings()
    assert caught.value.field == "key_burst"
    assert "SFUMATO_KEY_BURST" in str(caught.value)


def test_a_file_that_is_not_there_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "--config", str(tmp_path / "nothing.toml")]) == 2
    assert "--config: is not a file" in capsys.readouterr().err


def test_every_command_reads_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "sfumato.toml"
    path.write_text(f"database_url = {json.dumps(str(tmp_path / 'named.db'))}\n")
    assert main(["operator-key", "--name", "a", "--config", str(path)]) == 0
    assert (tmp_path / "named.db").exists()
    assert "sfk_" in capsys.readouterr().out


def test_the_help_of_serve_lists_every_setting_and_teaches_the_first_steps(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["serve", "--help"]) == 0
    text = capsys.readouterr().out
    for name in Settings.model_fields:
        assert f"\n  {name} = " in text
    assert "\n  payload_days = NUMBER" in text
    for step in ("sfumato operator-key", "sfumato study create", "--tls-cert", "--behind-proxy"):
        assert step in text


def test_workers_get_the_very_settings_of_their_server(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = read_settings(config=config, n_workers=0)
    for name, value in worker_environment(settings).items():
        monkeypatch.setenv(name, value)
    assert Settings() == Settings(**settings.model_dump())
    assert Settings().device_rate == 2.5


def test_a_stopping_server_finishes_the_request_in_flight(tmp_path: Path) -> None:
    with start("--no-worker", "--database", str(tmp_path / "stop.db")) as process:
        parts = urlsplit(read_announcement(process)[0])
        with socket.create_connection((parts.hostname, parts.port)) as connection:
            connection.sendall(
                b"POST /v1/enrolments HTTP/1.1\r\nHost: sfumato\r\n"
                b"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{"
            )
            # Answered after it, so the server has begun to read the first one.
            assert httpx.get(f"{parts.geturl()}/v1/studies").status_code == 401
            process.send_signal(signal.SIGTERM)
            while True:
                try:
                    httpx.get(f"{parts.geturl()}/healthz")
                except httpx.TransportError:
                    break  # it takes no new connection
            connection.sendall(b"}")
            answer = connection.makefile("rb").read()
        process.communicate()
    assert answer.startswith(b"HTTP/1.1 422 ")
    assert b"/problems/request-invalid" in answer
    assert process.returncode == 0


def test_a_request_that_never_ends_does_not_keep_a_server_from_stopping(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SFUMATO_STOP_S", "1")
    with start("--no-worker", "--database", str(tmp_path / "stop.db")) as process:
        parts = urlsplit(read_announcement(process)[0])
        with socket.create_connection((parts.hostname, parts.port)) as connection:
            connection.sendall(
                b"POST /v1/enrolments HTTP/1.1\r\nHost: sfumato\r\nContent-Length: 2\r\n\r\n{"
            )
            assert httpx.get(f"{parts.geturl()}/v1/studies").status_code == 401
            process.send_signal(signal.SIGTERM)
            process.communicate()
    assert process.returncode == 0
