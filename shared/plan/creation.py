"""Create a plan from a person's choices, and derive its other fields."""

from __future__ import annotations

from fractions import Fraction

from shared.core import RadiusLaw
from shared.plan.model import SketchPlan, derive
from shared.plan.parts import (
    Dimension,
    FourierPart,
    Label,
    NeighbouringName,
    Release,
    WindowRule,
)
from shared.plan.rules import require_valid
from shared.privacy import MECHANISMS

DEVICE_SHARE = 8
"""Default ``most_sketches_per_device``: ``most_sketches`` over this number."""


def create_plan(
    *,
    dimensions: tuple[Dimension, ...],
    n_frequencies: int,
    seed: bytes,
    epsilon: Fraction,
    window: WindowRule,
    most_records: int,
    mechanism: str | None = None,
    delta: Fraction = Fraction(0),
    neighbouring: NeighbouringName = "replace-one",
    least_records: int | None = None,
    measurements_per_record: int | None = None,
    radius_law: RadiusLaw | None = None,
    max_records_per_person: int | None = None,
    most_clusters: int | None = None,
    most_sketches: int = 1 << 20,
    most_sketches_per_device: int | None = None,
    most_streams_per_device: int = 16,
    labels: tuple[Label, ...] = (),
) -> SketchPlan:
    """Create a plan and derive its dependent fields; parameters as in :class:`SketchPlan`.

    Defaults: ``mechanism`` is the best that the other choices allow (the discrete Gaussian if there
    is a delta, discrete Laplace with masks, K-norm otherwise); ``least_records`` is 1, or 0 where
    the number of records is secret; ``most_sketches_per_device`` is an eighth of ``most_sketches``.

    Raises
    ------
    PlanError, PrivacyError
        A field breaks its rule; the message names it.
    """
    plan = SketchPlan(
        dimensions=dimensions,
        statistic=FourierPart(
            n_frequencies=n_frequencies,
            seed=seed,
            radius_law=radius_law or RadiusLaw(),
            measurements_per_record=(
                n_frequencies if measurements_per_record is None else measurements_per_record
            ),
        ),
        release=Release(
            epsilon=epsilon,
            delta=delta,
            neighbouring=neighbouring,
            mechanism=mechanism or _choose_mechanism(delta, n_frequencies, measurements_per_record),
        ),
        window=window,
        least_records=(
            int(neighbouring == "replace-one") if least_records is None else least_records
        ),
        most_records=most_records,
        max_records_per_person=max_records_per_person,
        most_clusters=most_clusters,
        most_sketches=most_sketches,
        most_sketches_per_device=(
            max(1, most_sketches // DEVICE_SHARE)
            if most_sketches_per_device is None
            else most_sketches_per_device
        ),
        most_streams_per_device=most_streams_per_device,
        labels=labels,
    )
    require_valid(plan)
    return derive(plan)


def _choose_mechanism(delta: Fraction, m: int, r: int | None) -> str:
    is_masked = r is not None and r < m
    fitting = (
        kind.name
        for kind in MECHANISMS.values()
        if kind.needs_delta == bool(delta) and (kind.allows_masks or not is_masked)
    )
    # None fits a delta with masks; the mechanism with a delta then reports why it refuses masks.
    return next(fitting, next(kind.name for kind in MECHANISMS.values() if kind.needs_delta))
