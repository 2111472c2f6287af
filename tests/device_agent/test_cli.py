import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from sfumato.device_agent.cli import main
from sfumato.shared.core.engines import default_engine
from sfumato.shared.plan import SketchPlan
from tests.device_agent.conftest import BASE, HOUR, Agent
from tests.device_agent.serving import TOKEN
from tests.forking import Forked, run_forked

COMMAND = [sys.executable, "-m", "sfumato.device_agent.cli"]
SECRET = "7.654321"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run_forked([*COMMAND, *arguments])


def test_help_shows_examples_and_exit_statuses(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("init", "check", "once", "run", "status", "export", "resume", "forget"):
        assert main([command, "--help"]) == 0
        assert "Example" in capsys.readouterr().out
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert "Examples:" in shown
    assert "75  the server could not be reached" in shown


@pytest.mark.parametrize(
    "arguments",
    [[], ["twice"], ["once", "--send-for", "-1"], ["once", "--send-for", "1_0"], ["init"]],
)
def test_wrong_arguments_are_one_line(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("sfumato-agent: error: ")
    assert err.count("\n") == 1


def test_help_and_reports_load_neither_network_nor_server_libraries(enrolled: Agent) -> None:
    program = (
        "import sys; from sfumato.device_agent.cli import main; main(sys.argv[1:]);"
        "print([m for m in ('httpx', 'ssl', 'fastapi', 'scipy') if m in sys.modules],"
        "file=sys.stderr)"
    )
    for arguments in (["--help"], ["status", "--config", str(enrolled.config)]):
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True
        )
        assert done.stderr.strip() == "[]"


def test_an_upload_loads_nothing_that_colours_a_terminal(agent: Agent) -> None:
    program = (
        "import sys; from sfumato.device_agent.cli import main; main(sys.argv[1:]);"
        "print(sorted({'httpx', 'rich', 'pygments', 'click'} & {*sys.modules}), file=sys.stderr)"
    )
    config = ("--config", str(agent.config), "--token", "-")
    done = subprocess.run(
        [sys.executable, "-c", program, "init", *config],
        input=TOKEN + "\n",
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr.splitlines()[-1] == "['httpx']"


def test_the_processes_of_a_user_work_together(agent: Agent) -> None:
    config = ("--config", str(agent.config))
    enrolled = subprocess.run(
        [*COMMAND, "init", *config, "--token", "-"],
        input=TOKEN + "\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert enrolled.returncode == 0, enrolled.stderr
    agent.append(0, 1, lines=3)
    assert json.loads(run("once", "--json", *config).stdout)["sent"] == 2
    assert "2 sent" in run("status", *config).stdout
    done = run("once", *config)
    assert "0 record(s) read" in done.stdout
    assert done.stderr == ""
    assert "limit 1" in run("budget", *config).stdout


def test_two_processes_at_once_release_each_window_once(enrolled: Agent) -> None:
    enrolled.append(*range(20), lines=3)
    processes = [
        Forked(
            [*COMMAND, "once", "--json", "--config", str(enrolled.config)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for _ in range(3)
    ]
    outcomes = [(process.communicate(), process.returncode)[1] for process in processes]
    assert 0 in outcomes
    assert set(outcomes) <= {0, 3}
    assert len(enrolled.server.received) == len(set(enrolled.server.received)) == 20


def test_json_is_all_that_stands_on_standard_output(enrolled: Agent) -> None:
    enrolled.append(0)
    for command in ("once", "status", "budget"):
        assert enrolled.run(command, "--json") == 0
        assert isinstance(json.loads(enrolled.out), dict)
        assert enrolled.err == ""


def test_check_says_what_would_be_sent_and_changes_nothing(enrolled: Agent) -> None:
    enrolled.append(0, 1, lines=4)
    before = enrolled.dump()
    assert enrolled.run("check") == 0
    assert "8 new record(s); would release 2 sketch(es)" in enrolled.out
    assert "cost epsilon 1 for each record, 2 for someone in every window" in enrolled.out
    assert f"engine: {default_engine().name}" in enrolled.out
    assert enrolled.dump() == before
    assert not enrolled.server.received
    assert enrolled.once()["released"] == 2


def test_check_shows_records_on_a_terminal_only(enrolled: Agent) -> None:
    enrolled.records.write_text(f"time,x,y\n{BASE},{SECRET},1\n")
    command = [*COMMAND, "check", "--config", str(enrolled.config)]
    assert SECRET not in run("check", "--config", str(enrolled.config)).stdout
    ours, theirs = pty.openpty()
    with Forked(command, stdout=theirs, stderr=subprocess.DEVNULL) as process:
        assert process.wait() == 0
    os.close(theirs)
    shown = b""
    try:
        while piece := os.read(ours, 4096):
            shown += piece
    except OSError:  # how Linux says that a terminal has closed
        pass
    os.close(ours)
    assert f"{float(SECRET):g}".encode() in shown
    assert SECRET in run("check", "--values", "--config", str(enrolled.config)).stdout


@pytest.mark.parametrize("trouble", ["server", "column", "budget", "clock", "ahead"])
def test_check_finds_what_would_go_wrong(enrolled: Agent, trouble: str) -> None:
    enrolled.append(0, 1)
    status, named = 2, ""
    match trouble:
        case "server":
            enrolled.server.stop()
            status, named = 75, "did not answer"
        case "column":
            enrolled.records.write_text("time,x\n")
            named = "y: the column"
        case "budget":
            enrolled.append(2, 3)
            enrolled.write_config(lifetime="2")
            status, named = 3, "budget.lifetime: releasing sketch 2 of"
        case "clock":
            enrolled.server.clock_offset = HOUR
            named = "3600 s behind the server"
        case _:
            enrolled.server.extra_sequences["meter"] = 0
            status, named = 3, "this ledger never sent"
    assert enrolled.run("check") == status
    assert "FAIL" in enrolled.out
    assert named in enrolled.err


def test_check_before_enrolling_looks_at_the_plan_and_leaves_no_trace(agent: Agent) -> None:
    assert agent.run("check") == 0
    assert "plan: x, y; random Fourier features of the records, summed, with noise" in agent.out
    assert "holds no device yet: run `sfumato-agent init`" in agent.out
    assert not agent.state.exists()


def test_a_defect_shows_its_place_but_no_value(
    enrolled: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ValueError(f"could not convert {SECRET}")

    monkeypatch.setattr(SketchPlan, "draw_release", fail)
    enrolled.append(0)
    assert enrolled.run("once") == 70
    assert "ValueError in " in enrolled.err
    assert SECRET not in enrolled.err + enrolled.out
    assert Path(__file__).name in enrolled.err
