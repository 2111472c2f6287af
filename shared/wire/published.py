"""A published result: a decode that the server signs, so that devices can apply it by themselves.

The document is a COSE_Sign1 over deterministic CBOR. Its sequence number only grows, so that an old
result cannot replace a newer one. Nothing in it depends on who reads it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sfumato.shared.cbor import decode_deterministic, encode_deterministic
from sfumato.shared.core.text import PLAIN_TEXT_RULE, is_plain
from sfumato.shared.errors import MalformedMessageError, UnsupportedVersionError
from sfumato.shared.wire.cose import (
    encode_signature_input,
    has_protected,
    read_envelope,
    sign_content,
    verify_signature,
)

RESULT_MEDIA_TYPE = "application/vnd.sfumato.result+cbor"
RESULT_VERSION = 1
UNUSABLE = "do not use"
"""The verdict on a result that nobody should use."""
VERDICTS = ("sound", "rough", "doubtful", UNUSABLE)
MOST_NAME = 200
_MOST_SENTENCE = 2000
_ENDORSEMENT_DOMAIN = "sfumato/v1/result-key"
_NAMES = (
    *("version", "study", "plan_digest", "decode", "sequence", "created", "name", "verdict"),
    *("dimensions", "centroids", "weights", "spreads"),
)
"""By the keys 1 to 12."""


@dataclass(frozen=True, kw_only=True)
class PublishedResult:
    """The signed part of a published result.

    Parameters
    ----------
    study, plan_digest, decode
        32 bytes each.
    sequence
        Larger than that of every earlier result of the study.
    created
        When it was published, whole seconds since 1970-01-01 UTC.
    name
        A name for people; may be empty.
    verdict
        One of ``VERDICTS`` and a sentence; None where the decoder gives none.
    dimensions
        Name and unit of each axis.
    centroids, weights
        k rows of one number an axis, in data units; and each one's share of the records.
    spreads
        Standard deviations of each cluster's records, on the scale of each axis; or None.
    """

    study: bytes
    plan_digest: bytes
    decode: bytes
    sequence: int
    created: int
    name: str
    verdict: tuple[str, str] | None
    dimensions: tuple[tuple[str, str], ...]
    centroids: tuple[tuple[float, ...], ...]
    weights: tuple[float, ...]
    spreads: tuple[tuple[float, ...], ...] | None
    version: int = RESULT_VERSION

    @property
    def is_usable(self) -> bool:
        """False if the verdict is not to use it."""
        return self.verdict is None or self.verdict[0] != UNUSABLE


@dataclass(frozen=True, kw_only=True)
class SignedResult:
    """A decoded document; nothing in it is to be trusted before :meth:`verify`."""

    result: PublishedResult
    key_id: bytes
    content: bytes
    protected: bytes
    signature: bytes

    def verify(self, public_key: bytes) -> None:
        """Check the signature.

        Raises
        ------
        SignatureError
            It is not that of the key.
        """
        verify_signature(
            public_key,
            self.signature,
            encode_signature_input(self.protected, self.content),
            rule="of the published result does not verify with the server's result key",
            fix="pull it again; if that does not help, ask the study's operator",
        )


def compute_key_id(public_key: bytes) -> bytes:
    """Return the identity of a result key, the SHA-256 of its public half."""
    return hashlib.sha256(public_key).digest()


def encode_published(
    result: PublishedResult, public_key: bytes, sign: Callable[[bytes], bytes]
) -> bytes:
    """Sign a result and encode the document.

    Parameters
    ----------
    public_key, sign
        The server's result key: its public half, and its Ed25519 signature of given bytes.
    """
    document = {key: getattr(result, name) for key, name in enumerate(_NAMES, 1)}
    content = encode_deterministic(document)
    key_id = compute_key_id(public_key)
    return encode_deterministic(sign_content(RESULT_MEDIA_TYPE, key_id, content, sign))


def decode_published(data: bytes) -> SignedResult:
    """Decode a document; :meth:`SignedResult.verify` comes after.

    Raises
    ------
    MalformedMessageError
        Not a document of this form; the error names the part.
    UnsupportedVersionError
        A version that this release does not know.
    """
    parts = read_envelope(decode_deterministic(data, what="result"))
    if parts is None:
        raise _malformed("result", "must be a tagged COSE_Sign1")
    protected, content, s = parts
    key_id = _read_key_id(protected)
    stated = has_protected(protected, RESULT_MEDIA_TYPE, key_id)
    _require(stated, "protected", "must name EdDSA, the document's type and the key")
    return SignedResult(
        result=_result_from(decode_deterministic(content, what="content")),
        key_id=key_id,
        content=content,
        protected=protected,
        signature=s,
    )


def encode_endorsement_input(*, key_id: bytes, public_key: bytes) -> bytes:
    """Return the bytes that a result key signs to name its successor.

    Parameters
    ----------
    key_id
        The identity of the key that is replaced.
    public_key
        The next key.
    """
    return encode_deterministic([_ENDORSEMENT_DOMAIN, key_id, public_key])


def verify_endorsement(public_key: bytes, *, successor: bytes, signature: bytes) -> None:
    """Check that a result key has named its successor.

    Raises
    ------
    SignatureError
        It has not.
    """
    verify_signature(
        public_key,
        signature,
        encode_endorsement_input(key_id=compute_key_id(public_key), public_key=successor),
        rule="of the old result key does not name this successor",
        fix="ask the study's operator for the server's key",
    )


def _read_key_id(protected: bytes) -> bytes:
    stated = decode_deterministic(protected, what="protected")
    key_id = stated.get(4) if isinstance(stated, Mapping) else None
    _require(isinstance(key_id, bytes) and len(key_id) == 32, "protected", "must name the key")
    assert isinstance(key_id, bytes)
    return key_id


def _result_from(document: Any) -> PublishedResult:
    _require(isinstance(document, Mapping), "content", "must be a map")
    if document.get(1) != RESULT_VERSION:
        raise UnsupportedVersionError(
            f"this release knows version {RESULT_VERSION}", field="result", fix="update the agent"
        )
    keys = set(range(1, len(_NAMES) + 1))
    _require(document.keys() == keys, "content", f"must have the keys 1 to {len(_NAMES)}")
    values = {name: document[key] for key, name in enumerate(_NAMES, 1)}
    for name in ("study", "plan_digest", "decode"):
        value = values[name]
        _require(isinstance(value, bytes) and len(value) == 32, name, "must be 32 bytes")
    for name in ("sequence", "created"):
        is_count = type(values[name]) is int and 0 <= values[name] < 1 << 53
        _require(is_count, name, "must be an integer, 0 or more")
    name = values["name"]
    _require(_is_text(name, MOST_NAME), "name", PLAIN_TEXT_RULE)
    axes = _read_axes(values["dimensions"])
    weights = _read_row(values["weights"], "weights", None)
    _require(len(weights) >= 1, "weights", "must be at least one")
    values |= {
        "verdict": _read_verdict(values["verdict"]),
        "dimensions": axes,
        "weights": weights,
        "centroids": _read_rows(values["centroids"], "centroids", len(weights), len(axes)),
    }
    if values["spreads"] is not None:
        spreads = _read_rows(values["spreads"], "spreads", len(weights), len(axes))
        _require(all(s >= 0.0 for row in spreads for s in row), "spreads", "must be 0 or more")
        values["spreads"] = spreads
    return PublishedResult(**values)


def _read_verdict(value: Any) -> tuple[str, str] | None:
    match value:
        case None:
            return None
        case [str(word), str(sentence)] if word in VERDICTS and _is_text(sentence, _MOST_SENTENCE):
            return word, sentence
    raise _malformed("verdict", f"must be null, or one of {', '.join(VERDICTS)} and a sentence")


def _read_axes(value: Any) -> tuple[tuple[str, str], ...]:
    _require(isinstance(value, Sequence) and len(value) >= 1, "dimensions", "must be a list")
    axes = []
    for axis in value:
        match axis:
            case [str(name), str(unit)] if _is_text(name, MOST_NAME) and _is_text(unit, MOST_NAME):
                axes.append((name, unit))
            case _:
                raise _malformed("dimensions", "must be pairs of a name and a unit")
    return tuple(axes)


def _read_rows(value: Any, name: str, n_rows: int, n_columns: int) -> tuple[tuple[float, ...], ...]:
    is_list = isinstance(value, list) and len(value) == n_rows
    _require(is_list, name, "must have one row for each weight")
    return tuple(_read_row(row, name, n_columns) for row in value)


def _read_row(value: Any, name: str, n_columns: int | None) -> tuple[float, ...]:
    _require(isinstance(value, list), name, "must be a list of numbers")
    _require(n_columns in (None, len(value)), name, "must have one number for each dimension")
    are_numbers = all(type(x) is float and math.isfinite(x) for x in value)
    _require(are_numbers, name, "must be finite floating-point numbers")
    return tuple(value)


def _is_text(value: object, most: int) -> bool:
    return isinstance(value, str) and len(value) <= most and is_plain(value)


def _require(holds: bool, field: str, rule: str) -> None:
    if not holds:
        raise _malformed(field, rule)


def _malformed(field: str, rule: str) -> MalformedMessageError:
    return MalformedMessageError(rule, field=field, fix="see shared/wire/result.cddl")
