"""Snapshots: a frozen, weighted global sketch over a selection, and how useful it is."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.aggregator.base.sums.layout import Layout
from sfumato.aggregator.base.sums.selection import Selection, SketchTotals
from sfumato.aggregator.base.transaction import Transaction
from sfumato.aggregator.resources.batches.store.batches import find_selected, find_uncounted
from sfumato.aggregator.resources.devices.store import find_excluded
from sfumato.aggregator.resources.parts import Service
from sfumato.aggregator.resources.plans import require_known, require_study
from sfumato.aggregator.resources.sketches.store.cells import sum_sketches
from sfumato.aggregator.resources.snapshots.record import SnapshotRecord
from sfumato.aggregator.resources.studies.record import StudyRecord
from sfumato.learning.estimate.counts import count_records, put_count, require_clear
from sfumato.learning.estimate.totals import Totals
from sfumato.learning.estimate.utility import Utility, estimate_utility, weigh
from sfumato.learning.estimate.weights import SIZE_WEIGHTS, WEIGHTINGS
from sfumato.shared.cbor import encode_deterministic
from sfumato.shared.errors import ConfigError
from sfumato.shared.plan import SketchPlan

DEFAULT_WEIGHTING = "size"
_ID_BYTES = 32
_SNAPSHOT_DOMAIN = "sfumato/v1/snapshot"
_SELECTION_DOMAIN = "sfumato/v1/snapshot/selection"


@dataclass(frozen=True, kw_only=True)
class Frozen:
    """A selection at one moment.

    Parameters
    ----------
    selection, n_sketches
        The selection, and the number of its sketches.
    snapshot
        None where nothing can be read from it.
    doubt
        Why it has no snapshot.
    look
        The snapshot of the same slots and labels of a second look, if there is one.
    """

    selection: Selection
    n_sketches: int
    snapshot: SnapshotRecord | None
    doubt: str | None = None
    look: SnapshotRecord | None = None


class SnapshotService(Service):
    """Makes snapshots, and estimates the utility of a study's sketches."""

    async def create(
        self, study_id: bytes, selection: Selection, *, weighting: str = DEFAULT_WEIGHTING
    ) -> tuple[SnapshotRecord, bool]:
        """Freeze a selection; return the snapshot, and whether it is new.

        Raises
        ------
        NotFoundError
            There is no such study.
        ConfigError
            The weighting is unknown or does not suit the study, or the selection is empty, does not
            suit the study, or holds too few records to tell from the noise of their number.
        """
        if weighting not in WEIGHTINGS:
            raise ConfigError(
                f"must be one of {', '.join(WEIGHTINGS)}",
                field="weighting",
                fix=f"omit it for {DEFAULT_WEIGHTING!r}",
            )
        async with self._store.begin() as transaction:
            study = await require_study(transaction, study_id)
            plan = await self._plans.get(study)
            require_suitable(selection, plan)
            require_weighable(weighting, plan)
            totals = await sum_sketches(transaction, study_id, selection, layout=Layout.of(plan))
            batches = await _find_batches(transaction, study_id, plan, selection)
        record = _to_record(study, plan, selection, totals, weighting, self._clock.now())
        record = replace(record, **batches)
        # A transaction of its own: uploads do not wait for the sum, which may take long.
        async with self._store.begin(write=True) as transaction:
            is_new = await transaction.add(record)
            stored = await _require_snapshot(transaction, record.snapshot_id)
        return stored, is_new

    async def freeze(
        self,
        study_id: bytes,
        selections: Sequence[Selection],
        *,
        unshared: Selection | None = None,
    ) -> Sequence[Frozen]:
        """Freeze selections at one moment; one that nothing can be read from gets a doubt.

        Parameters
        ----------
        unshared
            The sketches that two of the selections have in common: there must be none.

        Raises
        ------
        NotFoundError
            There is no such study.
        ConfigError
            A selection does not suit the study, or two share sketches.
        """
        async with self._store.begin() as transaction:
            study = await require_study(transaction, study_id)
            plan = await self._plans.get(study)
            layout = Layout.of(plan)
            for selection in selections:
                require_suitable(selection, plan)
            if unshared is not None:
                shared = await sum_sketches(transaction, study_id, unshared, layout=layout)
                _require_none(shared.n_sketches)
            sums = [
                await sum_sketches(transaction, study_id, selection, layout=layout)
                for selection in selections
            ]
            batches = [
                await _find_batches(transaction, study_id, plan, selection)
                for selection in selections
            ]
        frozen = [
            _freeze(study, plan, *each, self._clock.now())
            for each in zip(selections, sums, batches, strict=True)
        ]
        with self._store.apart():
            async with self._store.begin(write=True) as transaction:
                for each in frozen:
                    if each.snapshot is not None:
                        await transaction.add(each.snapshot)
        return frozen

    async def get(self, snapshot_id: bytes) -> SnapshotRecord:
        """Return a snapshot.

        Raises
        ------
        NotFoundError
            There is none with this identity.
        """
        async with self._store.begin() as transaction:
            return await _require_snapshot(transaction, snapshot_id)

    async def find_excluded(self, snapshot: SnapshotRecord) -> Sequence[bytes]:
        """Return the devices of a snapshot that were excluded since."""
        async with self._store.begin() as transaction:
            return await find_excluded(transaction, snapshot.study_id, snapshot.devices)

    async def find_left(self, snapshot: SnapshotRecord) -> Sequence[bytes]:
        """Return the batches of a snapshot that were set aside or flagged since."""
        if not snapshot.batches:
            return []
        async with self._store.begin() as transaction:
            return await find_uncounted(transaction, split_batches(snapshot.batches))

    async def compute_utility(self, study_id: bytes) -> Utility:
        """Estimate the utility of all sketches of a study, under size weights."""
        async with self._store.begin() as transaction:
            study = await require_study(transaction, study_id)
            plan = await self._plans.get(study)
            totals = await sum_sketches(transaction, study_id, Selection(), layout=Layout.of(plan))
        return estimate_utility(plan, totals, count_records(plan, totals), SIZE_WEIGHTS)


