"""Plan of an estimator's sketch, from public choices alone; without epsilon also from records."""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from learning.decoding.kmeans import cluster
from learning.decoding.solver import Monitor
from learning.planning.candidates import Candidate, choose_candidate, predict_candidate
from learning.planning.laws import LAW_CHOICES
from learning.planning.outline import StudyOutline
from shared.cbor import encode_deterministic
from shared.core import RadiusLaw
from shared.core.seeds import SEED_BYTES
from shared.errors import ConfigError, PrivacyError
from shared.plan import Dimension, PlanSpec, SketchPlan, WindowRule, create_plan
from shared.privacy import MECHANISMS

Floats = NDArray[np.float64]

MOST_RECORDS: Final = 1 << 31
"""Room in a sketch without epsilon, where the caller states none."""
MOST_CLUSTERS: Final = 1 << 16
TARGET_SSE: Final = 1.1
"""Relative SSE that the choice of noise and frequencies aims at."""
_MOST_SKETCHES: Final = 1 << 10
_SUBSET: Final = 10_000
_LEAST_FREQUENCIES: Final = 64
_WIDEST: Final = 4000.0
"""Largest half width over scale that the scale is allowed to follow records to."""
_EXACT_SEED: Final = "sfumato without epsilon"


@dataclass(frozen=True, kw_only=True, eq=False)
class Choices:
    """Public choices behind a plan.

    Parameters
    ----------
    names
        Of the columns.
    lower, upper, scale
        Shapes ``(d,)``, data units: the bounds, and the spread inside one cluster.
    n_clusters
        k.
    epsilon, delta, relation
        The guarantee; epsilon is None where no noise is added.
    n_records
        Records to plan for: public.
    most_records
        Records that a sketch has room for.
    n_frequencies, mechanism
        A number, or None for one by rule; and a name, or ``auto``.
    seed
        Text that the frequencies follow from; None for a fresh one, or without epsilon a fixed one.
    """

    names: Sequence[str]
    lower: Floats
    upper: Floats
    scale: Floats
    n_clusters: int
    epsilon: Fraction | None
    delta: Fraction
    relation: str
    n_records: int
    most_records: int
    n_frequencies: int | None
    mechanism: str
    seed: str | None

    @property
    def digest(self) -> bytes:
        """SHA-256 of the choices; of a fresh seed it says only that it is fresh."""
        listed = {
            name: value.tolist() if isinstance(value, np.ndarray) else value
            for name, value in vars(self).items()
        }
        return hashlib.sha256(encode_deterministic(listed)).digest()


def make_plan(choices: Choices) -> SketchPlan:
    """Make the plan of a sketch.

    Raises
    ------
    PlanError, PrivacyError, ConfigError
        A choice breaks a rule.
    """
    chosen = _choose_exact(choices) if choices.epsilon is None else _choose_private(choices)
    return create_plan(
        PlanSpec(
            dimensions=list_dimensions(choices, with_scale=True),
            seed=choices.seed or _draw_seed(choices.epsilon is None),
            most_clusters=choices.n_clusters,
            **chosen,
            **list_common(choices),
        )
    )


def list_dimensions(choices: Choices, *, with_scale: bool) -> tuple[Dimension, ...]:
    """List the columns as dimensions of a plan."""
    return tuple(
        Dimension(name=name, unit="1", lower=low, upper=high, scale=scale if with_scale else None)
        for name, low, high, scale in zip(
            choices.names,
            choices.lower.tolist(),
            choices.upper.tolist(),
            choices.scale.tolist(),
            strict=True,
        )
    )


def list_common(choices: Choices) -> dict[str, Any]:
    """List the fields that all plans of an estimator have in common."""
    hides_presence = choices.epsilon is not None and choices.relation == "add-remove-one"
    return {
        "window": (
            # Nothing here has a time: all records are in the first slot.
            WindowRule(kind="time", origin=1, length_s=1 << 31)
            if hides_presence
            else WindowRule(kind="count", length=choices.most_records)
        ),
        "most_records": choices.most_records,
        "neighbouring": "add-remove-one" if hides_presence else "replace-one",
        "most_sketches": _MOST_SKETCHES,
    }


def _draw_seed(is_exact: bool) -> str:
    return _EXACT_SEED if is_exact else secrets.token_hex(SEED_BYTES)


