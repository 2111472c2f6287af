"""A few thousand executions of each fuzz target; ``SFUMATO_FUZZ=1000000`` for as many as that."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import BaseModel, ValidationError

from tests.fuzz.targets import REQUESTS, TARGETS, make_requests

pytest.importorskip("atheris", reason="atheris has no wheel for this machine")

N_RUNS = int(os.environ.get("SFUMATO_FUZZ", "3000"))


def fuzz(target: str, folder: Path, n_runs: int = N_RUNS) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.fuzz", target, str(n_runs), str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("target", sorted(set(TARGETS) - {"planted"}))
def test_a_parser_raises_nothing_but_its_own_errors(target: str, tmp_path: Path) -> None:
    done = fuzz(target, tmp_path)
    assert done.returncode == 0, done.stderr[-4000:]
    assert f"Done {N_RUNS} in" in done.stderr


def test_the_fuzzer_finds_a_fault_that_is_there(tmp_path: Path) -> None:
    # It has two bytes to find from a seed that helps it with neither, at a microsecond each try.
    done = fuzz("planted", tmp_path, 1_000_000)
    assert done.returncode != 0
    assert "RuntimeError: found" in done.stdout + done.stderr
    (found,) = tmp_path.glob("crash-*")
    assert found.read_bytes().startswith(b"\xd2\x84")


@pytest.mark.parametrize("target", sorted(set(TARGETS)))
def test_every_target_takes_its_seeds(target: str) -> None:
    for seed in TARGETS[target].seeds():
        TARGETS[target].parse(seed)


def test_every_request_has_a_seed_that_it_takes() -> None:
    for request in REQUESTS:
        assert any(_takes(request, seed) for seed in make_requests()), request


def _takes(request: type[BaseModel], seed: bytes) -> bool:
    try:
        request.model_validate_json(seed)
    except ValidationError:
        return False
    return True
