"""Deterministic CBOR (RFC 8949, section 4.2): one value, one encoding.

Whatever is hashed or signed goes through here, so that a digest never depends on who encoded it.
"""

from __future__ import annotations

from typing import Any

import cbor2

from shared.errors import MalformedMessageError


def encode_deterministic(value: Any) -> bytes:
    """Encode a value in its only allowed form: shortest lengths and floats, sorted keys."""
    return bytes(cbor2.dumps(value, canonical=True))


def decode_deterministic(data: bytes, *, what: str) -> Any:
    """Decode bytes, refusing any that are not the deterministic encoding of their value.

    Parameters
    ----------
    data
        The whole encoding; trailing bytes are refused.
    what
        The name of the thing, for messages.

    Raises
    ------
    MalformedMessageError
        Not CBOR, something follows, or not deterministically encoded.
    """
    try:
        value = cbor2.loads(data)
        again = encode_deterministic(value)
    except (cbor2.CBORError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise MalformedMessageError(
            "is not decodable CBOR", field=what, fix="send the bytes exactly as they were made"
        ) from error
    if again != data:
        raise MalformedMessageError(
            "is not deterministically encoded CBOR",
            field=what,
            fix="encode by RFC 8949 section 4.2 and send nothing after it",
        )
    return value
