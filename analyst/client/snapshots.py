"""Calls about snapshots and the answers that need no decoding."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sfumato.analyst.client.studies import AsyncStudies
from sfumato.analyst.periods import When, make_selection
from sfumato.analyst.requests import ANSWERS
from sfumato.shared.wire.calls.snapshots import Snapshots
from sfumato.shared.wire.objects.results import SnapshotBody
from sfumato.shared.wire.objects.statistics import CalibrationBody, HistogramBody


class AsyncSnapshots(AsyncStudies):
    """Calls about snapshots and the answers that need no decoding."""

    async def snapshot(
        self,
        study: str,
        *,
        start: When | None = None,
        end: When | None = None,
        first_slot: int | None = None,
        last_slot: int | None = None,
        labels: Mapping[str, str] | None = None,
        weighting: str = "size",
    ) -> SnapshotBody:
        """Freeze the weighted global sketch of a selection; by default of all sketches.

        Parameters
        ----------
        start, end
            The first day or month and the last, which is included, in UTC: a ``date``, or text
            such as ``2013-03-01`` and ``2013-03``. Or a time with its zone from which on, and one
            before which, slots begin.
        first_slot, last_slot
            Range of public time buckets, in place of times.
        labels
            Only devices with these labels.
        weighting
            ``size`` or ``noise-optimal``.
        """
        study_id = await self.find_study(study)
        selection = await self._select(
            study_id,
            start=start,
            end=end,
            first_slot=first_slot,
            last_slot=last_slot,
            labels=labels,
        )
        request = {**selection, "weighting": weighting}
        return await self._call(Snapshots.create_snapshot, study_id, body=request)

    async def _select(
        self,
        study_id: str,
        *,
        start: When | None = None,
        end: When | None = None,
        first_slot: int | None = None,
        last_slot: int | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Return a selection as its JSON object; only times need the plan."""
        slots = {"first_slot": first_slot, "last_slot": last_slot}
        if start is None and end is None:
            return {**slots, "labels": dict(labels or {})}
        plan = await self.plan(study_id)
        return make_selection(plan.window, start=start, end=end, labels=labels, **slots)

    async def frozen(self, snapshot_id: str) -> SnapshotBody:
        """Read a snapshot that exists, without its sums."""
        answer = await self._send(Snapshots.get_snapshot, snapshot_id)
        return ANSWERS.read(SnapshotBody, ANSWERS.read_document(answer.content))

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
        query = {"bars": str(bars)}
        return await self._call(Snapshots.get_histogram, snapshot_id, params=query)

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
        return await self._call(Snapshots.get_calibration, snapshot_id, params=query)