def _choose_exact(choices: Choices) -> dict[str, Any]:
    """Choose features where there is no noise; the plan's own noise is never drawn."""
    k, d = choices.n_clusters, len(choices.names)
    m = choices.n_frequencies
    return {
        "n_frequencies": max(_LEAST_FREQUENCIES, 5 * k * d) if m is None else m,
        "epsilon": Fraction(1),
        "radius_law": LAW_CHOICES[0].law,
    }


def _choose_private(choices: Choices) -> dict[str, Any]:
    """Choose noise, frequencies and their law by the quality that the planner predicts."""
    best = choose_candidate(_list_candidates(choices), TARGET_SSE)
    law: RadiusLaw = best.law_choice.law
    return {
        "n_frequencies": best.n_frequencies,
        "mechanism": best.mechanism,
        "epsilon": best.epsilon,
        "delta": best.delta,
        "radius_law": law,
    }


def _list_candidates(choices: Choices) -> list[Candidate]:
    epsilon = choices.epsilon or Fraction(0)
    outline = StudyOutline(
        n_records=max(1, choices.n_records),
        n_sketches=1,
        n_dimensions=len(choices.names),
        n_clusters=choices.n_clusters,
        neighbouring=choices.relation,
    )
    m = choices.n_frequencies
    found: list[Candidate] = []
    refusal: PrivacyError | None = None
    for kind in MECHANISMS.values():
        if choices.mechanism not in ("auto", kind.name) or (kind.needs_delta and not choices.delta):
            continue
        for size in outline.frequencies if m is None else (m,):
            try:
                found.append(
                    predict_candidate(
                        outline,
                        mechanism=kind.name,
                        n_frequencies=size,
                        epsilon=epsilon,
                        delta=choices.delta,
                    )
                )
            except PrivacyError as error:
                refusal = refusal or error
    if found:
        return found
    raise refusal or ConfigError(
        f"must be auto or one of {', '.join(MECHANISMS)}, and Gaussian noise needs a delta",
        field="mechanism",
        fix="leave it out",
    )


def find_bounds(records: NDArray[np.floating], *, margin: float) -> tuple[Floats, Floats]:
    """Return bounds around records, without epsilon: shapes ``(d,)``.

    A constant column gets the width of the widest one, so that it has a place.

    Parameters
    ----------
    margin
        Share of the range to add on each side.

    Raises
    ------
    ConfigError
        A column has no finite value.
    """
    lower, upper = np.empty(records.shape[1]), np.empty(records.shape[1])
    for i, column in enumerate(records.T):
        # Most columns have no missing value, and this check is cheaper than the copy.
        low, high = (float(column.min()), float(column.max())) if len(column) else (math.nan,) * 2
        if not (math.isfinite(low) and math.isfinite(high)):
            finite = column[np.isfinite(column)]
            if not finite.size:
                raise ConfigError(
                    f"cannot be read off X: column {i} has no finite value",
                    field="bounds",
                    fix="state them, or drop the column",
                )
            low, high = float(finite.min()), float(finite.max())
        lower[i], upper[i] = low, high
    width = upper - lower
    widest = float(width.max()) or 1.0
    # Less is lost to the resolution of the bounds.
    flat = width <= 1e-9 * np.maximum(np.abs(lower), np.abs(upper))
    added = np.where(flat, np.maximum(widest, 1e-6 * np.abs(lower)) / 2.0, margin * width)
    return lower - added, upper + added


def find_scale(
    records: NDArray[np.floating],
    n_clusters: int,
    lower: Floats,
    upper: Floats,
    rng: np.random.Generator,
) -> Floats:
    """Return the pooled spread inside one cluster of a subset, without epsilon: shape ``(d,)``.

    The same for all columns, so that distances are those of k-means on the records.
    """
    chosen = records
    if len(records) > _SUBSET:
        chosen = records[np.sort(rng.choice(len(records), _SUBSET, replace=False))]
    points = chosen[np.isfinite(chosen).all(axis=1)].astype(np.float64)
    least = float(np.max(upper - lower)) / 2.0 / _WIDEST
    if not len(points):
        return np.full(len(lower), max(least, float(np.mean(upper - lower)) / 8.0))
    points = np.clip(points, lower, upper)
    starts = [points[rng.choice(len(points), n_clusters)]]
    found = cluster(points, starts, n_restarts=2, rng=rng, monitor=Monitor())
    # A sample of few records per cluster hugs its centroids.
    freed = len(points) / max(1, len(points) - n_clusters)
    pooled = math.sqrt(found.inertia * freed / len(lower))
    if pooled <= least:
        pooled = max(least, float(points.std(axis=0).max()) / 100.0)
    return np.full(len(lower), pooled)
