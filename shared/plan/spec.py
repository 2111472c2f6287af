"""A plan as a person writes it: the chosen fields, without derived ones."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from shared.core import RadiusLaw
from shared.core.seeds import SEED_BYTES
from shared.errors import PlanError
from shared.plan.creation import create_plan
from shared.plan.encoding import UNKNOWN
from shared.plan.model import SketchPlan
from shared.plan.parts import Dimension, Label, NeighbouringName, WindowRule
from shared.structure import structure

_WINDOW_FIXES = {
    "length_s": "add the length of a window in seconds, such as 86400",
    "length": "add the number of records of a window, such as 1000",
    "origin": "add the start of the study in seconds since 1970-01-01 UTC, chosen before any data "
    "are looked at",
}


@dataclass(frozen=True, kw_only=True)
class PlanSpec:
    """The fields of a plan that a person chooses; see :class:`SketchPlan` for their meaning.

    ``seed`` is 64 hexadecimal digits; of any other text, the SHA-256 is used.
    """

    dimensions: tuple[Dimension, ...]
    n_frequencies: int
    seed: str
    epsilon: Fraction
    window: WindowRule
    most_records: int
    mechanism: str | None = None
    delta: Fraction = Fraction(0)
    neighbouring: NeighbouringName = "replace-one"
    least_records: int | None = None
    measurements_per_record: int | None = None
    radius_law: RadiusLaw = field(default_factory=RadiusLaw)
    max_records_per_person: int | None = None
    most_clusters: int | None = None
    most_sketches: int = 1 << 20
    most_sketches_per_device: int | None = None
    most_streams_per_device: int = 16
    labels: tuple[Label, ...] = ()


def plan_from_spec(document: Any) -> SketchPlan:
    """Create a plan from a person's choices, as read from TOML or JSON.

    Raises
    ------
    PlanError, PrivacyError
        A field is missing, unknown or breaks its rule.
    """
    spec = structure(PlanSpec, document, unknown=UNKNOWN, error=PlanError)
    _require_window_stated(spec, document["window"])
    return create_plan(
        dimensions=spec.dimensions,
        n_frequencies=spec.n_frequencies,
        seed=_read_seed(spec.seed),
        epsilon=spec.epsilon,
        window=spec.window,
        most_records=spec.most_records,
        mechanism=spec.mechanism,
        delta=spec.delta,
        neighbouring=spec.neighbouring,
        least_records=spec.least_records,
        measurements_per_record=spec.measurements_per_record,
        radius_law=spec.radius_law,
        max_records_per_person=spec.max_records_per_person,
        most_clusters=spec.most_clusters,
        most_sketches=spec.most_sketches,
        most_sketches_per_device=spec.most_sketches_per_device,
        most_streams_per_device=spec.most_streams_per_device,
        labels=spec.labels,
    )


def _require_window_stated(spec: PlanSpec, stated: Mapping[str, Any]) -> None:
    """Refuse a window without the fields of its kind; their default, 0, would be used instead."""
    needed = ["length_s"] if spec.window.kind == "time" else ["length"]
    if spec.neighbouring == "add-remove-one" and spec.window.kind == "time":
        needed.append("origin")
    for name in needed:
        if name not in stated:
            raise PlanError("is missing", field=f"window.{name}", fix=_WINDOW_FIXES[name])


def _read_seed(text: str) -> bytes:
    if not text:
        raise PlanError("must not be empty", field="seed", fix="use `openssl rand -hex 32`")
    try:
        seed = bytes.fromhex(text)
    except ValueError:
        seed = b""
    return seed if len(seed) == SEED_BYTES else hashlib.sha256(text.encode()).digest()
