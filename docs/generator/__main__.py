"""Write the reference pages: ``python -m docs.generator``."""

from __future__ import annotations

from pathlib import Path

from docs.generator.pages import render_pages

DOCS = Path(__file__).parents[1]


def main() -> None:
    """Write every page whose text has changed."""
    for name, text in render_pages().items():
        path = DOCS / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path}")  # noqa: T201


if __name__ == "__main__":
    main()
