"""Every command that the page, a message or a document names is one of `sfumato`'s."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.core import TyperGroup
from typer.main import get_command

from sfumato.shared.command import find_commands, load_command

ROOT = Path(__file__).parents[2]
SOURCES = (
    ("aggregator analyst clients/c device_agent helper learning shared simulator", "*.py"),
    ("aggregator/ui", "*.js"),
    ("aggregator/ui", "*.html"),
    ("docs", "*.md"),
    (".", "*.md"),
)
# Where a command begins; it ends where its line, a value in quotes or the sentence does.
_NAMED = re.compile(
    r"(?:[`“]|<code>|\"code\", \{\}, \"|^ {0,4}|\$\()sfumato (?![A-Z-]|without )"
    r"([^`”#|;<>&()\"'\n\\]+)",
    re.MULTILINE,
)
_TEMPLATE = re.compile(r"\$\{[^{}]*\}")
_USAGE_ERROR: Any = typer.BadParameter.__mro__[1]


def read_texts(path: Path) -> Iterator[str]:
    """Yield texts in which commands may be named; what is computed stands as VALUE."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield _TEMPLATE.sub("VALUE", text)
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.JoinedStr):
            parts = (getattr(each, "value", None) for each in node.values)
            yield "".join(each if isinstance(each, str) else "VALUE" for each in parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@cache
def load(name: str) -> Any:
    """Return a command; None if there is none of the name."""
    entry = find_commands().get(name)
    return None if entry is None else get_command(load_command(entry))


def find_fault(named: str) -> str | None:
    """Return what the parser of a command has against it; values may be left out."""
    first, *rest = named.replace("...", "").rstrip(".,: ").split()
    command = load(first)
    if command is None:
        return f"there is no command {first}"
    try:
        while isinstance(command, TyperGroup) and rest:
            if rest[0] not in command.commands:
                # A command that is hidden stands for the name of its group.
                rest = [*(name for name, each in command.commands.items() if each.hidden), *rest]
            _, command, rest = command.resolve_command(typer.Context(command), rest)
        if "--help" not in rest:
            command.make_parser(typer.Context(command)).parse_args(rest)
    except _USAGE_ERROR as error:
        said = str(error.format_message())
        return None if "requires an argument" in said else said
    return None


@pytest.mark.parametrize(
    ("named", "is_one"),
    [
        ("study list", True),
        ("study delete STUDY", True),
        ("study withdraw STUDY", False),
        ("study list STUDY --no-such", False),
        ("nothing", False),
    ],
)
def test_a_command_that_does_not_exist_is_found(named: str, is_one: bool) -> None:
    assert (find_fault(named) is None) == is_one


def test_every_command_that_the_page_a_message_or_a_document_names_exists() -> None:
    found = {
        (str(path.relative_to(ROOT)), named)
        for folders, pattern in SOURCES
        for folder in folders.split()
        for path in (ROOT.glob(pattern) if folder == "." else (ROOT / folder).rglob(pattern))
        for text in read_texts(path)
        for named in _NAMED.findall(text)
    }
    assert len(found) > 400
    faults = [(*each, fault) for each in sorted(found) if (fault := find_fault(each[1]))]
    assert faults == []
