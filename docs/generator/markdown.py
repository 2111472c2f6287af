"""Parts of Markdown: tables, and docstrings read as text."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence

_ROLE = re.compile(r":\w+:`~?([^`]+)`")


def write_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table without the columns that are empty; without rows, nothing."""
    cells = [[_to_cell(cell) for cell in row] for row in rows]
    kept = [i for i in range(len(header)) if any(row[i] for row in cells)]
    lines = ["| " + " | ".join(row[i] for i in kept) + " |" for row in [header, *cells]]
    lines.insert(1, "|---" * len(kept) + "|")
    return "\n".join(lines) + "\n" if cells else ""


def join_parts(parts: Iterable[str]) -> str:
    """Return the parts that are not empty, with one empty line between them."""
    return "\n\n".join(part.strip("\n") for part in parts if part.strip()) + "\n"


def to_markdown(text: str) -> str:
    """Return a docstring's text with its code and roles as Markdown."""
    return _ROLE.sub(r"`\1`", text).replace("``", "`")


def read_summary(thing: object) -> str:
    """Return the first paragraph of a docstring, as one line."""
    return _to_line(_read_docstring(thing).partition("\n\n")[0])


def read_parameters(kind: type) -> dict[str, str]:
    """Return the text of each parameter of a class; names listed together share a text."""
    _, _, section = _read_docstring(kind).partition("Parameters\n----------\n")
    section = re.split(r"\n\n\w+\n-{3,}\n", section)[0]
    found: dict[str, str] = {}
    for names, text in re.findall(r"^(\w[\w, ]*)\n((?:    .*\n?|\n)+)", section, re.MULTILINE):
        for name in names.split(","):
            found[name.strip()] = _to_line(text)
    return found


def _read_docstring(thing: object) -> str:
    return to_markdown(inspect.getdoc(thing) or "")


def _to_line(text: str) -> str:
    return " ".join(text.split())


def _to_cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
