"""Studies, their refusals, privacy and utility."""

from __future__ import annotations

import math
import re
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from aggregator.api.dependencies import (
    ANALYST,
    Identity,
    Limit,
    Operator,
    Page,
    ServicesDep,
    decode_page,
    encode_page,
)
from aggregator.api.device_schemas import (
    PlanRefusalBody,
    RefusalBody,
    RefusalsBody,
)
from aggregator.api.result_schemas import BandBody, PrivacyBody, UtilityBody
from aggregator.api.schemas import (
    CreatedBody,
    NoticeBody,
    Paged,
    StateRequest,
    StudyBody,
    StudyRequest,
    WithdrawnBody,
    maybe_rfc3339,
    to_rfc3339,
)
from aggregator.api.signing import Reader
from aggregator.etags import NOT_MODIFIED, IfNoneMatch, answer_not_modified, is_known
from aggregator.records import DeviceRecord, StudyRecord
from aggregator.services.answers import describe_privacy
from aggregator.services.studies import StudySummary
from learning.planning.quality import predict_relative_sse
from shared.errors import ForbiddenError, UnreadVersionError
from shared.plan import find_cautions

router = APIRouter(prefix="/v1/studies", tags=["studies"])

_MOST_CLUSTERS = 1_000_000
_ETAG = re.compile(r'^"(\d{1,18})\.\d{1,18}\.\d{1,18}"$')


@router.post("", status_code=201, responses={200: {"model": CreatedBody}})
async def create_study(
    body: StudyRequest, services: ServicesDep, key: Operator, response: Response
) -> CreatedBody:
    """Create a study from a name and a plan; 200 if it is there already.

    409 where a study of another name has the plan, which the answer names: a device that takes part
    in both spends twice. `allow_same_plan` makes it all the same. `warnings` say what is odd about
    the plan, such as an epsilon that protects next to nothing.
    """
    summary, is_new = await services.studies.create(
        body.name, body.plan, allow_same_plan=body.allow_same_plan, actor=key.key_id
    )
    response.status_code = 201 if is_new else 200
    response.headers["Location"] = f"/v1/studies/{summary.study.study_id.hex()}"
    response.headers["ETag"] = _etag(summary)
    _, plan = await services.studies.get_plan(summary.study.study_id)
    return CreatedBody(**_to_body(summary).model_dump(), warnings=list(find_cautions(plan)))


@router.get("", dependencies=ANALYST)
async def list_studies(
    services: ServicesDep, page: Page = None, limit: Limit = 100
) -> Paged[StudyBody]:
    """List studies in the order of creation."""
    found = await services.studies.list_page(after=decode_page(page), limit=limit + 1)
    shown = found[:limit]
    last = shown[-1].study if len(found) > limit else None
    return Paged[StudyBody](
        items=[_to_body(summary) for summary in shown],
        next_page=encode_page((last.created, last.study_id)) if last else None,
    )


@router.get(
    "/{study}",
    response_model=StudyBody | NoticeBody,
    responses=NOT_MODIFIED,
)
async def get_study(
    study: Identity,
    services: ServicesDep,
    reader: Reader,
    if_none_match: IfNoneMatch = None,
) -> Any:
    """Show a study; a device that signs the request sees its life cycle alone.

    What a device sees has an ETag that changes with the life cycle only, so that it can ask often.
    """
    study_id = bytes.fromhex(study)
    if reader is not None:
        _require_enrolled(reader, study_id)
        return _notify(await services.studies.get_record(study_id), unless=if_none_match)
    return _answer(await services.studies.get(study_id), unless=if_none_match)


@router.patch(
    "/{study}",
    response_model=StudyBody,
)
async def change_study(
    study: Identity,
    body: StateRequest,
    services: ServicesDep,
    key: Operator,
    if_match: Annotated[str | None, Header()] = None,
) -> Any:
    """Open or close a study; closed, it takes until `accept_until` what was on its way.

    `If-Match` compares the life cycle alone: sketches that arrive meanwhile do not make it stale.
    """
    summary = await services.studies.set_state(
        bytes.fromhex(study),
        body.state,
        accept_until=None if body.accept_until is None else body.accept_until.timestamp(),
        expected_version=_version_in(if_match),
        actor=key.key_id,
    )
    return _answer(summary)


@router.delete("/{study}")
async def withdraw_study(
    study: Identity,
    services: ServicesDep,
    key: Operator,
    confirm: Annotated[str, Query(description="the study's name, typed", max_length=200)],
) -> WithdrawnBody:
    """Withdraw a study, at once and for good, and remove all that it holds.

    Every later call on it, uploads included, is answered with `study-withdrawn`, and the same name
    and plan make no study again.
    """
    withdrawn = await services.withdrawals.withdraw(
        bytes.fromhex(study), name=confirm, actor=key.key_id
    )
    return WithdrawnBody(study_id=study, name=withdrawn.name)


