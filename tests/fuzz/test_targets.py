"""Executions of each fuzz target: a few thousand, a million in `make soak`."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from tests.fuzz.targets import REQUESTS, TARGETS, make_requests
from tests.soak import small_and_soak

pytest.importorskip("atheris", reason="atheris has no wheel for this machine")


def fuzz(target: str, folder: Path, n_runs: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.fuzz", target, str(n_runs), str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )


@small_and_soak("n_runs", 1000, 1_000_000)
@pytest.mark.parametrize("target", sorted(set(TARGETS) - {"planted"}))
def test_a_parser_raises_nothing_but_its_own_errors(
    target: str, n_runs: int, tmp_path: Path
) -> None:
    done = fuzz(target, tmp_path, n_runs)
    assert done.returncode == 0, done.stderr[-4000:]
    assert f"Done {n_runs} in" in done.stderr


def test_the_fuzzer_finds_a_fault_that_is_there(tmp_path: Path) -> None:
    # It has two bytes to find from a seed that helps it with neither, at a microsecond each try.
    done = fuzz("planted", tmp_path, 1_000_000)
    assert done.returncode != 0
    assert "RuntimeError: found" in done.stdout + done.stderr
    (found,) = tmp_path.glob("crash-*")
    assert found.read_bytes().startswith(b"\xd2\x84")


def test_every_request_has_a_seed_that_it_takes() -> None:
    for request, adapter in REQUESTS.items():
        assert any(_takes(adapter, seed) for seed in make_requests()), request


def _takes(request: TypeAdapter[Any], seed: bytes) -> bool:
    try:
        request.validate_json(seed)
    except ValidationError:
        return False
    return True
