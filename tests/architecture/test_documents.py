"""Documents hold together: links lead somewhere, the site shows every page, none is out of date."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import yaml

from docs.generator.__main__ import PAGES, SITE_PAGES, render_pages

ROOT = Path(__file__).parents[2]
NOT_OURS = {"build", "dist", "site", "node_modules"}
FENCE = re.compile(r"^(```|~~~).*?^\1[^\n]*$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)")
LINK = re.compile(r"\]\(\s*([^)\s]+)[^)]*\)")
HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*$", re.MULTILINE)
ELSEWHERE = re.compile(r"^[a-z][a-z+.-]*:")


def find_documents(tree: Path) -> list[Path]:
    """Return the documents of a tree, hidden folders and builds apart."""
    return sorted(
        path
        for path in tree.rglob("*.md")
        if not any(
            part.startswith(".") or part in NOT_OURS for part in path.relative_to(tree).parts
        )
    )


def read_anchors(document: Path) -> set[str]:
    """Return the anchors of a document's headings, as GitHub makes them."""
    anchors: set[str] = set()
    seen: Counter[str] = Counter()
    for heading in HEADING.findall(FENCE.sub("", document.read_text(encoding="utf-8"))):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        anchor = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        anchors.add(f"{anchor}-{seen[anchor]}" if seen[anchor] else anchor)
        seen[anchor] += 1
    return anchors


def read_links(document: Path) -> Iterator[str]:
    """Yield the targets of the links and pictures of a document that stay in the tree."""
    text = FENCE.sub("", document.read_text(encoding="utf-8"))
    for target in LINK.findall(CODE.sub("", text)):
        if not ELSEWHERE.match(target):
            yield unquote(target)


def find_broken_links(tree: Path) -> list[str]:
    """Return each link that leads nowhere, with the document it stands in."""
    broken = []
    for document in find_documents(tree):
        for target in read_links(document):
            path, _, anchor = target.partition("#")
            aim = (document.parent / path).resolve() if path else document
            exists = aim.exists() and aim.is_relative_to(tree)
            if not exists or (anchor and anchor not in read_anchors(aim)):
                broken.append(f"{document.relative_to(tree)}: {target}")
    return broken


def test_every_relative_link_leads_to_a_file_and_a_heading() -> None:
    assert {ROOT / "README.md", ROOT / "docs" / "index.md"} <= set(find_documents(ROOT))
    assert find_broken_links(ROOT) == []


def test_a_link_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    tree = tmp_path.resolve()
    (tree / "docs").mkdir()
    (tree / "docs" / "page.md").write_text("# One idea (`a.py`)\n\n# Twice\n\n# Twice\n")
    (tree / "README.md").write_text(
        "# Title\n"
        "[file](docs/page.md) [heading](docs/page.md#one-idea-apy) [own](#title)\n"
        "[second](docs/page.md#twice-1) [elsewhere](https://example.org/none)\n"
        "`[code](none.md)`\n"
        "```\n# no heading\n[fenced](none.md)\n```\n"
        "[gone](docs/none.md) [no heading](#no-heading) [third](docs/page.md#twice-2)\n"
        "![picture](none.png) [outside](../elsewhere.md)\n"
    )
    (tree.parent / "elsewhere.md").touch()
    assert find_broken_links(tree) == [
        "README.md: docs/none.md",
        "README.md: #no-heading",
        "README.md: docs/page.md#twice-2",
        "README.md: none.png",
        "README.md: ../elsewhere.md",
    ]


# ---- the site ----


def list_navigation(entries: Any) -> Iterator[str]:
    """Yield the pages that a navigation of MkDocs leads to."""
    if isinstance(entries, str):
        yield entries
        return
    for entry in entries.values() if isinstance(entries, dict) else entries:
        yield from list_navigation(entry)


def find_navigation_faults(tree: Path, *rendered: str) -> list[str]:
    """Return each page that the navigation lacks, names twice, or that does not exist."""
    config = yaml.safe_load((tree / "mkdocs.yml").read_text(encoding="utf-8"))
    named = Counter(list_navigation(config["nav"]))
    beside: dict[str, str] = config["extra"]["beside_the_code"]
    pages = [path for kind in ("*.md", "*.ipynb") for path in (tree / "docs").rglob(kind)]
    there = {str(path.relative_to(tree / "docs")) for path in pages}
    there |= {page for page, path in beside.items() if (tree / path).is_file()} | {*rendered}
    return [
        *(f"not in the navigation: {page}" for page in sorted(there - set(named))),
        *(f"does not exist: {page}" for page in sorted(set(named) - there)),
        *(f"twice: {page}" for page, times in sorted(named.items()) if times > 1),
    ]


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    assert find_navigation_faults(ROOT, *SITE_PAGES) == []


def test_a_page_that_the_navigation_lacks_is_found(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "here.md").touch()
    (tmp_path / "docs" / "left-out.md").touch()
    (tmp_path / "docs" / "left-out.ipynb").touch()
    (tmp_path / "mkdocs.yml").write_text(
        "extra: {beside_the_code: {beside.md: gone.md}}\n"
        "nav: [here.md, Part: [{Again: here.md}, none.md, beside.md]]\n"
    )
    assert find_navigation_faults(tmp_path) == [
        "not in the navigation: left-out.ipynb",
        "not in the navigation: left-out.md",
        "does not exist: beside.md",
        "does not exist: none.md",
        "twice: here.md",
    ]


def test_the_reference_pages_say_what_the_code_says() -> None:
    stale = [
        name
        for name, text in render_pages().items()
        if not (ROOT / "docs" / name).exists()
        or (ROOT / "docs" / name).read_text(encoding="utf-8") != text
    ]
    assert PAGES
    assert stale == [], "run `python -m docs.generator`"


def test_the_page_of_commands_loses_no_bracket_of_a_value() -> None:
    page = SITE_PAGES["reference/commands.md"]()
    values = re.findall(r"^\| `-[^|]*` `([^`]+)` \|", page, re.MULTILINE)
    assert "COLUMN=LOWER:UPPER[:SCALE]" in values
    assert [text for text in values if text.count("[") != text.count("]")] == []


def test_the_readme_opens_with_two_commands_and_fits_two_screens() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    commands = [line.split()[:2] for line in lines if line.startswith("    ")][:2]
    assert commands == [["make", "demo"], ["make", "test"]]
    assert len(lines) <= 130
