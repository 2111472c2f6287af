"""The page of problem types, from the one table that server and device share."""

from __future__ import annotations

from docs.generator.markdown import join_parts, write_table
from sfumato.shared.wire import DeviceAction, problem_types

_ACTIONS = {
    DeviceAction.RETRY: "Send the same bytes again later.",
    DeviceAction.HOLD: "Send the same bytes again at the time that the answer states.",
    DeviceAction.SHELVE: "Set the sketch aside, visibly. It counts as spent. Send the next one.",
    DeviceAction.SUSPEND: "Set the sketch aside, and release nothing more on this stream until the "
    "owner acts.",
}


def render_problems() -> str:
    """Return the page."""
    problems = problem_types()
    parts = [
        "# Problem types",
        "Every error of the REST interface is a problem document (RFC 9457). Its `type` is one of "
        "the addresses below, relative to the server. `detail` names the field, the rule and the "
        "fix; `field`, `rule` and `fix` contain each by itself. A server shows the same pages "
        "under `/problems`.",
        write_table(
            ("type", "status", "device", "meaning"),
            (
                (f"[`{p.slug}`](#{p.slug})", str(p.status), p.action.value, p.title)
                for p in problems
            ),
        ),
        "## Device actions",
        "The column *device* names the agent's action for a sketch that the server answered with "
        "the problem.",
        write_table(
            ("action", "meaning"), ((action.value, text) for action, text in _ACTIONS.items())
        ),
        "## Each problem",
    ]
    for problem in problems:
        parts += [
            f"### {problem.slug}",
            f"**{problem.title}.** Status {problem.status}, `{problem.uri}`; in Python "
            f"`sfumato.errors.{problem.error.__name__}`.",
            problem.explanation,
        ]
    return join_parts(parts)
