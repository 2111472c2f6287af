"""Calls about decodes."""

from __future__ import annotations

from sfumato.shared.wire.calls.call import Bare, Call, Events, Pages
from sfumato.shared.wire.objects.looks import PlanLookRequest, PlannedLookBody
from sfumato.shared.wire.objects.questions import AnswersBody, QuestionsRequest
from sfumato.shared.wire.objects.results import DecodeBody, DecodeRequest
from sfumato.shared.wire.objects.synthesis import SynthesisRequest, SyntheticBody


class Decodes:
    """Decodes: long jobs as resources.

    Attributes
    ----------
    create_decode
        Queue a decode; 200 if the same decode exists. A failed or cancelled decode runs again.

        With second looks at earlier results its shares are measured, and its centroids refined.
    list_decodes
        List the decodes of a study, the newest first.

        Their results leave out the large parts: density, evidence, the choice of the number of
        clusters, and second looks.
    get_decode
        Show a decode: its state and progress, and its result or problem.

        A result never changes, and neither does its ETag. A failed or cancelled decode may be
        queued again.
    cancel_decode
        Cancel a decode; one that has ended stays as it is.
    ask_questions
        Answer questions on the records behind a decode, from its stored density.

        Shares of boxes, quantiles, densities and means, with error bars. It costs no privacy.
    plan_look
        Plan a second look at a decode's centroids, and predict how accurate it will be.

        Nothing is stored or spent: `POST /v1/studies` with the plan shows the centroids to devices.
    draw_synthetic_records
        Draw synthetic records from the stored densities of a decode.

        Any number of them costs no privacy. With a histogram their columns follow it.
    stream_events
        Stream a decode's progress as server-sent events.

        The events `state` and `progress` carry state and progress. The last event is `result`,
        which carries the decode when it has ended, or `problem`, which says why the stream ends:
        the key was revoked, for instance. A stream without either ended for another reason: open it
        again.
    """

    create_decode = Call(
        "analyst",
        "POST /v1/studies/{study}/decodes",
        DecodeRequest,
        DecodeBody,
        status=202,
        may_exist=True,
        location="/v1/decodes/{decode_id}",
        leads_to="decode snapshot",
        names="snapshot_id=snapshot looks=snapshot",
        problems="decoding-invalid store-conflict wrong-statistic",
    )
    list_decodes = Pages("viewer", "GET /v1/studies/{study}/decodes", DecodeBody, leads_to="decode")
    get_decode = Bare(
        "viewer", "GET /v1/decodes/{decode}", DecodeBody, is_conditional=True, leads_to="snapshot"
    )
    cancel_decode = Bare("analyst", "DELETE /v1/decodes/{decode}", DecodeBody)
    ask_questions = Call(
        "viewer",
        "POST /v1/decodes/{decode}/questions",
        QuestionsRequest,
        AnswersBody,
        names="histogram=snapshot",
        problems="decoding-invalid wrong-statistic",
    )
    plan_look = Call(
        "analyst",
        "POST /v1/decodes/{decode}/look",
        PlanLookRequest,
        PlannedLookBody,
        problems="decoding-invalid plan-invalid privacy-invalid",
    )
    draw_synthetic_records = Call(
        "viewer",
        "POST /v1/decodes/{decode}/records",
        SynthesisRequest,
        SyntheticBody,
        names="histogram=snapshot",
        problems="decoding-invalid wrong-statistic",
    )
    stream_events = Events(
        "viewer",
        "GET /v1/decodes/{decode}/events",
        DecodeBody,
        media="text/event-stream",
        query="seconds",
    )
