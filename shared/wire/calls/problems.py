"""Calls about problems."""

from __future__ import annotations

from sfumato.shared.wire.calls.call import Bare


class Problems:
    """A page for each problem type, at the URI that problem documents give.

    Attributes
    ----------
    list_problems
        List the problem types.
    get_problem
        Explain a problem type.
    """

    list_problems = Bare("public", "GET /problems", str, media="text/html")
    get_problem = Bare("public", "GET /problems/{slug}", str, media="text/html")
