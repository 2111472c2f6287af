"""Campaigns: studies that follow each other."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import APIRouter

from sfumato.aggregator.api.dependencies import Caller, ServicesDep, StudyId
from sfumato.aggregator.api.serving import serves
from sfumato.aggregator.resources.campaigns.service.campaigns import PhaseStatus
from sfumato.shared.plan import PHASE_NAMES
from sfumato.shared.wire.calls.campaigns import Campaigns
from sfumato.shared.wire.objects.campaigns import (
    CampaignBody,
    CampaignRequest,
    NextPhaseRequest,
    PhaseBody,
)
from sfumato.shared.wire.objects.declaration import to_rfc3339

router = APIRouter(tags=["campaigns"])


@serves(router, Campaigns.begin_campaign)
async def begin_campaign(
    study: StudyId, body: CampaignRequest, services: ServicesDep, key: Caller
) -> CampaignBody:
    found = await services.campaigns.begin(
        study,
        n_devices=body.n_devices,
        is_automatic=body.is_automatic,
        chooses=body.chooses,
        actor=key.key_id,
    )
    return _to_body(found)


@serves(router, Campaigns.get_campaign)
async def get_campaign(study: StudyId, services: ServicesDep) -> CampaignBody:
    return _to_body(await services.campaigns.describe(study))


@serves(router, Campaigns.next_phase)
async def next_phase(
    study: StudyId, body: NextPhaseRequest, services: ServicesDep, key: Caller
) -> CampaignBody:
    return _to_body(await services.campaigns.advance(study, anyway=body.anyway, actor=key.key_id))


def _to_body(phases: Sequence[PhaseStatus]) -> CampaignBody:
    records = [each.record for each in phases if each.record is not None]
    names = [each.study.study.name for each in phases if each.study is not None]
    decodes = [each.decode_id for each in records if each.decode_id is not None]
    return CampaignBody(
        study_id=records[0].first.hex(),
        name=names[0],
        devices=phases[0].devices,
        n_devices=records[0].n_devices,
        is_automatic=records[0].is_automatic,
        phases=[_to_phase(each) for each in phases],
        answer=decodes[-1].hex() if decodes else None,
    )


def _to_phase(status: PhaseStatus) -> PhaseBody:
    phase, study, record = status.phase, status.study, status.record
    return PhaseBody(
        number=status.number,
        name=PHASE_NAMES[phase.statistic],
        epsilon=str(phase.epsilon),
        delta=str(phase.delta),
        begins=to_rfc3339(float(phase.window.origin)),
        ends=to_rfc3339(float(phase.window.end or 0)),
        study_id=None if study is None else study.study.study_id.hex(),
        n_devices=0 if study is None else study.n_devices,
        n_finished=status.n_finished,
        n_sketches=0 if study is None else study.study.n_sketches,
        decode_id=record.decode_id.hex() if record and record.decode_id else None,
        waits=status.waits,
        problem=None if record is None or record.problem is None else dict(record.problem),
    )