async def _require_snapshot(transaction: Transaction, snapshot_id: bytes) -> SnapshotRecord:
    found = await transaction.get(SnapshotRecord, snapshot_id)
    return await require_known(transaction, found, "snapshot")


def require_suitable(selection: Selection, plan: SketchPlan) -> None:
    """Check a selection against the plan.

    Raises
    ------
    ConfigError
        It names slots of a study without, in the wrong order, or a label that is not declared.
    """
    first, last = selection.first_slot, selection.last_slot
    if plan.window.kind == "count" and (first is not None or last is not None):
        raise ConfigError(
            "cannot have slots: windows by count have none", field="selection", fix="omit them"
        )
    if first is not None and last is not None and first > last:
        raise ConfigError(
            "must have first_slot at or before last_slot", field="selection", fix="swap them"
        )
    declared = {label.name: label.values for label in plan.labels}
    for name, value in selection.labels.items():
        if value not in declared.get(name, ()):
            raise ConfigError(
                "must be a label and value that the plan declares",
                field=f"labels.{name}",
                fix="see the labels in the study's plan",
            )


def require_weighable(weighting: str, plan: SketchPlan) -> None:
    """Check a weighting against the plan.

    With secret numbers of records, the sum of all sketches over the sum of their noised counts
    weighs every record alike, which is ``size``. Other weights need the number of each sketch, and
    noise in a weight would be correlated with the weighted sum.

    Raises
    ------
    ConfigError
        It needs the secret numbers, or is for Fourier features only.
    """
    if plan.kind != "fourier" and weighting != DEFAULT_WEIGHTING:
        raise ConfigError(
            f"must be {DEFAULT_WEIGHTING!r} with a {plan.kind}: every record counts alike",
            field="weighting",
            fix=f"leave it out for {DEFAULT_WEIGHTING!r}",
        )
    if plan.releases_count and weighting != DEFAULT_WEIGHTING:
        raise ConfigError(
            f"must be {DEFAULT_WEIGHTING!r} under add-remove-one: the number of records of each "
            "sketch is secret",
            field="weighting",
            fix=f"leave it out for {DEFAULT_WEIGHTING!r}",
        )


