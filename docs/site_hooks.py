"""Hooks of MkDocs: documents beside the code become pages of the site, and links point to them.

Long reference pages are rendered from the code while the site is built.

A page links to files as they lie in the repository, so that it can be read on a forge. In the site
a link to a document leads to its page, one to another file to a copy, and one to a folder is text.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from urllib.parse import unquote

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from pymdownx.slugs import slugify

from docs.generator.__main__ import SITE_PAGES

COPIES = "files"
"""Folder of the site with the pictures and examples that documents link to."""

NOT_SEARCHED = (
    *("benchmarks/", "decisions/", "explanation/proofs.md", "project/changelog.md"),
    *("reference/clients.md", "reference/commands.md", "reference/formats.md"),
    *("reference/problems.md", "reference/rest.md", "reference/settings.md"),
)
"""Pages and folders that the search leaves out: who looks for help is not helped by them."""

_FENCE = r"^(?:```|~~~).*?^(?:```|~~~)[^\n]*$"
_CODE = r"(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`)"
_LINK = r"(?P<bang>!?)\[(?P<text>(?:[^\[\]]|\[[^\[\]]*\])*)\]\((?P<target>[^)\s]+)\)"
_PARTS = re.compile(f"{_FENCE}|{_CODE}|{_LINK}", re.MULTILINE | re.DOTALL)
_ELSEWHERE = re.compile(r"^(?:[a-z][a-z+.-]*:|#)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Make the anchors of headings as a forge makes them."""
    config.mdx_configs["toc"]["slugify"] = slugify(case="lower")
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the documents beside the code, and a copy of each file that a document links to."""
    root = _root(config)
    for page, render in SITE_PAGES.items():
        files.append(File.generated(config, page, content=render()))
    for page, path in _beside(config).items():
        files.append(File.generated(config, page, abs_src_path=str(root / path)))
    for document in list(files.documentation_pages()):
        for match in _PARTS.finditer(document.content_string):
            target = match["target"]
            if target and not _ELSEWHERE.match(target):
                path = _find(document.src_uri, target, config)
                copy = f"{COPIES}/{path}"
                if _is_copied(root / path, config) and files.get_file_from_path(copy) is None:
                    files.append(File.generated(config, copy, abs_src_path=str(root / path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links into the repository into links of the site, and leave pages out of the search."""
    if page.file.src_uri.startswith(NOT_SEARCHED):
        page.meta["search"] = {"exclude": True}
    pages = {path: uri for uri, path in _beside(config).items()}

    def change(match: re.Match[str]) -> str:
        target = match["target"]
        if not target or _ELSEWHERE.match(target):
            return match[0]
        path = _find(page.file.src_uri, target, config)
        anchor = "#" + target.partition("#")[2] if "#" in target else ""
        if path.startswith("docs/"):
            uri = path.removeprefix("docs/")
        elif path in pages:
            uri = pages[path]
        elif _is_copied(_root(config) / path, config):
            uri = f"{COPIES}/{path}"
        else:
            return f"{match['text']} (`{path}`)"
        aim = posixpath.relpath(uri, posixpath.dirname(page.file.src_uri) or ".")
        return f"{match['bang']}[{match['text']}]({aim}{anchor})"

    return _PARTS.sub(change, markdown)


def _root(config: MkDocsConfig) -> Path:
    return Path(config.config_file_path).parent


def _beside(config: MkDocsConfig) -> dict[str, str]:
    found: dict[str, str] = config.extra["beside_the_code"]
    return found


def _find(page: str, target: str, config: MkDocsConfig) -> str:
    """Return the path in the repository that a link of a page leads to."""
    here = _beside(config).get(page, f"docs/{page}")
    return posixpath.normpath(
        posixpath.join(posixpath.dirname(here), unquote(target.partition("#")[0]))
    )


def _is_copied(path: Path, config: MkDocsConfig) -> bool:
    docs = Path(config.docs_dir)
    beside = {_root(config) / document for document in _beside(config).values()}
    return path.is_file() and path not in beside and not path.is_relative_to(docs)
