"""Write the reference pages: ``python -m docs.generator``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from docs.generator.commands import render_commands
from docs.generator.problems import render_problems
from docs.generator.rest import render_interface
from docs.generator.settings import render_settings

DOCS = Path(__file__).parents[1]
PAGES: Mapping[str, Callable[[], str]] = {
    "reference/commands.md": render_commands,
    "reference/problems.md": render_problems,
    "reference/rest.md": render_interface,
    "reference/settings.md": render_settings,
}

_NOTICE = (
    "<!-- Written from the code by `python -m docs.generator`: change the code, not this. -->\n"
)


def render_pages() -> dict[str, str]:
    """Return the text of each page, by its path below ``docs``."""
    return {name: f"{_NOTICE}\n{render()}" for name, render in PAGES.items()}


def main() -> None:
    """Write every page whose text has changed."""
    for name, text in render_pages().items():
        path = DOCS / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path}")  # noqa: T201


if __name__ == "__main__":
    main()