def is_of(snapshot: SnapshotRecord, study: StudyRecord, *, members: bytes) -> bool:
    """Return whether a snapshot holds a set of sketches, given by its digest."""
    digest = compute_digest(study, snapshot.totals, snapshot.weighting, members=members)
    return digest == snapshot.digest


def compute_digest(study: StudyRecord, totals: Totals, weighting: str, *, members: bytes) -> bytes:
    """Return the SHA-256 of the exact values of a global sketch.

    Without the weights: they follow from the exact values up to rounding, which may differ from
    machine to machine.

    Parameters
    ----------
    members
        The digest of the set of sketches.
    """
    content = [
        _SNAPSHOT_DOMAIN,
        study.study_id,
        study.plan_digest,
        weighting,
        members,
        totals.moments.rows,
        _encode(totals.sums),
        _encode(totals.size_sums),
    ]
    return hashlib.sha256(encode_deterministic(content)).digest()


def _encode(array: NDArray[np.int64]) -> bytes:
    return array.astype("<i8").tobytes()


def _require_none(n_shared: int) -> None:
    if n_shared:
        raise ConfigError(
            f"must not overlap: {n_shared} sketches are in both, and carry the same noise",
            field="second",
            fix="let one begin after the other ends, or give them different values of a label",
        )


def split_batches(batches: bytes) -> list[bytes]:
    """Return identities of batches that follow each other."""
    return [batches[i : i + _ID_BYTES] for i in range(0, len(batches), _ID_BYTES)]


async def _find_batches(
    transaction: Transaction, study_id: bytes, plan: SketchPlan, selection: Selection
) -> dict[str, Any]:
    """Return the members of a snapshot that name its batches, at the moment of its sums."""
    if plan.sum_release is None:
        return {}
    counted, n_waiting = await find_selected(transaction, study_id, selection)
    return {"batches": b"".join(counted), "n_waiting": n_waiting}


def _freeze(
    study: StudyRecord,
    plan: SketchPlan,
    selection: Selection,
    totals: SketchTotals,
    batches: Mapping[str, Any],
    now: float,
) -> Frozen:
    snapshot, doubt = None, None
    try:
        snapshot = _to_record(study, plan, selection, totals, DEFAULT_WEIGHTING, now)
        snapshot = replace(snapshot, **batches)
    except ConfigError as error:
        doubt = error.rule
    return Frozen(selection=selection, n_sketches=totals.n_sketches, snapshot=snapshot, doubt=doubt)


def _to_record(
    study: StudyRecord,
    plan: SketchPlan,
    selection: Selection,
    totals: SketchTotals,
    weighting: str,
    now: float,
) -> SnapshotRecord:
    if not totals.n_sketches:
        raise ConfigError("contains no sketch", field="selection", fix="widen the slots or labels")
    count = count_records(plan, totals)
    require_clear(count)
    totals = put_count(totals, count)
    digest = compute_digest(study, totals, weighting, members=totals.members)
    chosen = asdict(selection)
    # Two selections with the same sketches are two snapshots of one digest, and share decodes.
    identity = encode_deterministic([_SELECTION_DOMAIN, digest, chosen])
    weights = weigh(plan, totals, weighting)
    utility = estimate_utility(plan, totals, count, weights)
    return SnapshotRecord(
        snapshot_id=hashlib.sha256(identity).digest(),
        study_id=study.study_id,
        digest=digest,
        selection=chosen,
        weighting=weighting,
        **vars(utility) | {"noise_energy": utility.noise_energy or 0.0},
        n_devices=totals.n_devices,
        moments=_encode(totals.moments.limbs),
        weight_a=weights.a,
        weight_b=weights.b,
        sums=_encode(totals.sums),
        size_sums=_encode(totals.size_sums),
        created=now,
        devices=totals.devices,
    )
