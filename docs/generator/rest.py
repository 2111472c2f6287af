"""The page of the REST interface, from its OpenAPI description."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from docs.generator.markdown import join_parts, to_markdown, write_table
from sfumato.aggregator.app import create_app
from sfumato.aggregator.settings import Settings

Document = Mapping[str, Any]

_CALLERS = {"key": "an API key", "device": "a device's signature"}
_ANY_CALL = ("too-many-requests", "internal", "unavailable")
_TITLES = {
    "studies": "Studies",
    "devices": "Devices",
    "sketches": "Sketches",
    "snapshots": "Snapshots",
    "decodes": "Decodes",
    "analyses": "Analyses",
    "operators": "Operators",
    "operations": "Health and metrics",
    "problems": "Problems",
}


def render_interface() -> str:
    """Return the page."""
    document = create_app(Settings()).openapi()
    calls = [
        (method.upper(), path, call)
        for path, methods in document["paths"].items()
        for method, call in methods.items()
    ]
    parts = [
        "# REST interface",
        "This page lists every call of the aggregator. Ids are lower-case hexadecimal, times are "
        "RFC 3339 in UTC. Errors are [problem documents](problems.md). A server shows this page "
        "under `/docs`, and the OpenAPI description under `/openapi.json`. [The wire "
        "protocol](../../shared/wire/README.md) defines the device side and every byte.",
        "* *An API key* goes into `Authorization: Bearer sfk_...`; "
        "`sfumato key create --scope SCOPE --name NAME` creates one.\n"
        "* *A device's signature* covers method, path, time and digest of the body (RFC 9421, "
        "Ed25519).",
        "Every call may also answer with "
        + ", ".join(f"[`{slug}`](problems.md#{slug})" for slug in _ANY_CALL)
        + ". Only the other problems are listed below.",
    ]
    for tag, title in _TITLES.items():
        chosen = [call for call in calls if _tag_of(call[2]) == tag]
        parts.append(f"## {title}")
        parts.append(
            write_table(("call", "meaning"), ((_link(m, p), _summary(c)) for m, p, c in chosen))
        )
        parts += [part for m, p, c in chosen for part in _render_call(document, m, p, c)]
    parts += ["## Bodies", "Fields of requests and answers. Optional fields are marked."]
    for name, schema in sorted(document["components"]["schemas"].items()):
        parts += _render_schema(name, schema)
    return join_parts(parts)


def _tag_of(call: Document) -> str:
    # The last one says most: calls on devices that operators alone may make are among theirs.
    return str(call["tags"][-1])


def _summary(call: Document) -> str:
    return to_markdown(str(call["description"]).partition("\n\n")[0])


def _link(method: str, path: str) -> str:
    return f"[`{method} {path}`](#{_anchor(f'{method} {path}')})"


def _anchor(heading: str) -> str:
    kept = "".join(c for c in heading.lower() if c.isalnum() or c in "_- ")
    return kept.replace(" ", "-")


def _render_call(document: Document, method: str, path: str, call: Document) -> list[str]:
    parts = [f"### `{method} {path}`", _link_problems(to_markdown(str(call["description"])))]
    parts.append(f"Needs {_name_callers(call)}.")
    parts.append(_render_parameters(call.get("parameters", [])))
    if body := call.get("requestBody"):
        for media_type, content in body["content"].items():
            parts.append(f"**Body**: {_name_schema(content)}, `{media_type}`.")
            if "description" in body:
                parts.append(to_markdown(body["description"]))
            parts.append(_fold("Example of the body", _example_of(document, content)))
    seen: list[Any] = []
    for status, response in call["responses"].items():
        if status.startswith(("2", "3")):
            contents = response.get("content", {}).items()
            shown = " or ".join(f"{_name_schema(c)}, `{media}`" for media, c in contents)
            parts.append(f"**Answer {status}**: {shown or 'no body'}.")
            for _, content in contents:
                example = _example_of(document, content)
                if example is not None and example not in seen:
                    seen.append(example)
                    parts.append(_fold("Example of the answer", example))
    problems = [
        f"[`{slug}`](problems.md#{slug}) ({status})"
        for status, response in sorted(call["responses"].items())
        if status.startswith(("4", "5"))
        for content in response.get("content", {}).values()
        for slug in content.get("examples", {})
        if slug not in _ANY_CALL
    ]
    parts.append(f"**Problems**: {', '.join(problems)}." if problems else "")
    return parts


def _link_problems(text: str) -> str:
    return text.replace("](/problems", "](problems.md")


def _name_callers(call: Document) -> str:
    named = [_CALLERS[name] for either in call.get("security", []) for name in either]
    return " or ".join(sorted(named)) or "no key"


def _render_parameters(parameters: Iterable[Document]) -> str:
    return write_table(
        ("parameter", "in", "presence", "meaning"),
        (
            (
                f"`{parameter['name']}`",
                parameter["in"],
                "needed" if parameter.get("required") else "may be left out",
                to_markdown(parameter.get("description", "")),
            )
            for parameter in parameters
        ),
    )


def _example_of(document: Document, content: Document) -> Any:
    """Return the example of a body: its own, that of its schema, or a page with one element."""
    if "example" in content:
        return content["example"]
    schemas = document["components"]["schemas"]
    schema = content.get("schema", {})
    for part in schema.get("anyOf", schema.get("oneOf", [schema])):
        known = schemas.get(_reference(part), {})
        if "example" in known:
            return known["example"]
        items = known.get("properties", {}).get("items", {}).get("items", {})
        item = schemas.get(_reference(items), {})
        if "example" in item:
            page = {"next_page": None} if "next_page" in known["properties"] else {}
            return {"items": [item["example"]]} | page
    return None


def _fold(title: str, example: Any) -> str:
    """Return an example that the page shows on demand."""
    if example is None:
        return ""
    language = "" if isinstance(example, str) else "json"
    shown = example if isinstance(example, str) else json.dumps(example, indent=2)
    return (
        f'<details markdown="1"><summary>{title}</summary>\n\n'
        f"```{language}\n{shown.rstrip()}\n```\n\n</details>"
    )


def _reference(schema: Document) -> str:
    return str(schema.get("$ref", "")).rpartition("/")[2]


def _name_schema(content: Document) -> str:
    return _name_type(content.get("schema") or {})


def _name_type(schema: Document) -> str:
    if name := _reference(schema):
        shown = name.strip("_").replace("_", " ")
        return f"[{shown}](#{_anchor(shown)})"
    if "anyOf" in schema:
        return " or ".join(_name_type(part) for part in schema["anyOf"])
    if "enum" in schema:
        return " or ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if schema.get("type") == "array":
        items = schema.get("prefixItems")
        inner = ", ".join(map(_name_type, items)) if items else _name_type(schema.get("items", {}))
        return f"list of {inner}"
    if schema.get("type") == "string" and schema.get("format") == "binary":
        return "bytes"
    return str(schema.get("type", "any"))


def _render_schema(name: str, schema: Document) -> list[str]:
    shown = name.strip("_").replace("_", " ")
    required = schema.get("required", [])
    rows = (
        (
            f"`{field}`",
            _name_type(described),
            "" if field in required else "may be left out",
            to_markdown(described.get("description", "")),
        )
        for field, described in schema.get("properties", {}).items()
    )
    text = to_markdown(schema.get("description", ""))
    # The problems have a page of their own, which says more than their list.
    if name == "Problem":
        return [f"### {shown}", text, "See [problem types](problems.md)."]
    return [f"### {shown}", text, write_table(("field", "type", "presence", "meaning"), rows)]
