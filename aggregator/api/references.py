"""Look up what a name or the first digits of an id refer to."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from sfumato.aggregator.api.dependencies import Caller, ServicesDep
from sfumato.aggregator.api.serving import serves
from sfumato.aggregator.database.references import Identified
from sfumato.aggregator.resources.keys.service.keys import require_scope
from sfumato.shared.core.text import PLAIN_TEXT
from sfumato.shared.wire.calls.studies import Studies
from sfumato.shared.wire.objects.studies import ReferenceBody

router = APIRouter(tags=["studies"])


@serves(router, Studies.find_reference)
async def find_reference(
    kind: Annotated[Identified, Query(description="what it refers to")],
    reference: Annotated[
        str,
        Query(
            pattern=PLAIN_TEXT,
            max_length=200,
            description="the first 6 or more digits of its id, or the name of a study or device",
        ),
    ],
    services: ServicesDep,
    key: Caller,
) -> ReferenceBody:
    if kind == "device":
        require_scope(key, "analyst")
        found = await services.references.find_device(reference, within=key.study_id)
    else:
        found = await services.references.find(kind, reference, within=key.study_id)
    return ReferenceBody(kind=kind, identity=found)
