"""The commands on plans, as the tests run them."""

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sfumato.shared import command
from tests.commands import run_inside

SPEC = Path(__file__).parents[3] / "deploy" / "demo" / "plan.toml"
STUDY = {
    "--records": "26115",
    "--devices": "3",
    "--windows": "4",
    "--dimensions": "4",
    "--clusters": "5",
    "--epsilon": "1",
}


@functools.cache
def _run(*arguments: str) -> tuple[int, str, str]:
    done = run_inside(command.main, arguments)
    return done.returncode, done.stdout, done.stderr


def advise(options: Mapping[str, str], *more: str, status: int = 0) -> str:
    """Return the words that are advised; the same question is asked once."""
    found, out, err = _run("plan", "advise", *more, *flatten(options))
    assert found == status, err
    return words_of(out)


def advise_json(options: Mapping[str, str], *more: str, status: int = 0) -> Any:
    return json.loads(advise(options, *more, "--json", status=status))


def refuse_advice(options: Mapping[str, str], *more: str) -> str:
    """Return why there is no advice; nothing else may be printed."""
    status, out, err = _run("plan", "advise", *more, *flatten(options))
    assert (status, out) == (2, "")
    return err


def show(path: Path, options: Mapping[str, str] | None = None, *more: str) -> str:
    """Return what is said of a plan, which may be written again between two calls."""
    status, out, err = _run.__wrapped__("plan", "show", str(path), *more, *flatten(options or {}))
    assert status == 0, err
    return words_of(out)


def show_json(path: Path, options: Mapping[str, str] | None = None, *more: str) -> Any:
    return json.loads(show(path, options, *more, "--json"))


def refuse_to_show(path: Path, options: Mapping[str, str], *more: str) -> str:
    status, _, err = _run.__wrapped__("plan", "show", str(path), *more, *flatten(options))
    assert status == 2
    return err


def flatten(options: Mapping[str, str]) -> list[str]:
    return [part for pair in options.items() for part in pair]


def words_of(text: str) -> str:
    return " ".join(text.split())
