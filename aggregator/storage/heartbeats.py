"""Summary of heartbeats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any


def count_rules(heartbeats: Iterable[Mapping[str, Any]]) -> Mapping[str, int]:
    """Count by rule the heartbeats that refuse a plan; one that names a rule twice counts once."""
    counts: Counter[str] = Counter()
    for heartbeat in heartbeats:
        counts.update({refusal["rule"] for refusal in heartbeat.get("plan_refusals", ())})
    return counts
