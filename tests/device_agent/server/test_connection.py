import ssl
from pathlib import Path
from typing import Any

import pytest

from sfumato.device_agent.server.connection import make_context
from sfumato.device_agent.settings.agent_settings import load_settings
from sfumato.device_agent.settings.owner_tables import TlsSettings
from sfumato.shared.errors import ConfigError
from tests.device_agent.conftest import Agent
from tests.device_agent.settings.test_agent_settings import GOOD, write


def test_certificates_that_are_not_there_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"tls\.ca_file: .*ca\.pem cannot be used"):
        make_context(TlsSettings(ca_file=tmp_path / "ca.pem"))
    (tmp_path / "ca.pem").write_text("nothing")
    with pytest.raises(ConfigError, match=r"tls\.ca_file"):
        make_context(TlsSettings(ca_file=tmp_path / "ca.pem"))
    with pytest.raises(ConfigError, match=r"tls\.certificate"):
        make_context(TlsSettings(certificate=tmp_path / "ca.pem"))


@pytest.mark.parametrize("command", ["run", "once"])
@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "SSL_CERT_DIR"])
def test_a_wrong_variable_is_a_refused_setting(
    command: str, variable: str, enrolled: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "/nowhere/ca.pem")
    assert enrolled.run(command) == 2
    assert (
        f"{variable}: must name an existing file or folder, and /nowhere/ca.pem does not exist"
        in enrolled.err
    )


@pytest.mark.parametrize("command", ["run", "once", "check"])
def test_a_wrong_proxy_is_a_refused_setting(
    command: str, enrolled: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1080")
    enrolled.write_config(server="http://server.invalid")
    assert enrolled.run(command) == 2, enrolled.err
    assert "ALL_PROXY: names a SOCKS proxy" in enrolled.err


def test_a_server_on_this_machine_is_reached_without_a_proxy(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "[::1],fd00::/8")
    agent.init()
    agent.append(0, 1)
    assert agent.once()["sent"] == 2


def test_authorities_and_certificate_are_read_beside_the_configuration(tmp_path: Path) -> None:
    text = '[tls]\nca_file = "ca.pem"\ncertificate = "/etc/d.crt"\n'
    tls = load_settings(write(tmp_path, GOOD + text), {}).tls
    assert tls == TlsSettings(ca_file=tmp_path / "ca.pem", certificate=Path("/etc/d.crt"))


def test_a_key_needs_a_certificate(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"tls\.key"):
        load_settings(write(tmp_path, GOOD + '[tls]\nkey = "k"\n'), {})


@pytest.mark.parametrize("has_system_ones", [True, False])
def test_without_a_setting_known_authorities_are_trusted_and_names_are_checked(
    has_system_ones: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    if not has_system_ones:
        nothing: Any = None
        nowhere = ssl.get_default_verify_paths()._replace(cafile=nothing, capath=nothing)
        monkeypatch.setattr(ssl, "get_default_verify_paths", lambda: nowhere)
    context = make_context(TlsSettings())
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert context.check_hostname
    paths = ssl.get_default_verify_paths()
    # Those of a folder are loaded when they are asked for.
    assert context.cert_store_stats()["x509_ca"] > 0 or paths.capath is not None
