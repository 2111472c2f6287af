"""Studies, their refusals, privacy and utility."""

from __future__ import annotations

import re
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Response

from sfumato.aggregator.api.dependencies import (
    ANALYST,
    Operator,
    Page,
    Reader,
    ServicesDep,
    StudyId,
)
from sfumato.aggregator.api.responses import (
    CONDITIONAL,
    NOT_MODIFIED,
    OF_STUDY,
    TO_STUDY,
    WITH_BODY,
    WITH_KEY,
    answer,
    describe_links,
    describe_problems,
)
from sfumato.aggregator.records import DeviceRecord
from sfumato.aggregator.services.results.answers import describe_band, describe_privacy
from sfumato.aggregator.services.studies import StudySummary
from sfumato.learning.planning.quality import predict_relative_sse
from sfumato.shared.core.text import PLAIN_TEXT
from sfumato.shared.errors import ForbiddenError, UnreadVersionError
from sfumato.shared.plan import find_cautions
from sfumato.shared.wire.objects.declaring import make_body, maybe_rfc3339, maybe_timestamp
from sfumato.shared.wire.objects.devices import NoticeBody
from sfumato.shared.wire.objects.results import PrivacyBody, UtilityBody
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

router = APIRouter(prefix="/v1/studies", tags=["studies"])

_MOST_CLUSTERS = 1_000_000
_READING = describe_problems(*WITH_KEY, *OF_STUDY)
_LINKS = describe_links(TO_STUDY)
_ETAG = re.compile(r'^"(\d{1,18})\.\d{1,18}\.\d{1,18}"$')


@router.post(
    "",
    status_code=201,
    responses=describe_problems(
        *WITH_KEY,
        *WITH_BODY,
        "helper-unreachable",
        "plan-invalid",
        "plan-mismatch",
        "privacy-invalid",
        "store-conflict",
        "study-withdrawn",
        "unsupported-version",
    )
    | {201: _LINKS, 200: {"model": CreatedBody, **_LINKS}},
)
async def create_study(
    body: StudyRequest, services: ServicesDep, key: Operator, response: Response
) -> CreatedBody:
    """Create a study from a name and a plan; 200 if it exists already.

    409 where a study of another name has the plan; the answer names that study. A device that takes
    part in both spends its budget twice; `allow_same_plan` creates the study nevertheless.
    409 too where the study exists with another search box than the one given. `warnings` lists
    doubts about the plan, such as an epsilon that hardly protects.
    """
    summary, plan, is_new = await services.studies.create(
        body.name,
        body.plan,
        allow_same_plan=body.allow_same_plan,
        search_box=body.search_box,
        actor=key.key_id,
    )
    response.status_code = 201 if is_new else 200
    response.headers["Location"] = f"/v1/studies/{summary.study.study_id.hex()}"
    response.headers["ETag"] = _etag(summary)
    return make_body(CreatedBody, _to_body(summary), warnings=list(find_cautions(plan)))


@router.get(
    "",
    dependencies=ANALYST,
    responses=describe_problems(*WITH_KEY, "request-invalid")
    | {200: describe_links(TO_STUDY, item="/items/0")},
)
async def list_studies(
    services: ServicesDep,
    page: Page,
    beginning: Annotated[
        str,
        Query(pattern=PLAIN_TEXT, max_length=200, description="first characters of the names"),
    ] = "",
) -> Paged[StudyBody]:
    """List studies in the order of creation, all or those whose names begin with a text."""
    found = await services.studies.list_page(
        after=page.after, limit=page.n_wanted, beginning=beginning
    )
    return page.make(found, show=_to_body, key=lambda s: (s.study.created, s.study.study_id))


@router.get(
    "/{study}",
    dependencies=CONDITIONAL,
    response_model=StudyBody | NoticeBody,
    responses=NOT_MODIFIED | describe_problems(*WITH_KEY, *OF_STUDY, "request-signature-invalid"),
)
async def get_study(study: StudyId, services: ServicesDep, reader: Reader) -> Any:
    """Show a study; a device that signs the request sees only the life cycle.

    The ETag of a device's answer changes with life cycle and search box only, so that devices can
    poll often.
    """
    study_id = bytes.fromhex(study)
    if reader is not None:
        require_enrolled(reader, study_id)
        record = await services.studies.get_record(study_id)
        return _answer(make_body(NoticeBody, record), f'"{record.version}"')
    return _answer_summary(await services.studies.get(study_id))


@router.patch(
    "/{study}",
    response_model=StudyBody,
    responses=describe_problems(
        *WITH_KEY, *OF_STUDY, *WITH_BODY, "precondition-failed", "precondition-required"
    ),
)
async def change_study(
    study: StudyId,
    body: ChangeRequest,
    services: ServicesDep,
    key: Operator,
    if_match: Annotated[
        str | None, Header(description="the study's ETag as it was read, or `*`")
    ] = None,
) -> Any:
    """Open or close a study, or change the search box of its later decodes.

    A closed study takes late sketches until `accept_until`. Decodes that exist keep the search box
    that they were requested with. `If-Match` compares what can be changed here alone: sketches that
    arrive meanwhile do not make it stale.
    """
    summary = await services.studies.change(
        bytes.fromhex(study),
        state=body.state,
        accept_until=maybe_timestamp(body.accept_until),
        search_box=body.search_box,
        expected_version=_version_in(if_match),
        actor=key.key_id,
    )
    return _answer_summary(summary)


@router.delete("/{study}", responses=_READING)
async def withdraw_study(
    study: StudyId,
    services: ServicesDep,
    key: Operator,
    confirm: Annotated[str, Query(description="the study's name, to confirm", max_length=200)],
) -> WithdrawnBody:
    """Withdraw a study, at once and for good, and remove all that it holds.

    Every later call on it, uploads included, is answered with `study-withdrawn`. The same name and
    plan cannot become a study again.
    """
    withdrawn = await services.studies.withdraw(
        bytes.fromhex(study), name=confirm, actor=key.key_id
    )
    return WithdrawnBody(study_id=study, name=withdrawn.name)


@router.get("/{study}/refusals", dependencies=ANALYST, responses=_READING)
async def list_refusals(study: StudyId, services: ServicesDep) -> RefusalsBody:
    """Count refused sketches by problem, and devices that refuse the plan by their owner's rule."""
    study_id = bytes.fromhex(study)
    found, rules = await services.studies.list_refusals(study_id)
    return RefusalsBody(
        items=[make_body(RefusalBody, record) for record in found],
        plan_refusals=[
            PlanRefusalBody(rule=rule, n_devices=n) for rule, n in sorted(rules.items())
        ],
    )


@router.get("/{study}/privacy", responses=describe_problems(*OF_STUDY, "access-denied"))
async def get_privacy(study: StudyId, services: ServicesDep) -> PrivacyBody:
    """Return the study's statement of privacy."""
    _, plan = await services.studies.get_plan(bytes.fromhex(study))
    return describe_privacy(plan)


@router.get("/{study}/utility", dependencies=ANALYST, responses=_READING)
async def get_utility(
    study: StudyId,
    services: ServicesDep,
    n_clusters: Annotated[
        int | None,
        Query(ge=1, le=_MOST_CLUSTERS, description="predict the quality for this number"),
    ] = None,
) -> UtilityBody:
    """Estimate the utility of all sketches of a study.

    With a number of clusters, `band` predicts the quality of a decode of Fourier features.
    """
    study_id = bytes.fromhex(study)
    utility = await services.snapshots.compute_utility(study_id)
    band = None
    _, plan = await services.studies.get_plan(study_id)
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
