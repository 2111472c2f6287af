"""Metrics of the server, in the text format of Prometheus.

Labels take few values, which are known in advance: never an identity, a name or an address.
"""

from __future__ import annotations

import platform
import shutil
from contextlib import suppress
from importlib import metadata
from pathlib import Path

from cryptography.x509 import load_pem_x509_certificate
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)

from sfumato.aggregator.base.files import path_of
from sfumato.aggregator.resources.batches.record import (
    BATCH_STATES,
    FLAGS,
    REPORT_STATES,
    BatchTotals,
)
from sfumato.shared.errors import ConfigError

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
JOB_STATES = ("queued", "running", "succeeded", "failed", "cancelled")
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


# The creation time of each counter would double the number of series.
disable_created_metrics()  # type: ignore[no-untyped-call]


class Metrics:
    """All metrics of one server, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.uploads = self._count("sfumato_uploads", "Uploads of sketches by outcome", "outcome")
        self.problems = self._count(
            "sfumato_problems", "Requests answered with a problem, by its type", "problem"
        )
        self.durations = Histogram(
            "sfumato_request_duration_seconds",
            "Time from the first byte of a request to the last of its answer",
            ("method", "route", "status"),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.running = self._gauge("sfumato_requests_running", "Requests being served")
        self.waiting = self._gauge("sfumato_requests_waiting", "Requests waiting for a turn")
        self.most_inside = self._gauge(
            "sfumato_requests_limit", "Largest number of requests inside, served or waiting"
        )
        self.database_up = self._gauge("sfumato_database_up", "1 while the database answers")
        self.studies = self._gauge("sfumato_studies", "Studies")
        self.devices = self._gauge("sfumato_devices", "Enrolled devices")
        self.workers = self._gauge("sfumato_workers", "Workers that solve decodes and analyses")
        self.decodes = self._gauge("sfumato_decodes", "Decodes by state", "state")
        self.analyses = self._gauge("sfumato_analyses", "Analyses by state", "state")
        self.batches = self._gauge("sfumato_batches", "Batches of masked sums by state", "state")
        self.flagged = self._gauge(
            "sfumato_batches_flagged", "Batches that wait for an operator, by flag", "reason"
        )
        self.reports = self._gauge(
            "sfumato_reports",
            "Reports of masked sums by state, which names the helper's verdict",
            "verdict",
        )
        self.batch_oldest = self._gauge(
            "sfumato_batch_oldest_seconds", "Time since the first batch closed that is not opened"
        )
        self.helper_up = self._gauge(
            "sfumato_helper_up", "0 while a batch waits because the helper cannot be used"
        )
        self.helper_up.set(1)  # until the database says otherwise
        self.certificate = self._gauge(
            "sfumato_certificate_expiry_timestamp_seconds",
            "Time at which the certificate that was loaded expires, if this server has one",
            "setting",
        )
        self.disk_free = self._gauge(
            "sfumato_database_disk_free_ratio",
            "Free share of the disk of a SQLite database, as of 1",
            "setting",
        )
        build = self._gauge(
            "sfumato_build_info", "1, with the versions as labels", "version", "python"
        )
        build.labels(metadata.version("sfumato"), platform.python_version()).set(1)
        for outcome in ("stored", "repeated", "refused", "broken-off", "failed"):
            self.uploads.labels(outcome)

    def _count(self, name: str, text: str, label: str) -> Counter:
        return Counter(name, text, (label,), registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(name, text, labels, registry=self.registry)

    def note_request(
        self, *, method: str, route: str, status: int, problem: str | None, seconds: float
    ) -> None:
        """Note one answered request.

        Parameters
        ----------
        route
            The template of the address, such as ``/v1/studies/{study}``; empty if there is none.
        status
            0 if it was not answered.
        problem
            The slug of the problem in the answer.
        """
        known = method if method in _METHODS else "other"
        self.durations.labels(known, route or "none", str(status)).observe(seconds)
        if problem is not None:
            self.problems.labels(problem).inc()

    def note_upload(self, status: int) -> None:
        """Note the outcome of an upload."""
        outcomes = {201: "stored", 200: "repeated", 499: "broken-off"}
        is_failure = status >= 500 or status == 0
        self.uploads.labels(outcomes.get(status, "failed" if is_failure else "refused")).inc()

    def note_certificate(self, path: Path | None) -> None:
        """Note when the certificate in a PEM file expires; a server reads it once."""
        if path is not None:
            ends = load_pem_x509_certificate(path.read_bytes()).not_valid_after_utc
            self.certificate.labels("tls_cert").set(ends.timestamp())

    def note_disk(self, database_url: str) -> None:
        """Note how much of the disk of a SQLite database is free; others are elsewhere."""
        with suppress(ConfigError, OSError):
            usage = shutil.disk_usage(path_of(database_url).parent)
            self.disk_free.labels("database_url").set(usage.free / usage.total)

    def note_batches(self, totals: BatchTotals, *, now: float) -> None:
        """Note the numbers of batches and reports, as they are stored."""
        for state in BATCH_STATES:
            self.batches.labels(state).set(totals.batches.get(state, 0))
        for flag in FLAGS:
            self.flagged.labels(flag).set(totals.flagged.get(flag, 0))
        for verdict in REPORT_STATES:
            self.reports.labels(verdict).set(totals.reports.get(verdict, 0))
        oldest = 0.0 if totals.oldest is None else max(0.0, now - totals.oldest)
        self.batch_oldest.set(oldest)
        self.helper_up.set(0 if totals.n_without_helper else 1)

    def render(self) -> bytes:
        """Return all metrics as text."""
        return generate_latest(self.registry)
