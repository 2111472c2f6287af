"""A file that wanders: whatever it is called when it is released, its records are paid for once."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from sfumato.shared.plan import WindowRule
from tests.device_agent.conftest import BASE, HOUR, Agent, AgentFor, make_plan
from tests.device_agent.daemons import query
from tests.device_agent.serving import TOKEN, Server, running
from tests.device_agent.test_one_source import TIME, count_released, feeding, join, write_config

LINES = "time,x,y\n" + "".join(f"{BASE + i},{i}.5,1\n" for i in range(5))


def of_folder(path: Path) -> str:
    path.mkdir(exist_ok=True)
    return f'kind = "folder"\npath = "{path}"\n{TIME}'


def of_file(path: Path) -> str:
    return f'kind = "csv"\npath = "{path}"\n{TIME}'


Move = Callable[[Path, Path], str]


def move_into_folder(file: Path, other: Path) -> str:
    table = of_folder(other)
    file.rename(other / "moved")
    return table


def link_into_folder(file: Path, other: Path) -> str:
    table = of_folder(other)
    (other / "link").symlink_to(file)
    return table


def move_alone(file: Path, other: Path) -> str:
    file.rename(other)
    return of_file(other)


@pytest.mark.parametrize("move", [move_into_folder, link_into_folder, move_alone])
def test_a_file_that_another_study_has_released_is_known_wherever_it_is(
    move: Move, agent: Agent, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_config(agent, of_folder(tmp_path / "in"))
    (tmp_path / "in" / "one").write_text(LINES)
    agent.init()
    agent.once()
    assert count_released(agent) == 5
    with running(make_plan(n_frequencies=9)) as server:
        second = join(agent, server, tmp_path / "second", capsys)
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        write_config(second, of_folder(elsewhere))
        second.init()
        write_config(second, move(tmp_path / "in" / "one", tmp_path / "out"))
        second.rejoin()
        report = second.once(status=3)
        assert "budget.per_record" in report["errors"][0]
        assert count_released(agent, second) == 5


def test_a_file_that_was_read_before_the_last_checkpoint_is_known_too(
    make_agent: Callable[[Server], Agent], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with running(make_plan(least_records=6)) as first, running(make_plan(n_frequencies=9)) as other:
        agent = make_agent(first)
        write_config(agent, of_folder(tmp_path / "in"))
        (tmp_path / "in" / "one").write_text(LINES)
        agent.init()
        assert agent.once()["released"] == 0
        (tmp_path / "in" / "one").rename(tmp_path / "one")
        (tmp_path / "in" / "two").write_text(LINES.replace(str(BASE)[:-4], str(BASE + HOUR)[:-4]))
        assert agent.once()["released"] == 1
        second = join(agent, other, tmp_path / "second", capsys)
        write_config(second, of_file(tmp_path / "one"))
        assert second.run("init", "--token", TOKEN) == 3
        assert "budget.per_record" in second.err


def test_a_file_on_standard_input_is_that_file(
    agent: Agent, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "one"
    file.write_text(LINES)
    write_config(agent, of_file(file))
    agent.init()
    agent.once()
    with running(make_plan(n_frequencies=9)) as server:
        second = join(agent, server, tmp_path / "second", capsys)
        write_config(second, f'kind = "stdin"\n{TIME}')
        with feeding(b""):
            second.init()
        kept = os.dup(0)
        with file.open("rb") as stream:
            os.dup2(stream.fileno(), 0)
            try:
                report = second.once(status=3)
            finally:
                os.dup2(kept, 0)
                os.close(kept)
        assert "budget.per_record" in report["errors"][0]
        assert count_released(agent, second) == 5


def test_where_presence_is_secret_the_ledger_notes_every_file_whether_it_held_a_record_or_not(
    make_agent: Callable[[Server], Agent], tmp_path: Path
) -> None:
    plan = make_plan(
        neighbouring="add-remove-one",
        least_records=None,
        window=WindowRule(kind="time", origin=BASE, length_s=10**9),
    )
    noted = []
    for name, lines in (("without", "time,x,y\n"), ("with", LINES)):
        with running(plan) as server:
            (tmp_path / name).mkdir()
            agent = make_agent(server)
            agent.state = tmp_path / name / "state"
            agent.write_config(state_dir=str(agent.state))
            write_config(agent, of_folder(tmp_path / name / "in") + 'copies = "new_records"\n')
            for file, text in (("a", lines), ("b", LINES)):
                (tmp_path / name / "in" / file).write_text(text)
            agent.init()
            agent.once()
            rows = query(agent.state, "SELECT kind, name FROM origins")
            inodes = {
                str((tmp_path / name / "in" / file).stat().st_ino): file for file in ("a", "b")
            }
            noted.append({inodes.get(str(n).split(":")[0]) for kind, n in rows if kind == "file"})
    assert noted[0] == noted[1]
    assert noted[0] >= {"a", "b"}


def test_files_are_not_deleted_where_that_would_show_which_held_a_record(
    agent_for: AgentFor, tmp_path: Path
) -> None:
    window = WindowRule(kind="time", origin=BASE, length_s=HOUR)
    plan = make_plan(neighbouring="add-remove-one", least_records=None, window=window)
    agent = agent_for(plan)
    server = agent.server
    table = of_folder(tmp_path / "in") + 'whole = true\nreleased = "delete"\n'
    write_config(agent, table)
    assert agent.run("init", "--token", TOKEN) == 2
    assert "streams[0].source.released" in agent.err
    assert json.dumps(server.devices) == "{}"
