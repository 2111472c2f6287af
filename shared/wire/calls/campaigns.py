"""Calls about campaigns."""

from __future__ import annotations

from sfumato.shared.wire.calls.call import Bare, Call
from sfumato.shared.wire.objects.campaigns import CampaignBody, CampaignRequest, NextPhaseRequest


class Campaigns:
    """Campaigns: studies that follow each other, which devices join once.

    A key of one study makes none of these calls: each is about all studies of the campaign.

    Attributes
    ----------
    begin_campaign
        Let a campaign go on from its first study, or change how it goes on.

        The study's plan states the terms: `sfumato campaign create` makes it.
    get_campaign
        Show a campaign with all its phases, from any study of it.
    next_phase
        Publish the next phase now, without waiting for silent devices.

        Where the answer that it is planned from must be computed first, the server goes on by
        itself then. Refused while windows are open, and where no plan that promises an answer
        follows; `anyway` goes on nevertheless.
    """

    begin_campaign = Call(
        "operator",
        "PUT /v1/studies/{study}/campaign",
        CampaignRequest,
        CampaignBody,
        spans_studies=True,
    )
    get_campaign = Bare(
        "viewer", "GET /v1/studies/{study}/campaign", CampaignBody, spans_studies=True
    )
    next_phase = Call(
        "operator",
        "POST /v1/studies/{study}/campaign/next",
        NextPhaseRequest,
        CampaignBody,
        status=202,
        spans_studies=True,
        problems="decoding-invalid plan-invalid plan-mismatch privacy-invalid store-conflict "
        "wrong-statistic",
    )
