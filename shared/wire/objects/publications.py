"""JSON bodies about published results and the key that signs them."""

from __future__ import annotations

from typing import Annotated

from sfumato.shared.structure import member
from sfumato.shared.wire.objects.declaration import (
    SAMPLE_ID,
    SAMPLE_TIME,
    Hex,
    Signature,
    Switch,
    Time,
    body,
    plain_text,
    request,
)
from sfumato.shared.wire.published import MOST_NAME


@request
class PublicationRequest:
    """A decode to be published."""

    decode_id: Hex = member("The decode; it must have a result.", "63" * 32)
    name: Annotated[str, plain_text(min_length=0, max_length=MOST_NAME)] = member(
        "A name for people.", "winter", default=""
    )
    allow_unusable: Switch = member(
        'Publish even if the verdict is "do not use".', False, default=False
    )


@body
class PublicationBody:
    """A published result."""

    study_id: Hex = member("The study whose devices may apply it.", SAMPLE_ID)
    sequence: int = member(
        "Larger than that of every earlier result; a device never goes back.", 1772366400
    )
    decode_id: Hex = member("The decode.", "63" * 32)
    name: str = member("A name for people.", "winter")
    verdict: str | None = member("The verdict; null if the decoder gives none.", "sound")
    created: Time = member("When it was published.", SAMPLE_TIME)
    key_id: Hex = member("SHA-256 of the key that signed it.", "77" * 32)


@body
class ResultKeyBody:
    """A key that signs published results."""

    public_key: Hex = member("The Ed25519 key, 32 bytes.", "1b" * 32)
    key_id: Hex = member("SHA-256 of the key.", "77" * 32)
    created: Time = member("When the key was made.", SAMPLE_TIME)
    endorsement: Signature | None = member(
        "The signature by which the key before it names it; null for the first, and where that key "
        "may be in other hands.",
        None,
    )


@body
class IdentityBody:
    """The keys that sign published results; the last one signs now."""

    keys: list[ResultKeyBody] = member("All keys, the oldest first; none before the first study.")


@request
class RotationOrder:
    """A replacement of the result key."""

    endorse: Switch = member(
        "Let the old key name its successor, so that devices follow; false where the old key may "
        "be in other hands.",
        True,
        default=True,
    )
