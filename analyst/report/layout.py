"""Layout of pages without scripts, which need nothing from elsewhere."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources


def render_page(body: str, *, title: str, heading: str) -> str:
    """Return a page with the style of all reports; ``body`` is HTML, the others are text."""
    style = resources.files("sfumato.analyst.report").joinpath("style.css").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="referrer" content="no-referrer">'
        f"<title>{escape(title)}</title><style>{style}</style></head>"
        f"<body><main><h1><bdi>{escape(heading)}</bdi></h1>{body}</main></body></html>\n"
    )


def capitalise(sentence: str) -> str:
    """Return a sentence that begins with a capital letter."""
    return sentence[:1].upper() + sentence[1:]


def tabulate(heads: Iterable[str], rows: Iterable[Sequence[str]], *, kind: str = "") -> str:
    """Return a table of cells that are HTML; the first of each row names it.

    Parameters
    ----------
    kind
        ``words`` for cells of text.
    """
    head = "".join(f"<th>{each}</th>" for each in heads)
    body = "".join(
        f"<tr><th>{first}</th>{''.join(f'<td>{cell}</td>' for cell in rest)}</tr>"
        for first, *rest in rows
    )
    return (
        f'<div class="scroll"><table class="{kind}"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def fold(name: str, content: str, *, kind: str = "") -> str:
    """Return HTML that is folded on a screen, and open on paper."""
    return f'<details class="{kind}"><summary>{name}</summary>{content}</details>'
