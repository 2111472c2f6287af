"""Calls about snapshots and the answers that need no decoding."""

from __future__ import annotations

from collections.abc import Mapping

from analyst.client.asynchronous.calls import AsyncCalls
from analyst.requests import path_of_snapshot
from shared.wire.bodies.results import SnapshotBody, SnapshotSumsBody
from shared.wire.bodies.statistics import CalibrationBody, HistogramBody, MomentsAnswerBody


class AsyncSnapshots(AsyncCalls):
    """Calls about snapshots and the answers that need no decoding."""

    async def snapshot(
        self,
        study: str,
        *,
        first_slot: int | None = None,
        last_slot: int | None = None,
        labels: Mapping[str, str] | None = None,
        weighting: str = "size",
    ) -> SnapshotBody:
        """Freeze the weighted global sketch of a selection; by default of all sketches.

        Parameters
        ----------
        first_slot, last_slot
            Range of public time buckets.
        labels
            Only devices with these labels.
        weighting
            ``size`` or ``noise-optimal``.
        """
        selection = {
            "first_slot": first_slot,
            "last_slot": last_slot,
            "labels": dict(labels or {}),
            "weighting": weighting,
        }
        path = await self._path_of(study)
        return await self._read(SnapshotBody, "POST", f"{path}/snapshots", selection)

    async def snapshot_sums(self, snapshot_id: str) -> SnapshotSumsBody:
        """Read a snapshot with its exact sums, which every answer is computed from."""
        return await self._read(SnapshotSumsBody, "GET", path_of_snapshot(snapshot_id))

    async def histogram(self, snapshot_id: str, *, bars: int = 64) -> HistogramBody:
        """Read the marginals of a snapshot of a histogram study.

        Parameters
        ----------
        bars
            The largest number of bars of a dimension; each stands out from its noise.

        Raises
        ------
        WrongStatisticError
            The study has no histogram.
        """
        path = f"{path_of_snapshot(snapshot_id)}/histogram"
        return await self._read(HistogramBody, "GET", path, params={"bars": str(bars)})

    async def moments(self, snapshot_id: str) -> MomentsAnswerBody:
        """Read mean, correlations and principal directions of a snapshot of a moments study.

        Raises
        ------
        WrongStatisticError
            The study has no moments.
        """
        path = f"{path_of_snapshot(snapshot_id)}/moments"
        return await self._read(MomentsAnswerBody, "GET", path)

    async def calibration(
        self, snapshot_id: str, *, n_clusters: int, most_clusters: int | None = None
    ) -> CalibrationBody:
        """Read what a pilot, a snapshot of a histogram study, says about a main study.

        Parameters
        ----------
        n_clusters, most_clusters
            The number of clusters that will be looked for, or the least and the largest.

        Raises
        ------
        WrongStatisticError
            The study has no histogram.
        """
        query = {"clusters": str(n_clusters), "most_clusters": str(most_clusters or n_clusters)}
        path = f"{path_of_snapshot(snapshot_id)}/calibration"
        return await self._read(CalibrationBody, "GET", path, params=query)
