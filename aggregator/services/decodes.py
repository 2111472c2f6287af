"""Decodes: asking for centroids, and what became of it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, cast

from aggregator.records import Clock, DecodeRecord, Selection, SnapshotRecord
from aggregator.services.answers import build_problem
from aggregator.services.plans import PlanCache, require_study
from aggregator.services.snapshots import DEFAULT_WEIGHTING, SnapshotService
from aggregator.storage import Store, Transaction
from learning.decoding.registry import create_solver, default_solver, solver_factories
from learning.decoding.solver import Solver
from shared.cbor import encode_deterministic
from shared.errors import ConfigError, DecodingError, NotFoundError
from shared.wire import problem_document

_DOMAIN = "sfumato/v1/decode"

Setting = int | float | bool | str


class DecodeService:
    """Queues decodes, shows them and cancels them."""

    def __init__(
        self, store: Store, clock: Clock, plans: PlanCache, snapshots: SnapshotService
    ) -> None:
        self._store = store
        self._clock = clock
        self._plans = plans
        self._snapshots = snapshots

    async def create(
        self,
        study_id: bytes,
        *,
        snapshot_id: bytes | None,
        selection: Selection | None = None,
        weighting: str | None = None,
        n_clusters: int,
        decoder: str | None,
        settings: Mapping[str, Setting],
        seed: int,
    ) -> tuple[DecodeRecord, bool]:
        """Queue a decode, or return the same one asked for before; and whether it was queued.

        One that failed or was cancelled is queued anew. Without a snapshot, the selection is frozen
        first: everything that the study holds now, if none is given.

        Raises
        ------
        NotFoundError
            There is no such study, or no such snapshot in it.
        ConfigError
            There are both a snapshot and a selection, or the selection cannot be frozen.
        DecodingError
            The decoder, a setting or the number of clusters does not suit.
        """
        if n_clusters < 1:
            # Before the selection is frozen: that it holds nothing yet is not what is wrong.
            raise DecodingError(
                "must be at least 1", field="n_clusters", fix="ask for at least one"
            )
        name = decoder or default_solver
        solver = require_solver(name, settings)
        snapshot = await self._find_snapshot(study_id, snapshot_id, selection, weighting)
        async with self._store.begin() as transaction:
            study = await require_study(transaction, study_id)
        # Refuses what could never be decoded before it is queued.
        build_problem(await self._plans.get(study), snapshot, n_clusters)
        record = DecodeRecord(
            decode_id=compute_decode_id(snapshot, n_clusters, solver, seed),
            study_id=study_id,
            snapshot_id=snapshot.snapshot_id,
            n_clusters=n_clusters,
            decoder=name,
            solver=solver.name,
            settings=settings_of(solver),
            seed=seed,
            created=self._clock.now(),
        )
        async with self._store.begin(write=True) as transaction:
            queued = await transaction.add_decode(record)
            queued = queued or await transaction.requeue_decode(record.decode_id)
            return await _require_decode(transaction, record.decode_id), queued

    async def _find_snapshot(
        self,
        study_id: bytes,
        snapshot_id: bytes | None,
        selection: Selection | None,
        weighting: str | None,
    ) -> SnapshotRecord:
        if snapshot_id is None:
            snapshot, _ = await self._snapshots.create(
                study_id, selection or Selection(), weighting=weighting or DEFAULT_WEIGHTING
            )
            return snapshot
        if selection is not None:
            raise ConfigError(
                "stands beside a snapshot, which has one", field="selection", fix="give one of them"
            )
        async with self._store.begin() as transaction:
            await require_study(transaction, study_id)
        snapshot = await self._snapshots.get(snapshot_id)
        if snapshot.study_id != study_id:
            raise NotFoundError(
                "is not a snapshot of this study", field="snapshot", fix="check its identity"
            )
        return snapshot

    async def get(self, decode_id: bytes) -> DecodeRecord:
        """Return a decode.

        Raises
        ------
        NotFoundError
            There is none with this identity.
        """
        async with self._store.begin() as transaction:
            return await _require_decode(transaction, decode_id)

    async def cancel(self, decode_id: bytes) -> DecodeRecord:
        """Cancel a decode; one that has ended stays as it is. Raises as :meth:`get`."""
        async with self._store.begin(write=True) as transaction:
            await transaction.cancel_decode(decode_id, now=self._clock.now())
            return await _require_decode(transaction, decode_id)


async def _require_decode(transaction: Transaction, decode_id: bytes) -> DecodeRecord:
    decode = await transaction.get_decode(decode_id)
    if decode is None:
        raise NotFoundError("is not known here", field="decode", fix="check its identity")
    await require_study(transaction, decode.study_id)
    return decode


def require_solver(name: str, settings: Mapping[str, Setting]) -> Solver:
    """Make the solver that a request names.

    Raises
    ------
    DecodingError
        The decoder or a setting is unknown, or a setting is out of range.
    """
    if name not in solver_factories:
        raise DecodingError(
            f"is one of {', '.join(sorted(solver_factories))}",
            field="decoder",
            fix=f"use {default_solver!r}",
        )
    # It is an argument of `create_solver` itself, so it would not reach the check there.
    if "name" in settings:
        raise DecodingError("is not a setting", field="settings.name", fix="leave it out")
    return create_solver(name, **settings)


def settings_of(solver: Solver) -> dict[str, Any]:
    """Return every setting of a solver, defaults too, so that a later default changes nothing."""
    return asdict(cast("Any", solver))


def compute_decode_id(
    snapshot: SnapshotRecord, n_clusters: int, solver: Solver, seed: int
) -> bytes:
    """Return the identity of a decode: the SHA-256 of all that its result depends on."""
    content = [_DOMAIN, snapshot.digest, n_clusters, solver.name, settings_of(solver), seed]
    return hashlib.sha256(encode_deterministic(content)).digest()


def exhausted_problem() -> dict[str, Any]:
    """Return the problem of a decode whose workers all died."""
    return problem_document(
        DecodingError(
            "every worker that tried it ended before it did",
            field="n_clusters",
            fix="look at the workers' logs and memory; fewer clusters or replicates need less",
        )
    )
