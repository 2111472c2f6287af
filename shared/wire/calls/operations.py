"""Calls about operations."""

from __future__ import annotations

from sfumato.shared.wire.calls.call import Bare
from sfumato.shared.wire.objects.results import HealthBody, ReadinessBody


class Operations:
    """Liveness, readiness and metrics of the server."""

    get_health = Bare("public", "GET /healthz", HealthBody, "Answer while the process is alive.")

    get_readiness = Bare(
        "public",
        "GET /readyz",
        ReadinessBody,
        """Answer while the database answers and has the schema of this release.

        A server without workers takes sketches; its decodes and analyses wait.
        """,
    )

    get_metrics = Bare(
        "monitor",
        "GET /metrics",
        str,
        "Show the metrics of this process for Prometheus, with totals if the database answers.",
        media="text/plain",
    )
