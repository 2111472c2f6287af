"""Snapshots: a frozen, weighted global sketch over a selection, and how useful it is."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aggregator.ports import (
    Clock,
    Selection,
    SketchTotals,
    SnapshotRecord,
    Store,
    StudyRecord,
    Transaction,
)
from aggregator.services.plans import PlanCache, require_study
from shared.cbor import encode_deterministic
from shared.errors import ConfigError, NotFoundError
from shared.plan import SketchPlan
from shared.privacy.utility import compute_noise_energy, estimate_signal_energy, predict_snr

WEIGHTING = "size"
_SNAPSHOT_DOMAIN = "sfumato/v1/snapshot"
_SELECTION_DOMAIN = "sfumato/v1/snapshot/selection"


@dataclass(frozen=True, kw_only=True)
class Utility:
    """How useful a global sketch is; ``noise_energy`` is None where there is no record."""

    n_sketches: int
    n_records: int
    snr: float
    signal_energy: float
    noise_energy: float | None


class SnapshotService:
    """Makes snapshots and tells how useful a study's sketches are."""

    def __init__(self, store: Store, clock: Clock, plans: PlanCache) -> None:
        self._store = store
        self._clock = clock
        self._plans = plans

    async def create(
        self, study_id: bytes, selection: Selection, *, weighting: str = WEIGHTING
    ) -> tuple[SnapshotRecord, bool]:
        """Freeze a selection, or return the same one frozen before; and whether it is new.

        Raises
        ------
        NotFoundError
            There is no such study.
        ConfigError
            The weighting is unknown, or the selection is empty or does not suit the study.
        """
        if weighting != WEIGHTING:
            raise ConfigError(f"must be {WEIGHTING!r} in this version", field="weighting")
        async with self._store.begin() as transaction:
            study = await require_study(transaction, study_id)
            plan = await self._plans.get(study)
            require_suitable(selection, plan)
            totals = await _sum(transaction, study_id, selection, plan)
        if not totals.sketch_ids:
            raise ConfigError(
                "contains no sketch", field="selection", fix="widen the slots or labels"
            )
        record = _to_record(study, plan, selection, totals, self._clock.now())
        # Apart from the sum, which may take long, so that uploads do not wait for it.
        async with self._store.begin(write=True) as transaction:
            is_new = await transaction.add_snapshot(record)
            stored = await _require_snapshot(transaction, record.snapshot_id)
        return stored, is_new

    async def get(self, snapshot_id: bytes) -> SnapshotRecord:
        """Return a snapshot.

        Raises
        ------
        NotFoundError
            There is none with this identity.
        """
        async with self._store.begin() as transaction:
            return await _require_snapshot(transaction, snapshot_id)

    async def compute_utility(self, study_id: bytes) -> Utility:
        """Estimate the usefulness of everything that a study holds now; raises as :meth:`get`."""
        async with self._store.begin() as transaction:
            study = await require_study(transaction, study_id)
            plan = await self._plans.get(study)
            totals = await _sum(transaction, study_id, Selection(), plan)
        return estimate_utility(plan, totals)


async def _require_snapshot(transaction: Transaction, snapshot_id: bytes) -> SnapshotRecord:
    snapshot = await transaction.get_snapshot(snapshot_id)
    if snapshot is None:
        raise NotFoundError("is not known here", field="snapshot", fix="check its identity")
    return snapshot


async def _sum(
    transaction: Transaction, study_id: bytes, selection: Selection, plan: SketchPlan
) -> SketchTotals:
    return await transaction.sum_sketches(
        study_id, selection, width=plan.payload_width, n_coordinates=2 * plan.n_frequencies
    )


def require_suitable(selection: Selection, plan: SketchPlan) -> None:
    """Check a selection against what the plan declares.

    Raises
    ------
    ConfigError
        It names slots of a study without, in the wrong order, or a label that is not declared.
    """
    first, last = selection.first_slot, selection.last_slot
    if plan.window.kind == "count" and (first is not None or last is not None):
        raise ConfigError(
            "has slots, and windows by count have none", field="selection", fix="leave them out"
        )
    if first is not None and last is not None and first > last:
        raise ConfigError(
            "must have first_slot at or before last_slot", field="selection", fix="swap them"
        )
    declared = {label.name: label.values for label in plan.labels}
    for name, value in selection.labels.items():
        if value not in declared.get(name, ()):
            raise ConfigError(
                "is not a label and value that the plan declares",
                field=f"labels.{name}",
                fix="see the labels in the study's plan",
            )


