"""Calls about operations, and the pages of problem types."""

from __future__ import annotations

from sfumato.shared.wire.calls.call import Bare
from sfumato.shared.wire.objects.results import HealthBody, ReadinessBody


class Operations:
    """Liveness, readiness and metrics of the server.

    Attributes
    ----------
    get_health
        Answer while the process is alive.
    get_readiness
        Answer while the database answers and has the schema of this release.

        A server without workers takes sketches; its decodes and analyses wait.
    get_metrics
        Show the metrics of this process for Prometheus, with totals if the database answers.
    """

    get_health = Bare("public", "GET /healthz", HealthBody)
    get_readiness = Bare("public", "GET /readyz", ReadinessBody)
    get_metrics = Bare("monitor", "GET /metrics", str, media="text/plain")


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
