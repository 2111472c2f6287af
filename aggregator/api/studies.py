"""Studies, their refusals, privacy and utility."""

from __future__ import annotations

import re
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Response

from sfumato.aggregator.answers.clusters import describe_band, describe_privacy
from sfumato.aggregator.api.dependencies import Caller, Page, Reader, ServicesDep, StudyId
from sfumato.aggregator.api.responses import answer
from sfumato.aggregator.api.serving import serves
from sfumato.aggregator.resources.devices.record import DeviceRecord
from sfumato.aggregator.resources.studies.service.studies import StudySummary
from sfumato.learning.planning.quality import predict_relative_sse
from sfumato.shared.core.text import PLAIN_TEXT
from sfumato.shared.errors import ForbiddenError, UnreadVersionError
from sfumato.shared.plan import find_cautions
from sfumato.shared.wire.calls.studies import Studies
from sfumato.shared.wire.objects.answers import PrivacyBody
from sfumato.shared.wire.objects.declaration import make_body, maybe_rfc3339, maybe_timestamp
from sfumato.shared.wire.objects.devices import NoticeBody
from sfumato.shared.wire.objects.results import UtilityBody
from sfumato.shared.wire.objects.studies import (
    ChangeRequest,
    CreatedBody,
    Paged,
    PlanRefusalBody,
    RefusalBody,
    RefusalsBody,
    StudyBody,
    StudyRequest,
    WithdrawnBody,
)

router = APIRouter(tags=["studies"])

_MOST_CLUSTERS = 1_000_000
_ETAG = re.compile(r'^"(\d{1,18})\.\d{1,18}\.\d{1,18}"$')


@serves(router, Studies.create_study)
async def create_study(
    body: StudyRequest, services: ServicesDep, key: Caller, response: Response
) -> tuple[CreatedBody, bool]:
    summary, plan, is_new = await services.studies.create(
        body.name,
        body.plan,
        allow_same_plan=body.allow_same_plan,
        search_box=body.search_box,
        actor=key.key_id,
    )
    response.headers["ETag"] = _etag(summary)
    return make_body(CreatedBody, _to_body(summary), warnings=list(find_cautions(plan))), is_new


@serves(router, Studies.list_studies)
async def list_studies(
    services: ServicesDep,
    page: Page,
    key: Caller,
    beginning: Annotated[
        str, Query(pattern=PLAIN_TEXT, max_length=200, description="first characters of the names")
    ] = "",
) -> Paged[StudyBody]:
    found = await services.studies.list_page(
        after=page.after, limit=page.n_wanted, beginning=beginning, study_id=key.study_id
    )
    return page.make(found, show=_to_body, key=lambda s: (s.study.created, s.study.study_id))


@serves(router, Studies.get_study, response_model=StudyBody | NoticeBody)
async def get_study(study: StudyId, services: ServicesDep, reader: Reader) -> Response:
    if reader is not None:
        require_enrolled(reader, study)
        record = await services.studies.get_record(study)
        return _answer(make_body(NoticeBody, record), f'"{record.version}"')
    return _answer_summary(await services.studies.get(study))


@serves(router, Studies.change_study)
async def change_study(
    study: StudyId,
    body: ChangeRequest,
    services: ServicesDep,
    key: Caller,
    if_match: Annotated[
        str | None, Header(description="the study's ETag as it was read, or `*`")
    ] = None,
) -> Any:
    summary = await services.studies.change(
        study,
        state=body.state,
        accept_until=maybe_timestamp(body.accept_until),
        search_box=body.search_box,
        expected_version=_version_in(if_match),
        actor=key.key_id,
    )
    return _answer_summary(summary)


@serves(router, Studies.withdraw_study)
async def withdraw_study(
    study: StudyId,
    services: ServicesDep,
    key: Caller,
    confirm: Annotated[str, Query(description="the study's name, to confirm", max_length=200)],
) -> WithdrawnBody:
    withdrawn = await services.studies.withdraw(study, name=confirm, actor=key.key_id)
    return WithdrawnBody(study_id=study.hex(), name=withdrawn.name)


@serves(router, Studies.list_refusals)
async def list_refusals(study: StudyId, services: ServicesDep) -> RefusalsBody:
    found, rules = await services.studies.list_refusals(study)
    return RefusalsBody(
        items=[make_body(RefusalBody, record) for record in found],
        plan_refusals=[
            PlanRefusalBody(rule=rule, n_devices=n) for rule, n in sorted(rules.items())
        ],
    )


@serves(router, Studies.get_privacy)
async def get_privacy(study: StudyId, services: ServicesDep) -> PrivacyBody:
    _, plan = await services.studies.get_plan(study)
    return describe_privacy(plan, payload_days=services.settings.payload_days)


@serves(router, Studies.get_utility)
async def get_utility(
    study: StudyId,
    services: ServicesDep,
    n_clusters: Annotated[
        int | None,
        Query(ge=1, le=_MOST_CLUSTERS, description="predict the quality for this number"),
    ] = None,
) -> UtilityBody:
    utility = await services.snapshots.compute_utility(study)
    band = None
    _, plan = await services.studies.get_plan(study)
    if n_clusters is not None and plan.kind == "fourier":
        predicted = predict_relative_sse(
            snr=utility.snr,
            n_frequencies=utility.n_covered,
            n_clusters=n_clusters,
            n_dimensions=plan.n_axes,
        )
        band = describe_band(predicted, predicted.describe())
    return make_body(UtilityBody, utility, band=band)


def require_enrolled(device: DeviceRecord, study_id: bytes) -> None:
    """Refuse a device that is enrolled in another study, with a ``ForbiddenError``."""
    if device.study_id != study_id:
        raise ForbiddenError(
            "is not enrolled in this study",
            field="device",
            fix="request the study that this key is enrolled in",
        )


def _answer_summary(summary: StudySummary) -> Response:
    return _answer(_to_body(summary), _etag(summary))


def _answer(body: StudyBody | NoticeBody, etag: str) -> Response:
    vary = "Authorization, Signature-Input"
    return answer(body, ETag=etag, Cache_Control="no-cache", Vary=vary)


def _to_body(summary: StudySummary) -> StudyBody:
    study = summary.study
    # Every sketch with a public number has at least one record.
    is_secret = study.n_sketches > 0 and study.n_records == 0
    return make_body(
        StudyBody,
        study,
        n_records=None if is_secret else study.n_records,
        n_devices=summary.n_devices,
        last_arrival=maybe_rfc3339(summary.last_arrival),
    )


def _etag(summary: StudySummary) -> str:
    """Return the ETag of a study: its version first, then its counts."""
    return f'"{summary.study.version}.{summary.study.n_sketches}.{summary.n_devices}"'


def _version_in(if_match: str | None) -> int | None:
    """Return a study's version in an ETag; an ETag that was never given is stale."""
    if if_match is None:
        raise UnreadVersionError(
            "is missing: without it this request could undo somebody else's change",
            field="If-Match",
            fix="read the study and send its ETag in If-Match, or `*` for any version",
        )
    if if_match.strip() == "*":
        return None
    found = _ETAG.match(if_match.strip())
    return int(found.group(1)) if found else 0