@router.get("/{study}/refusals", dependencies=ANALYST)
async def list_refusals(study: Identity, services: ServicesDep) -> RefusalsBody:
    """Count refused sketches by problem, and devices that refuse the plan by their owner's rule."""
    study_id = bytes.fromhex(study)
    found = await services.studies.list_refusals(study_id)
    rules = await services.studies.count_plan_refusals(study_id)
    return RefusalsBody(
        items=[RefusalBody(problem=record.problem, count=record.count) for record in found],
        plan_refusals=[
            PlanRefusalBody(rule=rule, n_devices=n) for rule, n in sorted(rules.items())
        ],
    )


@router.get("/{study}/privacy")
async def get_privacy(study: Identity, services: ServicesDep) -> PrivacyBody:
    """Return the study's statement of privacy."""
    _, plan = await services.studies.get_plan(bytes.fromhex(study))
    return PrivacyBody.model_validate(describe_privacy(plan))


@router.get("/{study}/utility", dependencies=ANALYST)
async def get_utility(
    study: Identity,
    services: ServicesDep,
    n_clusters: Annotated[
        int | None, Query(ge=1, le=_MOST_CLUSTERS, description="for which to predict the quality")
    ] = None,
) -> UtilityBody:
    """Estimate how useful everything is that the study holds now.

    Given a number of clusters, `band` predicts how good a decode of it would be.
    """
    study_id = bytes.fromhex(study)
    utility = await services.snapshots.compute_utility(study_id)
    body = UtilityBody.model_validate(utility, from_attributes=True)
    if n_clusters is not None:
        _, plan = await services.studies.get_plan(study_id)
        band = predict_relative_sse(
            snr=utility.snr,
            n_frequencies=plan.n_frequencies,
            n_clusters=n_clusters,
            n_dimensions=plan.n_dimensions,
        )
        body.band = BandBody(
            low=band.low,
            high=band.high if math.isfinite(band.high) else None,
            statement=band.describe(),
        )
    return body


def _require_enrolled(device: DeviceRecord, study_id: bytes) -> None:
    if device.study_id != study_id:
        raise ForbiddenError(
            "is not enrolled in this study", field="device", fix="ask about the study of this key"
        )


def _notify(study: StudyRecord, *, unless: str | None) -> Response:
    body = NoticeBody(
        study_id=study.study_id.hex(),
        name=study.name,
        plan_digest=study.plan_digest.hex(),
        state=study.state,
        accept_until=maybe_rfc3339(study.accept_until),
    )
    return _conditional(body, f'"{study.version}"', unless)


def _answer(summary: StudySummary, *, unless: str | None = None) -> Response:
    return _conditional(_to_body(summary), _etag(summary), unless)


def _conditional(body: BaseModel, etag: str, unless: str | None) -> Response:
    headers = {"ETag": etag, "Cache-Control": "no-cache", "Vary": "Authorization, Signature-Input"}
    if is_known(etag, unless):
        return answer_not_modified(headers)
    return JSONResponse(body.model_dump(), headers=headers)


def _to_body(summary: StudySummary) -> StudyBody:
    study = summary.study
    # Every sketch with a public number has at least one record.
    is_secret = study.n_sketches > 0 and study.n_records == 0
    return StudyBody(
        study_id=study.study_id.hex(),
        name=study.name,
        plan_digest=study.plan_digest.hex(),
        state=study.state,
        accept_until=maybe_rfc3339(study.accept_until),
        created=to_rfc3339(study.created),
        n_sketches=study.n_sketches,
        n_records=None if is_secret else study.n_records,
        n_devices=summary.n_devices,
        last_arrival=maybe_rfc3339(summary.last_arrival),
    )


def _etag(summary: StudySummary) -> str:
    """Return what changes with the study: its life cycle first, then what it holds."""
    return f'"{summary.study.version}.{summary.study.n_sketches}.{summary.n_devices}"'


def _version_in(if_match: str | None) -> int | None:
    """Return the life cycle's version in an ETag; one that was never given is stale."""
    if if_match is None:
        raise UnreadVersionError(
            "is missing, so that a change by somebody else could be undone unseen",
            field="If-Match",
            fix="read the study, and send its ETag in If-Match; `*` stands for whatever it is",
        )
    if if_match.strip() == "*":
        return None
    found = _ETAG.match(if_match.strip())
    return int(found.group(1)) if found else 0
