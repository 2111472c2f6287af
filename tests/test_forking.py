"""Forked programs are processes as those that the interpreter starts."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.forking import Forked, forking_in, put_programs, run_forked

PRINT = "import os, sys; print(os.getcwd(), sys.argv, os.environ.get('GIVEN'), input())"
SLEEP = "import time; print('ready', flush=True); time.sleep(1e6)"


@pytest.mark.parametrize(
    ("program", "status"),
    [
        ("pass", 0),
        ("import sys; sys.exit(7)", 7),
        ("import sys; sys.exit('why')", 1),
        ("1 / 0", 1),
        ("import os; os.abort()", -signal.SIGABRT),
        ("import atexit, os; atexit.register(os._exit, 9)", 9),
        ("import signal; signal.raise_signal(signal.SIGINT)", -signal.SIGINT),
    ],
)
def test_a_program_ends_with_the_status_of_the_interpreter(program: str, status: int) -> None:
    command = [sys.executable, "-c", program]
    forked = run_forked(command)
    assert forked.returncode == status
    assert forked.returncode == subprocess.run(command, check=False, capture_output=True).returncode


def test_it_has_its_own_arguments_folder_environment_and_files(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PRINT, "one", "two"]
    environment = {"GIVEN": "yes"}
    forked = run_forked(command, text="line\n", folder=tmp_path, environment=environment)
    assert forked.stdout == f"{tmp_path} ['-c', 'one', 'two'] yes line\n"
    assert forked.stderr == ""


def test_modules_and_scripts_run_as_the_interpreter_runs_them() -> None:
    module = run_forked([sys.executable, "-m", "sfumato.device_agent.cli", "--version"])
    script = run_forked([Path(sys.executable).parent / "sfumato-agent", "--version"])
    assert module.returncode == script.returncode == 0
    assert module.stdout == script.stdout != ""


def test_a_kill_is_seen_and_kills_nothing_else() -> None:
    command = [sys.executable, "-c", SLEEP]
    with (
        Forked(command, stdout=subprocess.PIPE, text=True) as first,
        Forked(command, stdout=subprocess.PIPE, text=True) as second,
    ):
        for process in (first, second):
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        with pytest.raises(subprocess.TimeoutExpired):
            first.wait(0.0)
        os.kill(first.pid, signal.SIGKILL)
        assert first.wait() == -signal.SIGKILL
        assert second.poll() is None
        second.terminate()
        assert second.wait() == -signal.SIGTERM


def test_threads_start_and_wait_at_the_same_time() -> None:
    statuses: list[int] = []

    def run(status: int) -> None:
        statuses.append(run_forked([sys.executable, "-c", f"exit({status})"]).returncode)

    threads = [threading.Thread(target=run, args=(status,)) for status in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == list(range(8))


def test_random_numbers_differ_between_two_of_one_origin() -> None:
    program = "import random, secrets; print(random.random(), secrets.token_hex())"
    said = {run_forked([sys.executable, "-c", program]).stdout for _ in range(2)}
    numbers = [set(line.split()) for line in said]
    assert len(numbers) == 2
    assert not numbers[0] & numbers[1]


def test_a_module_may_start_forked_programs_and_others_as_before() -> None:
    from deploy.demo import cluster

    before = vars(cluster)["subprocess"]
    with forking_in(cluster):
        within = vars(cluster)["subprocess"]
        assert cluster.run_command("sfumato-agent", "--version").startswith("sfumato-agent ")
        assert within.run(["true"], check=False).returncode == 0
        process = within.Popen([sys.executable, "-c", "pass"])
        assert isinstance(process, Forked)
        assert process.wait() == 0
    assert vars(cluster)["subprocess"] is before


def test_a_shell_finds_programs_that_are_forked(tmp_path: Path) -> None:
    script = (
        "echo 'print(6 * 7)' | python -; exit=0\n"
        "python -c 'import sys; sys.exit(3)' || exit=$?; echo $exit\n"
        "python -c 'import os, signal; os.kill(os.getpid(), signal.SIGKILL)' || exit=$?; echo $exit"
    )
    done = subprocess.run(
        ["sh", "-euc", script], check=True, stdout=subprocess.PIPE, **put_programs(tmp_path)
    )
    assert done.stdout.split() == [b"42", b"3", b"137"]


def test_a_program_of_a_shell_gets_the_signals_of_its_script(tmp_path: Path) -> None:
    options = put_programs(tmp_path)
    with subprocess.Popen(
        ["sh", "-euc", f'exec python -c "{SLEEP}"'], stdout=subprocess.PIPE, text=True, **options
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.terminate()
        assert process.wait() == -signal.SIGTERM
