"""A page for each problem type, at the URI that problem documents give."""

from __future__ import annotations

from html import escape

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from sfumato.aggregator.api.serving import serves
from sfumato.shared.errors import NotFoundError
from sfumato.shared.wire import DeviceAction, ProblemType, problem_types
from sfumato.shared.wire.calls.operations import Problems

router = APIRouter(tags=["problems"])

_ACTIONS = {
    DeviceAction.RETRY: "sends the same bytes again later",
    DeviceAction.HOLD: "sends the same bytes again at the time that the answer gives",
    DeviceAction.SHELVE: "sets the sketch aside, visibly, and sends the next one; it counts as "
    "spent",
    DeviceAction.SUSPEND: "sets the sketch aside and releases nothing more on this stream until "
    "its owner acts",
}
_POLICY = "default-src 'none'; style-src 'self'; frame-ancestors 'none'; base-uri 'none'"
_PAGE = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title} - Sfumato</title><link rel="stylesheet" href="/ui/dashboard.css"></head>
<body><main class="card">
<h1>{title}</h1>
{body}
</main></body>
</html>
"""


@serves(router, Problems.list_problems, response_class=HTMLResponse)
async def list_problems() -> HTMLResponse:
    rows = "\n".join(
        f'<li><a href="{escape(problem.uri)}">{escape(problem.slug)}</a> '
        f"({problem.status}): {escape(problem.title)}</li>"
        for problem in problem_types()
    )
    return _page("Problems", f"<ul>\n{rows}\n</ul>")


@serves(router, Problems.get_problem, response_class=HTMLResponse)
async def get_problem(slug: str) -> HTMLResponse:
    problem = next((known for known in problem_types() if known.slug == slug), None)
    if problem is None:
        raise NotFoundError("is not a problem type", field="slug", fix="see /problems")
    return _page(problem.title, _describe(problem))


def _describe(problem: ProblemType) -> str:
    return (
        f"<p><code>{escape(problem.slug)}</code>, status {problem.status}</p>\n"
        f"<p>{escape(problem.explanation)}</p>\n"
        f"<p>A device {escape(_ACTIONS[problem.action])}.</p>\n"
        '<p><a href="/problems">All problems</a></p>'
    )


def _page(title: str, body: str) -> HTMLResponse:
    return HTMLResponse(
        _PAGE.format(title=escape(title), body=body), headers={"Content-Security-Policy": _POLICY}
    )
