"""The commands on plans, as the tests run them."""

from pathlib import Path

import pytest

from sfumato.shared import command

SPEC = Path(__file__).parents[3] / "deploy" / "demo" / "plan.toml"
STUDY = {
    "--records": "26115",
    "--devices": "3",
    "--windows": "4",
    "--dimensions": "4",
    "--clusters": "5",
    "--epsilon": "1",
}


def run(name: str, options: dict[str, str], *more: str) -> int:
    return command.main(["plan", name, *more, *(part for pair in options.items() for part in pair)])


def words_of(text: str) -> str:
    return " ".join(text.split())


def show(capsys: pytest.CaptureFixture[str], path: Path, *options: str) -> str:
    assert command.main(["plan", "show", str(path), *options]) == 0
    return words_of(capsys.readouterr().out)
