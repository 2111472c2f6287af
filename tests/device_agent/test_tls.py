"""Whom the agent speaks to: only a server whose certificate holds."""

import ssl
from pathlib import Path

import pytest

from tests.certificates import Authority
from tests.device_agent.conftest import Agent
from tests.device_agent.serving import Server


@pytest.fixture
def authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Authority:
    made = Authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(made.path))
    return made


def speak_tls(server: Server, certificate: Path, key: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.tls = context
    server.stop()
    server.start()


def test_a_server_whose_certificate_holds_gets_the_sketches(
    authority: Authority, agent: Agent
) -> None:
    speak_tls(agent.server, *authority.issue("server"))
    agent.write_config()
    assert agent.config.read_text().count("https://127.0.0.1") == 1
    agent.init()
    agent.append(0, 1, lines=5)
    assert agent.once()["sent"] == 2


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ("another authority", "certificate verify failed"),
        ("another address", "certificate verify failed"),
        ("expired", "certificate has expired"),
        ("not yet valid", "certificate is not yet valid"),
    ],
)
def test_a_wrong_certificate_gets_nothing_and_the_sketches_wait(
    what: str, reason: str, authority: Authority, agent: Agent, tmp_path: Path
) -> None:
    speak_tls(agent.server, *authority.issue("server"))
    agent.write_config()
    agent.init()
    wrong = {
        "another authority": lambda: Authority(tmp_path, "stranger").issue("wrong"),
        "another address": lambda: authority.issue("wrong", address="127.0.0.2"),
        "expired": lambda: authority.issue("wrong", days=(-9, -1)),
        "not yet valid": lambda: authority.issue("wrong", days=(1, 9)),
    }
    speak_tls(agent.server, *wrong[what]())
    n_requests = len(agent.server.requests)
    agent.append(0, 1, lines=5)
    report = agent.once("--send-for", "0", status=75)
    assert (report["sent"], report["waiting"]) == (0, 2)
    assert reason in " ".join(report["messages"])
    assert len(agent.server.requests) == n_requests
    speak_tls(agent.server, *authority.issue("renewed"))
    assert agent.once()["sent"] == 2
