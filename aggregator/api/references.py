"""Look up what a name or the first digits of an id refer to."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from sfumato.aggregator.api.dependencies import ANALYST, ServicesDep
from sfumato.aggregator.api.responses import WITH_KEY, WITH_PATH, describe_problems
from sfumato.aggregator.storage import Identified
from sfumato.shared.core.text import PLAIN_TEXT
from sfumato.shared.wire.objects.studies import ReferenceBody
from sfumato.shared.wire.references import require_beginning

router = APIRouter(prefix="/v1", tags=["studies"])


@router.get("/references", dependencies=ANALYST, responses=describe_problems(*WITH_KEY, *WITH_PATH))
async def find_reference(
    kind: Annotated[Identified, Query(description="what it refers to")],
    reference: Annotated[
        str,
        Query(
            pattern=PLAIN_TEXT,
            max_length=200,
            description="the first 6 or more digits of its id, or the name of a study",
        ),
    ],
    services: ServicesDep,
) -> ReferenceBody:
    """Find the only object that a name or first digits refer to.

    Where none fits, or several do, the problem lists the candidates.
    """
    if kind == "study":
        found = await services.references.find_study(reference)
    else:
        found = await services.references.find(kind, require_beginning(reference, kind))
    return ReferenceBody(kind=kind, identity=found)
