from pathlib import Path

import pytest

from device_agent.certificates import make_context
from device_agent.owner_tables import TlsSettings
from device_agent.settings import load_settings
from shared.errors import ConfigError
from tests.device_agent.conftest import Agent
from tests.device_agent.test_settings import GOOD, write


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
    assert f"{variable}: names /nowhere/ca.pem, which is not there" in enrolled.err


def test_authorities_and_certificate_are_read_beside_the_configuration(tmp_path: Path) -> None:
    text = '[tls]\nca_file = "ca.pem"\ncertificate = "/etc/d.crt"\n'
    tls = load_settings(write(tmp_path, GOOD + text), {}).house.tls
    assert tls == TlsSettings(ca_file=tmp_path / "ca.pem", certificate=Path("/etc/d.crt"))


def test_a_key_needs_a_certificate(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"tls\.key"):
        load_settings(write(tmp_path, GOOD + '[tls]\nkey = "k"\n'), {})
