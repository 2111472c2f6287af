"""Deterministic CBOR (RFC 8949, section 4.2): one value, one encoding.

Everything that is hashed or signed is encoded here, so a digest never depends on the encoder.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import cbor2

from sfumato.shared.errors import MalformedMessageError

# Deeper than any message of this protocol.
_MOST_DEEP = 16
_RATIONAL_TAG = 30
# Tags that the library would convert: shared references of a few bytes that unfold to gigabytes,
# expressions to compile, numbers with huge exponents. This protocol uses only big integers (2, 3)
# and rationals (30). Tags that the library does not know stay tags.
_FOREIGN_TAGS = (
    *(0, 1, 4, 5, 25, 28, 29, 35, 36, 37, 52, 54, 100),
    *(256, 258, 260, 261, 1004, 43000, 55799),
)


def _refuse_tag(_value: Any, _immutable: bool) -> Any:
    raise cbor2.CBORDecodeError("a tag that this protocol does not use")


_PLAIN = frozenset({bool, bytes, float, int, str, type(None)})
_DECODERS = dict.fromkeys(_FOREIGN_TAGS, _refuse_tag)


def encode_deterministic(value: Any) -> bytes:
    """Encode a value in its only valid form: shortest lengths and floats, sorted keys."""
    return bytes(cbor2.dumps(_tag_rationals(value), canonical=True))


def _tag_rationals(value: Any) -> Any:
    """Write each rational as its tag, as the library would.

    The library would first import every module whose types it can encode, ``email`` included.
    """
    # By type, not by isinstance: most values are these, and a number's abstract class is slow.
    if type(value) in _PLAIN:
        return value
    if isinstance(value, Fraction):
        return cbor2.CBORTag(_RATIONAL_TAG, [value.numerator, value.denominator])
    if isinstance(value, dict):
        return {key: _tag_rationals(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_tag_rationals(item) for item in value]
    return value


def decode_deterministic(data: bytes, *, what: str) -> Any:
    """Decode bytes; refuse any other than the deterministic encoding of their value.

    Parameters
    ----------
    data
        The whole encoding; trailing bytes are refused.
    what
        The name of the object, for error messages.

    Raises
    ------
    MalformedMessageError
        Not CBOR, followed by other bytes, nested deeper than 16, with a tag that the protocol does
        not use, or not deterministically encoded.

    Guarantees
    ----------
    Time and memory grow linearly with the length of ``data``, whatever it holds.
    """
    try:
        value = cbor2.loads(
            data, max_depth=_MOST_DEEP, allow_indefinite=False, semantic_decoders=_DECODERS
        )
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
