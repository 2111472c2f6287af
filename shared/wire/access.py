"""Who may read what: kinds of data, the calls that show them, and the scopes of these calls."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from typing import Any

from sfumato.shared.wire import calls
from sfumato.shared.wire.calls.call import Call, Scope

READERS: Mapping[Scope, str] = {
    "public": "anybody who reaches the server",
    "device": "the device itself",
    "reader": "devices of the study, viewers, analysts, operators",
    "viewer": "viewers, analysts, operators",
    "analyst": "analysts, operators",
    "operator": "operators",
    "monitor": "whoever has the key for metrics, operators",
}
"""Who may make the calls of a scope that only read."""

_SIGHTS = """
plan, frequencies and statement of privacy, if the id is known: get_plan get_frequencies get_privacy
whether the server lives, its public keys: get_health get_readiness get_identity
where people sign in: get_sign_in
the pages of problems: list_problems get_problem
what the server has of a device's streams: get_own_device
state of a study, and its published result: get_study get_published
studies with counts and expected quality: list_studies find_reference get_utility
refused sketches, and campaigns: list_refusals get_campaign
devices with name, labels, keys, version, times: list_devices list_all_devices get_device
list of sketches with device, stream, slots, number of records; no payload: list_sketches
noisy sums of a selection, even of one device: get_snapshot get_histogram get_moments get_clusters
what a pilot says: get_calibration
decodes: list_decodes get_decode stream_events
analyses: list_analyses get_analysis stream_analysis_events list_accepted_changes
schedules and publications: list_schedules get_schedule list_publications
batches of a secure sum: list_batches get_batch
the devices in flagged batches: find_suspects
the scope, study and expiry of one's own key: get_own_key
API keys and tokens without their secrets, the audit log: list_keys list_tokens list_audit
webhooks of alarms, and the messages to them: list_alarms get_alarm list_deliveries
totals of the server's work: get_metrics
"""
SIGHTS = dict(line.rsplit(": ", 1) for line in _SIGHTS.strip().split("\n"))
"""Kinds of data, and the names of the calls that show each, all of one scope."""


def list_readers() -> list[tuple[str, str]]:
    """Return each kind of data that a server shows, with those who may read it."""
    scopes = {call.name: call.scope for call in list_declared()}
    return [(what, READERS[scopes[names.split()[0]]]) for what, names in SIGHTS.items()]


def list_declared() -> Iterator[Call[..., Any]]:
    """Yield every call of the catalogue."""
    for module in pkgutil.iter_modules(calls.__path__, f"{calls.__name__}."):
        for resource in vars(importlib.import_module(module.name)).values():
            if isinstance(resource, type):
                yield from (each for each in vars(resource).values() if isinstance(each, Call))
