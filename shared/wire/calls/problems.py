"""Calls about problems."""

from __future__ import annotations

from sfumato.shared.wire.calls.call import Bare


class Problems:
    """A page for each problem type, at the URI that problem documents give."""

    list_problems = Bare(
        "public", "GET /problems", str, "List the problem types.", media="text/html"
    )

    get_problem = Bare(
        "public", "GET /problems/{slug}", str, "Explain a problem type.", media="text/html"
    )
