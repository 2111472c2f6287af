"""Calls about publications."""

from __future__ import annotations

from sfumato.shared.wire import RESULT_MEDIA_TYPE
from sfumato.shared.wire.calls.call import Bare, Call, Pages
from sfumato.shared.wire.objects.publications import (
    IdentityBody,
    PublicationBody,
    PublicationRequest,
    RotationOrder,
)


class Publications:
    """Published results, and the key that signs them.

    Attributes
    ----------
    publish_result
        Sign the result of a decode for the study's devices, which may then label records locally.
    get_published
        Return the latest published result as signed bytes; the same for every reader.
    list_publications
        List the published results of a study, the oldest first.
    get_identity
        Show the keys that sign published results; a device pins the last one when it enrols.
    rotate_identity
        Replace the key that signs published results.
    """

    publish_result = Call(
        "analyst",
        "POST /v1/studies/{study}/published",
        PublicationRequest,
        PublicationBody,
        status=201,
        location="/v1/studies/{study_id}/published",
        names="decode_id=decode",
        problems="decoding-invalid store-conflict",
    )
    get_published = Bare(
        "reader", "GET /v1/studies/{study}/published", bytes, media=RESULT_MEDIA_TYPE
    )
    list_publications = Pages("viewer", "GET /v1/studies/{study}/publications", PublicationBody)
    get_identity = Bare("public", "GET /v1/identity", IdentityBody)
    rotate_identity = Call(
        "operator",
        "POST /v1/identity/rotate",
        RotationOrder,
        IdentityBody,
        status=201,
        problems="precondition-failed",
    )
