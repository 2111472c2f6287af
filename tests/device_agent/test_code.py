import errno
import io
import stat
import tomllib

import pytest

from sfumato.device_agent.cli.sample import SAMPLE
from sfumato.shared.wire import EnrolmentCode, encode_enrolment_code
from tests.device_agent.conftest import Agent
from tests.device_agent.serving import TOKEN


def make_code(agent: Agent, *, study: bytes | None = None, token: str = TOKEN) -> str:
    return encode_enrolment_code(
        EnrolmentCode(server=agent.server.url, study=study or agent.server.study, token=token)
    )


def remove(agent: Agent, *keys: str) -> None:
    lines = agent.config.read_text().splitlines(keepends=True)
    agent.config.write_text("".join(line for line in lines if line.split(" ")[0] not in keys))


@pytest.mark.parametrize("keys", [(), ("server",), ("study",), ("server", "study")])
@pytest.mark.parametrize("option", ["--code", "--token"])
def test_a_code_enrols_and_fills_in_what_the_configuration_lacks(
    agent: Agent, keys: tuple[str, ...], option: str
) -> None:
    before = tomllib.loads(agent.config.read_text())
    remove(agent, *keys)
    agent.config.chmod(0o640)
    assert agent.run("init", option, make_code(agent).lower()) == 0, agent.err
    assert tomllib.loads(agent.config.read_text()) == before
    assert stat.S_IMODE(agent.config.stat().st_mode) == 0o640
    assert agent.run("check") == 0, agent.err
    assert len(agent.server.devices) == 1


def test_a_code_is_read_from_standard_input(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(make_code(agent) + "\n"))
    assert agent.run("init", "--code", "-") == 0, agent.err


def test_the_owners_own_address_of_the_server_goes_before_the_codes(agent: Agent) -> None:
    text = agent.config.read_text()
    code = EnrolmentCode(server="http://127.0.0.1:9", study=agent.server.study, token=TOKEN)
    assert agent.run("init", "--code", encode_enrolment_code(code)) == 0, agent.err
    assert agent.config.read_text() == text


def test_what_the_environment_says_is_not_written(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    remove(agent, "server", "study")
    monkeypatch.setenv("SFUMATO_AGENT_SERVER", agent.server.url)
    assert agent.run("init", "--code", make_code(agent)) == 0, agent.err
    written = tomllib.loads(agent.config.read_text())
    assert "server" not in written
    assert written["study"] == agent.server.study.hex()


def test_a_code_of_another_study_is_refused_and_changes_nothing(agent: Agent) -> None:
    remove(agent, "server")
    text = agent.config.read_text()
    assert agent.run("init", "--code", make_code(agent, study=b"x" * 32)) == 2
    assert "study: must be the study of the code" in agent.err
    assert agent.config.read_text() == text
    assert not agent.server.requests


def test_a_code_with_a_slip_is_refused_before_anything_is_sent(agent: Agent) -> None:
    code = make_code(agent)
    text = agent.config.read_text()
    for wrong in (code[:-1], code[:30] + code[31] + code[30] + code[32:], TOKEN):
        assert agent.run("init", "--code", wrong) == 2
        assert "code: " in agent.err
    assert agent.config.read_text() == text
    assert not agent.server.requests


def test_a_server_that_the_owner_does_not_allow_is_refused_in_a_code(agent: Agent) -> None:
    remove(agent, "server")
    text = agent.config.read_text()
    text = text.replace("[budget]", '[policy]\nservers = ["https://example.org"]\n[budget]')
    agent.config.write_text(text)
    assert agent.run("init", "--code", make_code(agent)) == 3
    assert "server" in agent.err
    assert agent.config.read_text() == text
    assert not agent.server.requests


def test_a_configuration_that_cannot_be_written_is_said_with_the_lines(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    remove(agent, "server", "study")
    # The tests may run as root, who can write everywhere.
    monkeypatch.setattr("tempfile.mkstemp", refuse)
    assert agent.run("init", "--code", make_code(agent)) == 2
    assert "cannot be written (Permission denied)" in agent.err
    assert f'server = "{agent.server.url}"' in agent.err
    assert not agent.server.requests


def test_the_printed_configuration_can_be_filled_in_whole(agent: Agent) -> None:
    assert agent.run("init", "--print-config") == 0
    assert agent.out == SAMPLE
    options = ["--csv", 'a "b"\\c.csv', "--timestamp", "t", "--label", "site=north=1"]
    options += ["--column", "dew point=dewp", "--column", "x=y"]
    assert agent.run("init", "--print-config", "--code", make_code(agent), *options) == 0
    filled, sample = tomllib.loads(agent.out), tomllib.loads(SAMPLE)
    assert filled.pop("server") == agent.server.url
    assert filled.pop("study") == agent.server.study.hex()
    assert filled.pop("labels") == {"site": "north=1"}
    (stream,) = filled.pop("streams")
    assert stream["source"] == {"kind": "csv", "path": 'a "b"\\c.csv', "timestamp": "t"}
    assert stream["columns"] == {"dew point": "dewp", "x": "y"}
    sample.pop("streams")
    assert filled == sample
    assert TOKEN not in agent.out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((), "--code: is missing, and this device has not enrolled"),
        (("--code", "a", "--token", "b"), "not allowed with"),
        (("--print-config", "--token", "b"), "takes --code, not --token"),
        (("--code", "a", "--csv", "b"), "--csv is only for --print-config"),
        (("--print-config", "--label", "north"), "--label"),
        (("--print-config", "--column", "=x"), "--column"),
    ],
)
def test_options_that_would_have_no_effect_are_refused(
    agent: Agent, arguments: tuple[str, ...], complaint: str
) -> None:
    assert agent.run("init", *arguments) == 2
    assert complaint in agent.err
