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
    parts = [
        "# Problem types",
        "Every error of the REST interface is a problem document (RFC 9457). Its `type` is "
        "`/problems/` and one of the names below, relative to the server, which shows the same "
        "pages there. `detail` names the field, the rule and the fix; `field`, `rule` and `fix` "
        "contain each by itself.",
        "A device acts on a sketch that the server answered with a problem:",
        write_table(
            ("action", "meaning"), ((action.value, text) for action, text in _ACTIONS.items())
        ),
    ]
    for problem in problem_types():
        parts += [
            f"## {problem.slug}",
            f"**{problem.title}.** Status {problem.status}; a device: {problem.action.value}; in "
            f"Python `sfumato.errors.{problem.error.__name__}`.",
            problem.explanation,
        ]
    return join_parts(parts)
