"""Calls about analyses, and an analysis that is followed until it ends."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from sfumato.analyst.client.decodes import AsyncDecodes
from sfumato.analyst.client.jobs import AsyncJob
from sfumato.analyst.periods import Choice, When, require_choice
from sfumato.analyst.requests import AsyncStream
from sfumato.analyst.results.analyses import (
    AnalysisResult,
    Comparison,
    DeviceHealth,
    Groups,
    Timeline,
    read_analysis,
)
from sfumato.shared.errors import ConfigError
from sfumato.shared.wire.calls.analyses import Analyses
from sfumato.shared.wire.objects.analyses import AcceptedChangeBody, AnalysisBody, Reference
from sfumato.shared.wire.objects.results import ProgressBody

R = TypeVar("R", bound=AnalysisResult[Any])


class AsyncAnalyses(AsyncDecodes):
    """Calls about analyses."""

    async def compare(
        self,
        study: str,
        first: Choice,
        second: Choice,
        *,
        n_clusters: int,
        seed: int = 0,
        level: float = 0.05,
        smallest_shift: float = 0.1,
        look: str | None = None,
    ) -> AsyncAnalysis[Comparison]:
        """Start to compare two selections of a study that share no sketch.

        Parameters
        ----------
        first, second
            Selections, such as ``{"start": "2013-01", "end": "2013-03"}`` or
            ``{"labels": {"site": "north"}}``, with the arguments of ``snapshot``. Changes are from
            the first to the second.
        n_clusters
            Clusters of both together whose changes are estimated.
        seed
            Seed of the fit and the draws.
        level
            Share of false alarms where nothing has changed.
        smallest_shift
            Smallest size of an alarm, in the plan's scales.
        look
            The study of a second look at a result of this one, with sketches of both selections:
            changes of shares are then measured.
        """
        study_id = await self.find_study(study)
        request = {
            "kind": "comparison",
            "look": look and await self.find_study(look),
            "first": await self._choose(study_id, first, "first"),
            "second": await self._choose(study_id, second, "second"),
            "n_clusters": n_clusters,
            "seed": seed,
            "level": level,
            "smallest_shift": smallest_shift,
        }
        return await self._analyse(study_id, Comparison, request)

    async def timeline(
        self,
        study: str,
        *,
        n_clusters: int,
        start: When | None = None,
        end: When | None = None,
        first_slot: int | None = None,
        last_slot: int | None = None,
        labels: Mapping[str, str] | None = None,
        slots_per_window: int = 1,
        seed: int = 0,
        false_alarms_per_year: float = 1.0,
        smallest_shift: float | None = None,
        reference: Reference = "last-change",
        look: str | None = None,
    ) -> AsyncAnalysis[Timeline]:
        """Start to follow a study window by window: when it changed, how surely, and in what.

        Parameters
        ----------
        n_clusters
            Clusters of all windows together.
        start, end, first_slot, last_slot, labels
            The stretch, as for ``snapshot``; by default all slots that hold sketches.
        slots_per_window
            Slots that make a window.
        seed
            Seed of the fit and of simulated years.
        false_alarms_per_year
            False alarms to accept in a year without a change.
        smallest_shift
            Smallest size of an alarm and of a lasting change, in the plan's scales; None for 0.1,
            or for the usual change from one window to the next, if that is larger.
        reference
            ``last-change``: each window is compared with all since the last accepted or lasting
            change. ``last-accepted``: since the last change of :meth:`accept_change`.
            ``all-before``: with all windows before it.
        look
            The study of a second look at a result of this one: where it has sketches of a window,
            the shares are measured.
        """
        study_id = await self.find_study(study)
        chosen = await self._select(
            study_id,
            start=start,
            end=end,
            first_slot=first_slot,
            last_slot=last_slot,
            labels=labels,
        )
        request = {
            "kind": "timeline",
            "look": look and await self.find_study(look),
            **chosen,
            "n_clusters": n_clusters,
            "slots_per_window": slots_per_window,
            "seed": seed,
            "false_alarms_per_year": false_alarms_per_year,
            "smallest_shift": smallest_shift,
            "reference": reference,
        }
        return await self._analyse(study_id, Timeline, request)

    async def accept_change(
        self,
        study: str,
        start: When | None = None,
        *,
        first_slot: int | None = None,
        note: str = "",
    ) -> AcceptedChangeBody:
        """Accept a change: from then on it is no alarm, and later windows are compared with it.

        Parameters
        ----------
        start, first_slot
            The day, month or time at which the first window after the change begins; or its slot.
        note
            Why, for the list and the audit log.
        """
        study_id, slot = await self._find_slot(study, start, first_slot)
        body = {"first_slot": slot, "note": note}
        return await self._call(Analyses.accept_change, study_id, body=body)

    async def reopen_change(
        self, study: str, start: When | None = None, *, first_slot: int | None = None
    ) -> AcceptedChangeBody:
        """Accept a change no longer; as :meth:`accept_change`."""
        study_id, slot = await self._find_slot(study, start, first_slot)
        return await self._call(Analyses.reopen_change, study_id, str(slot))

    async def _find_slot(
        self, study: str, start: When | None, first_slot: int | None
    ) -> tuple[str, int]:
        study_id = await self.find_study(study)
        chosen = await self._select(study_id, start=start, first_slot=first_slot)
        if chosen["first_slot"] is None:
            raise ConfigError(
                "is missing", field="start", fix="give the day at which the change begins"
            )
        return study_id, int(chosen["first_slot"])

    async def groups(
        self,
        study: str,
        label: str,
        *,
        n_clusters: int,
        start: When | None = None,
        end: When | None = None,
        first_slot: int | None = None,
        last_slot: int | None = None,
        seed: int = 0,
    ) -> AsyncAnalysis[Groups]:
        """Start to compare all pairs of the values of a label.

        Parameters
        ----------
        label
            Its name.
        n_clusters
            Clusters of all groups together.
        start, end, first_slot, last_slot
            The stretch, as for ``snapshot``.
        seed
            Seed of the fit and the draws.
        """
        study_id = await self.find_study(study)
        chosen = await self._select(
            study_id, start=start, end=end, first_slot=first_slot, last_slot=last_slot
        )
        del chosen["labels"]
        request = {
            "kind": "groups",
            "label": label,
            **chosen,
            "n_clusters": n_clusters,
            "seed": seed,
        }
        return await self._analyse(study_id, Groups, request)

    async def device_health(
        self,
        study: str,
        *,
        n_clusters: int,
        start: When | None = None,
        end: When | None = None,
        first_slot: int | None = None,
        last_slot: int | None = None,
        seed: int = 0,
    ) -> AsyncAnalysis[DeviceHealth]:
        """Start to compare each device of a study with the rest; needs an operator's key.

        Parameters
        ----------
        n_clusters
            Clusters of all devices together.
        start, end, first_slot, last_slot
            The stretch, as for ``snapshot``.
        seed
            Seed of the fit and the draws.
        """
        study_id = await self.find_study(study)
        chosen = await self._select(
            study_id, start=start, end=end, first_slot=first_slot, last_slot=last_slot
        )
        del chosen["labels"]
        request = {"kind": "devices", **chosen, "n_clusters": n_clusters, "seed": seed}
        return await self._analyse(study_id, DeviceHealth, request)

    async def _choose(self, study_id: str, choice: Choice, field: str) -> dict[str, Any]:
        return await self._select(study_id, **require_choice(choice, field))

    async def _analyse(
        self, study_id: str, kind: type[R], request: dict[str, Any]
    ) -> AsyncAnalysis[R]:
        if request["n_clusters"] < 1:
            raise ConfigError("must be at least 1", field="n_clusters", fix="ask for at least one")
        answer = await self._call(Analyses.create_analysis, study_id, body=request)
        return AsyncAnalysis(self, answer.analysis_id, kind)

    def analysis_events(
        self, analysis_id: str, *, seconds: int | None = None
    ) -> AsyncStream[AnalysisBody | ProgressBody]:
        """Yield the state and progress of an analysis as they change, then the ended analysis.

        Parameters
        ----------
        seconds
            The stream ends after so many, at most 600.

        Raises
        ------
        TransportError
            The server does not send events, or stopped.
        """
        return self._events(Analyses.stream_analysis_events, analysis_id, seconds)


class AsyncAnalysis(AsyncJob[AnalysisBody], Generic[R]):
    """An analysis on the server; ``result`` is the class of its result."""

    kind = "analysis"
    watch = "sfumato analysis watch"

    def __init__(self, client: AsyncAnalyses, analysis_id: str, result: type[R]) -> None:
        super().__init__(
            client,
            analysis_id,
            read=Analyses.get_analysis,
            stop=Analyses.cancel_analysis,
            follow=Analyses.stream_analysis_events,
        )
        self.analysis_id = analysis_id
        self.result = result

    async def wait(
        self,
        *,
        progress: Callable[[float], None] | None = None,
        timeout: float | None = None,
        note: Callable[[str], object] = warnings.warn,
    ) -> R:
        """Wait for the result.

        Parameters
        ----------
        progress
            Function that is called with the completed share, 0 to 1.
        timeout
            Seconds after which to stop waiting; the analysis goes on.
        note
            Function that is told, once, that no worker is there to compute it.

        Raises
        ------
        DecodingError
            The analysis failed or was cancelled.
        TransportError
            It has not ended in time.
        """
        ended = await self.end(progress=progress, timeout=timeout, note=note)
        return read_analysis(ended, self.result)
