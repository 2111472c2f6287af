from pathlib import Path

import pytest

from sfumato.shared.plan import compute_plan_digest
from sfumato.shared.wire import EnrolmentCode, encode_enrolment_code
from tests.device_agent.conftest import Agent, make_plan
from tests.device_agent.serving import TOKEN, running


def add_policy(agent: Agent, policy: str) -> None:
    agent.config.write_text(f"{agent.config.read_text()}\n[policy]\n{policy}\n")


@pytest.mark.parametrize(
    ("policy", "status", "complaint"),
    [
        (
            'epsilon_per_window = "1/2"',
            3,
            "policy.epsilon_per_window: is 1/2, and the plan spends 1",
        ),
        ('mechanisms = ["discrete-gaussian"]', 3, "do not allow discrete-knorm of the plan"),
        ('neighbouring = ["add-remove-one"]', 3, "does not allow replace-one of the plan"),
        (f'plan_digests = ["{"ab" * 32}"]', 2, "policy.plan_digests: do not name"),
        ('servers = ["https://sketches.example.org"]', 3, "policy.servers: do not allow http://"),
    ],
)
def test_a_plan_outside_the_policy_is_refused_before_enrolment_and_at_every_start(
    policy: str, status: int, complaint: str, agent: Agent
) -> None:
    allowed = agent.config.read_text()
    add_policy(agent, policy)
    assert agent.run("init", "--token", TOKEN) == status
    assert complaint in agent.err
    assert not agent.server.devices
    assert agent.run("check") == status
    assert complaint in agent.out
    agent.config.write_text(allowed)
    agent.init()
    agent.append(0, lines=5)
    add_policy(agent, policy)
    for command in ("once", "run", "check"):
        assert agent.run(command) == status
        assert complaint in agent.err
    assert not agent.server.received


def test_a_server_outside_the_policy_is_not_even_asked(agent: Agent) -> None:
    add_policy(agent, 'servers = ["https://sketches.example.org"]')
    agent.run("init", "--token", TOKEN)
    agent.run("check")
    assert agent.server.requests == []


def test_a_plan_within_the_policy_is_obeyed_and_check_shows_it(agent: Agent) -> None:
    digest = compute_plan_digest(agent.server.plan).hex()
    agent.run("check")
    assert f"its digest is {digest}" in agent.out
    assert "policy: none is set" in agent.out
    add_policy(
        agent,
        f'epsilon_per_window = "1"\nmechanisms = ["discrete-knorm"]\nplan_digests = ["{digest}"]\n'
        f'neighbouring = ["replace-one"]\nservers = ["{agent.server.url}/"]',
    )
    agent.init()
    agent.append(0, lines=5)
    assert agent.run("check") == 0
    assert "epsilon at most 1 a window; discrete-knorm; replace-one; 1 pinned plan(s)" in agent.out
    assert agent.once()["sent"] == 1


@pytest.mark.parametrize(
    ("policy", "complaint"),
    [
        ("epsilon_per_window = 0.5", "policy.epsilon_per_window: must be an exact number"),
        ('mechanisms = ["gaussian"]', "policy.mechanisms[0]: must be one of discrete-"),
        ("mechanisms = []", "policy.mechanisms: must name at least one"),
        ('plan_digests = ["abc"]', "policy.plan_digests[0]: must be 64 hexadecimal digits"),
        ('epsilon = "1"', "policy.epsilon: is not a known key"),
        (
            "[outbox]\nmost_megabytes = 0",
            "outbox.most_megabytes: must be a number",
        ),
        ('[log]\nlevel = "loud"', "log.level: must be"),
    ],
)
def test_a_wrong_setting_is_named(policy: str, complaint: str, agent: Agent) -> None:
    add_policy(agent, policy)
    assert agent.run("check") == 2
    assert complaint in agent.err


def test_the_printed_configuration_is_one(
    tmp_path: Path, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert agent.run("init", "--print-config") == 0
    examples = _with_examples(agent.out)
    code = EnrolmentCode(server=agent.server.url, study=agent.server.study, token=TOKEN)
    assert agent.run("init", "--print-config", "--code", encode_enrolment_code(code)) == 0
    for text in (agent.out, examples):
        agent.config.write_text(text)
        agent.run("status")
        assert "must hold an enrolled device" in agent.err or "cannot be used" in agent.err


def _with_examples(sample: str) -> str:
    """Turn the commented examples into settings; comments in words begin with a capital."""
    lines = []
    for line in sample.splitlines():
        text = line.removeprefix("# ")
        is_example = line.startswith("# ") and (text.startswith("[") or " = " in text)
        lines.append(text.replace("64 hexadecimal digits", "ab" * 32) if is_example else line)
    return "\n".join(lines)


def test_more_streams_than_the_plan_takes_of_a_device_are_refused_before_anything_is_spent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with running(make_plan(most_streams_per_device=1)) as server:
        agent = Agent(tmp_path, server, capsys)
        config = agent.config.read_text()
        start = config.index("[[streams]]")
        second = config[start:].replace('"meter"', '"other"').replace("records.csv", "other.csv")
        agent.config.write_text(config + "\n" + second)
        assert agent.run("init", "--token", TOKEN) == 2
        assert "streams: must be at most 1 of one device" in agent.err
        assert not server.devices
