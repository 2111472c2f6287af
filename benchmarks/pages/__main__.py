"""Write a page and draw a picture: ``python -m benchmarks.pages NAME ROWS... [--page] [--plot]``.

ROWS are files of JSON lines that ``python -m benchmarks.BENCHMARK --json`` printed.
"""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.pages.tables import TABLES, fill_methods
from benchmarks.pages.templates import find_template, read_row, replace_section, write_page
from benchmarks.runner import read_output

PAGES = (
    *("calibration", "cover", "honesty", "insight", "looks", "methods", "paper", "peers"),
    *("real-sets", "sizing", "synthesis"),
)
PICTURES = ("fleets", "methods", "paper")


def render(name: str, lines: list[str], date: str, picture: str = "") -> str:
    """Return a page, or its section of a larger page."""
    template = find_template(name).read_text("utf-8")
    if name == "methods":
        template = fill_methods(template, [read_row(line) for line in lines])
    return write_page(template, lines, date, tables=TABLES.get(name, {}), picture=picture)


def main(arguments: list[str] | None = None) -> None:
    """Read the rows, and write what is asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pages", description=__doc__)
    parser.add_argument("name", choices=sorted({*PAGES, *PICTURES}))
    parser.add_argument("rows", nargs="+", type=Path, metavar="ROWS", help="files of JSON lines")
    parser.add_argument("--page", type=read_output, help="the page of Markdown")
    parser.add_argument("--plot", type=read_output, help="the picture, as PNG")
    given = parser.parse_args(arguments)
    lines = [line for path in given.rows for line in path.read_text("utf-8").splitlines()]
    if given.plot:
        if given.name not in PICTURES:
            parser.error(f"{given.name} has no picture; leave --plot out")
        # matplotlib takes a second to load.
        from benchmarks.pages import pictures  # noqa: PLC0415

        pictures.draw(given.name, [read_row(line) for line in lines], given.plot)
    if given.page:
        if given.name not in PAGES:
            parser.error(f"{given.name} has no page; leave --page out")
        newest = max(path.stat().st_mtime for path in given.rows)
        place = f"../{given.plot.parent.name}/{given.plot.name}" if given.plot else ""
        page = render(given.name, lines, f"{datetime.fromtimestamp(newest, UTC):%Y-%m-%d}", place)
        if page.startswith("<!-- begin"):
            page = replace_section(given.page.read_text("utf-8"), page)
        given.page.write_text(page, "utf-8")


if __name__ == "__main__":
    main()
