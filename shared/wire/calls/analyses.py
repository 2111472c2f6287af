"""Calls about analyses."""

from __future__ import annotations

from sfumato.shared.wire.calls.call import Bare, Call, Events, Pages
from sfumato.shared.wire.objects.analyses import (
    AcceptedChangeBody,
    AcceptRequest,
    AnalysisBody,
    AnalysisEntryBody,
    AnalysisRequest,
)


class Analyses:
    """Analyses: comparisons, timelines, groups and the health of devices, as resources.

    Attributes
    ----------
    create_analysis
        Freeze the selections of an analysis and queue it; 200 if the same analysis exists.

        A failed or cancelled analysis runs again. The kinds: `comparison` of two selections,
        `timeline` of windows, `groups` by the values of a label, and `devices`, each with the rest,
        which needs an operator's key. Answers rest on released sketches alone: they cost no
        privacy.
    list_analyses
        List the analyses of a study, the newest first, without their results.

        An analyst's key does not show the words of the health of devices.
    accept_change
        Accept a change: timelines compare later windows with what came with it.

        It is no alarm any more. 200 if it was accepted before.
    list_accepted_changes
        List the accepted changes of a study, in order; there is one page.
    reopen_change
        Accept a change no longer.
    get_analysis
        Show an analysis: its state and progress, and its result or problem.

        A result never changes, and neither does its ETag. A failed or cancelled analysis may be
        queued again.
    cancel_analysis
        Cancel an analysis; one that has ended stays as it is.
    stream_analysis_events
        Stream an analysis's progress as server-sent events, as for a decode.

        The last event is `result`, which carries the analysis when it has ended, or `problem`.
    """

    create_analysis: Call[..., AnalysisBody] = Call(
        "analyst",
        "POST /v1/studies/{study}/analyses",
        AnalysisRequest,
        AnalysisBody,
        status=202,
        may_exist=True,
        location="/v1/analyses/{analysis_id}",
        leads_to="analysis",
        names="look=study",
        problems="decoding-invalid wrong-statistic",
    )
    list_analyses = Pages(
        "viewer", "GET /v1/studies/{study}/analyses", AnalysisEntryBody, leads_to="analysis"
    )
    accept_change = Call(
        "analyst",
        "POST /v1/studies/{study}/accepted-changes",
        AcceptRequest,
        AcceptedChangeBody,
        status=201,
        may_exist=True,
    )
    list_accepted_changes = Pages(
        "viewer", "GET /v1/studies/{study}/accepted-changes", AcceptedChangeBody, is_whole=True
    )
    reopen_change = Bare(
        "analyst", "DELETE /v1/studies/{study}/accepted-changes/{first_slot}", AcceptedChangeBody
    )
    get_analysis = Bare("viewer", "GET /v1/analyses/{analysis}", AnalysisBody, is_conditional=True)
    cancel_analysis = Bare("analyst", "DELETE /v1/analyses/{analysis}", AnalysisBody)
    stream_analysis_events = Events(
        "viewer",
        "GET /v1/analyses/{analysis}/events",
        AnalysisBody,
        media="text/event-stream",
        query="seconds",
    )
