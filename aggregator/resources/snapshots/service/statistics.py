"""Answers of histograms and moments; post-processing, costs no privacy."""

from __future__ import annotations

import asyncio

from sfumato.aggregator.resources.parts import Parts, Service
from sfumato.aggregator.resources.plans import require_study
from sfumato.aggregator.resources.snapshots.record import SnapshotRecord
from sfumato.aggregator.resources.snapshots.service.snapshots import SnapshotService
from sfumato.learning.answers.clusters import describe_clusters
from sfumato.learning.answers.histograms import describe_calibration, describe_histogram
from sfumato.learning.answers.moments import describe_moments
from sfumato.shared.plan import SketchPlan
from sfumato.shared.wire.objects.looks import MeasuredClustersBody
from sfumato.shared.wire.objects.statistics import CalibrationBody, HistogramBody, MomentsAnswerBody


class StatisticService(Service):
    """Answers of studies whose statistic needs no decoding."""

    def __init__(self, parts: Parts, snapshots: SnapshotService) -> None:
        super().__init__(parts)
        self._snapshots = snapshots

    async def describe_histogram(self, snapshot_id: bytes, *, most_bars: int) -> HistogramBody:
        """Return the marginals of a snapshot; raises as the function."""
        plan, snapshot = await self._load(snapshot_id)
        return await asyncio.to_thread(
            describe_histogram,
            plan,
            snapshot.totals,
            snapshot_id=snapshot_id.hex(),
            most_bars=most_bars,
        )

    async def describe_components(self, snapshot_id: bytes) -> MomentsAnswerBody:
        """Return the principal directions of a snapshot; raises as the function."""
        plan, snapshot = await self._load(snapshot_id)
        return await asyncio.to_thread(
            describe_moments, plan, snapshot.totals, snapshot_id=snapshot_id.hex()
        )

    async def describe_clusters(self, snapshot_id: bytes) -> MeasuredClustersBody:
        """Return what a second look measures; raises as the function."""
        plan, snapshot = await self._load(snapshot_id)
        return await asyncio.to_thread(
            describe_clusters, plan, snapshot.totals, snapshot_id=snapshot_id.hex()
        )

    async def describe_calibration(
        self, snapshot_id: bytes, *, n_clusters: tuple[int, int]
    ) -> CalibrationBody:
        """Return what a pilot says about a main study; raises as the function."""
        plan, snapshot = await self._load(snapshot_id)
        return await asyncio.to_thread(
            describe_calibration,
            plan,
            snapshot.totals,
            snapshot_id=snapshot_id.hex(),
            n_clusters=n_clusters,
        )

    async def _load(self, snapshot_id: bytes) -> tuple[SketchPlan, SnapshotRecord]:
        snapshot = await self._snapshots.get(snapshot_id)
        async with self._store.begin() as transaction:
            study = await require_study(transaction, snapshot.study_id)
        return await self._plans.get(study), snapshot
