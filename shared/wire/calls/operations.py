"""Calls about operations."""

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
