"""The page `/docs`: every call of the interface, from its OpenAPI description."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterable, Mapping
from hashlib import sha256
from html import escape
from importlib import resources
from typing import Any

from fastapi import FastAPI
from fastapi.responses import HTMLResponse

Document = Mapping[str, Any]

_STYLE = (resources.files(__package__) / "reference.css").read_text(encoding="utf-8")
# The page may use this one style, named by its digest, and no script.
_DIGEST = b64encode(sha256(_STYLE.encode()).digest()).decode()
_POLICY = (
    f"default-src 'none'; style-src 'sha256-{_DIGEST}'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
_CALLERS = {"key": "an API key", "device": "a device's signature"}


def add_reference(app: FastAPI) -> None:
    """Serve the page at ``/docs``."""

    @app.get("/docs", include_in_schema=False)
    async def get_reference() -> HTMLResponse:
        return HTMLResponse(
            render_reference(app.openapi()), headers={"Content-Security-Policy": _POLICY}
        )


def render_reference(document: Document) -> str:
    """Return the page as HTML."""
    info = document["info"]
    calls = [
        (method, path, call)
        for path, methods in document["paths"].items()
        for method, call in methods.items()
    ]
    tags = list(dict.fromkeys(_tag_of(call) for _, _, call in calls))
    index = "".join(f'<a href="#{escape(tag)}">{escape(tag)}</a>' for tag in tags)
    sections = "".join(
        f'<section id="{escape(tag)}"><h2>{escape(tag)}</h2>'
        + "".join(
            _render_call(document, method, path, call)
            for method, path, call in calls
            if _tag_of(call) == tag
        )
        + "</section>"
        for tag in tags
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(info['title'])}: the interface</title><style>{_STYLE}</style></head>"
        f"<body><header><h1>{escape(info['title'])} <small>{escape(info['version'])}</small></h1>"
        f"{_render_text(info['description'])}"
        '<p>The same for programs: <a href="/openapi.json">/openapi.json</a></p>'
        f"<nav>{index}</nav></header><main>{sections}</main></body></html>"
    )


def _tag_of(call: Document) -> str:
    # The last tag is the most specific: calls of operators on devices are listed with operators.
    return str(call.get("tags", ["others"])[-1])


def _render_call(document: Document, method: str, path: str, call: Document) -> str:
    summary, _, rest = str(call.get("description") or call["summary"]).partition("\n\n")
    parts = [
        _render_text(rest),
        f"<p>Needs {_render_callers(call)}.</p>",
        _render_parameters(call.get("parameters", [])),
    ]
    if "requestBody" in call:
        parts += ["<h3>Body</h3>", _render_content(document, call["requestBody"]["content"])]
    seen: dict[str, str] = {}
    for status, response in call["responses"].items():
        if status.startswith(("2", "3")):
            shown = _render_content(document, response.get("content", {}))
            first = seen.setdefault(shown, status)
            parts.append(f"<h3>Answer {escape(status)}</h3>")
            parts.append(shown if first == status else f"<p>as {escape(first)}</p>")
    parts.append(_render_problems(call["responses"]))
    return (
        f'<details id="{escape(call["operationId"])}"><summary>'
        f'<b class="{method}">{method.upper()}</b> <code>{escape(path)}</code> '
        f"<span>{_render_inline(summary)}</span></summary>{''.join(parts)}</details>"
    )


def _render_callers(call: Document) -> str:
    named = [_CALLERS[name] for either in call.get("security", []) for name in either]
    return escape(" or ".join(sorted(named)) or "no key")


def _render_parameters(parameters: Iterable[Document]) -> str:
    rows = "".join(
        f"<tr><td><code>{escape(parameter['name'])}</code></td><td>{escape(parameter['in'])}</td>"
        f"<td>{'needed' if parameter.get('required') else 'may be left out'}</td>"
        f"<td>{_render_inline(parameter.get('description', ''))}</td></tr>"
        for parameter in parameters
    )
    return f"<h3>Parameters</h3><table>{rows}</table>" if rows else ""


def _render_content(document: Document, content: Document) -> str:
    parts = []
    for media_type, described in content.items():
        parts.append(f"<p>{escape(media_type)}</p>")
        for example in _examples_of(document, described):
            shown = example if isinstance(example, str) else json.dumps(example, indent=2)
            parts.append(f"<pre>{escape(shown)}</pre>")
    return "".join(parts) or "<p>without a body</p>"


def _examples_of(document: Document, described: Document) -> list[Any]:
    """Return the example of a body, or those of the schemas that it may have."""
    if "example" in described:
        return [described["example"]]
    schema = described.get("schema", {})
    found = []
    for part in schema.get("anyOf", [schema]):
        known = document["components"]["schemas"].get(_name_of(part), {})
        if "example" in known:
            found.append(known["example"])
            continue
        items = known.get("properties", {}).get("items", {}).get("items", {})
        item = document["components"]["schemas"].get(_name_of(items), {})
        if "example" in item:
            page = {"next_page": None} if "next_page" in known["properties"] else {}
            found.append({"items": [item["example"]]} | page)
    return found


def _name_of(schema: Document) -> str:
    return str(schema.get("$ref", "")).rpartition("/")[2]


def _render_problems(responses: Document) -> str:
    links = [
        f'<a href="/problems/{escape(slug)}">{escape(slug)}</a> ({escape(status)})'
        for status, response in sorted(responses.items())
        if status.startswith(("4", "5"))
        for content in response.get("content", {}).values()
        for slug in content.get("examples", {})
    ]
    return f"<h3>Problems</h3><p>{', '.join(links)}</p>" if links else ""


def _render_text(text: str) -> str:
    paragraphs = re.split(r"\n\s*\n", text.strip())
    return "".join(f"<p>{_render_inline(paragraph)}</p>" for paragraph in paragraphs if paragraph)


def _render_inline(text: str) -> str:
    """Return text as HTML: backquotes mark code, links stay links."""
    shown = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))
    return re.sub(r"\[([^\]]+)\]\((/[\w/.-]*)\)", r'<a href="\2">\1</a>', shown)