def normalise(plan: SketchPlan, sums: NDArray[np.int64], n_records: int) -> NDArray[np.complex128]:
    """Divide a global sum by A alpha n: shape ``(m,)``, the size-weighted mean of the sketches."""
    m = plan.n_frequencies
    scale = plan.amplitude * plan.alpha * n_records
    sketch = np.empty(m, dtype=np.complex128)
    sketch.real, sketch.imag = sums[:m] / scale, sums[m:] / scale
    return sketch


def estimate_utility(plan: SketchPlan, totals: SketchTotals) -> Utility:
    """Estimate signal, noise and their ratio from a sum; post-processing, costs no privacy."""
    n_sketches = len(totals.sketch_ids)
    if totals.n_records == 0:
        return Utility(
            n_sketches=n_sketches, n_records=0, snr=0.0, signal_energy=0.0, noise_energy=None
        )
    noise = compute_noise_energy(
        noise_variance_sum=n_sketches * plan.mechanism.variance,
        amplitude=plan.amplitude,
        alpha=plan.alpha,
        n_records=totals.n_records,
    )
    # Features have modulus at most 1, of which a record adds to the share alpha.
    signal = min(
        1.0 / plan.alpha,
        estimate_signal_energy(
            normalise(plan, totals.sums, totals.n_records),
            noise_energy=noise,
            alpha=plan.alpha,
            n_records=totals.n_records,
        ),
    )
    snr = predict_snr(
        signal_energy=signal,
        # Noise may round to nothing at an absurd epsilon; the ratio stays finite then.
        noise_energy=max(noise, sys.float_info.min),
        alpha=plan.alpha,
        n_records=totals.n_records,
    )
    return Utility(
        n_sketches=n_sketches,
        n_records=totals.n_records,
        snr=snr,
        signal_energy=signal,
        noise_energy=noise,
    )


def compute_digest(study: StudyRecord, totals: SketchTotals) -> bytes:
    """Return the SHA-256 of what makes a global sketch what it is."""
    content = [
        _SNAPSHOT_DOMAIN,
        study.study_id,
        study.plan_digest,
        WEIGHTING,
        list(totals.sketch_ids),
        _encode_sums(totals),
    ]
    return hashlib.sha256(encode_deterministic(content)).digest()


def _encode_sums(totals: SketchTotals) -> bytes:
    return totals.sums.astype("<i8").tobytes()


def decode_sums(snapshot: SnapshotRecord) -> NDArray[np.int64]:
    """Return the sums of a snapshot: shape ``(2 m,)``, int64."""
    return np.frombuffer(snapshot.sums, dtype="<i8").astype(np.int64)


def _selection_to_map(selection: Selection) -> Mapping[str, Any]:
    return {
        "first_slot": selection.first_slot,
        "last_slot": selection.last_slot,
        "labels": dict(selection.labels),
    }


def _to_record(
    study: StudyRecord,
    plan: SketchPlan,
    selection: Selection,
    totals: SketchTotals,
    now: float,
) -> SnapshotRecord:
    digest = compute_digest(study, totals)
    chosen = _selection_to_map(selection)
    # Two selections may hold the same sketches; each keeps its own words, decodes share the digest.
    identity = encode_deterministic([_SELECTION_DOMAIN, digest, chosen])
    utility = estimate_utility(plan, totals)
    return SnapshotRecord(
        snapshot_id=hashlib.sha256(identity).digest(),
        study_id=study.study_id,
        digest=digest,
        selection=chosen,
        weighting=WEIGHTING,
        n_sketches=utility.n_sketches,
        n_devices=totals.n_devices,
        n_records=utility.n_records,
        snr=utility.snr,
        signal_energy=utility.signal_energy,
        noise_energy=utility.noise_energy or 0.0,
        sums=_encode_sums(totals),
        created=now,
    )
