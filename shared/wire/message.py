"""A sketch message: a signed header that carries the digest of a detached payload.

The header alone is a COSE_Sign1 (RFC 9052, Ed25519), so that a second party can verify who released
what, when, over how many records, without the vector.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from sfumato.shared.cbor import decode_deterministic, encode_deterministic
from sfumato.shared.core.text import PLAIN_TEXT_RULE, is_plain
from sfumato.shared.errors import MalformedMessageError, SignatureError, UnsupportedVersionError
from sfumato.shared.sharing.masks import MaskContext
from sfumato.shared.sharing.seals import BOX_BYTES, compute_context
from sfumato.shared.wire.cose import (
    encode_protected,
    encode_signature_input,
    has_protected,
    read_envelope,
    sign_content,
    verify_signature,
)

SKETCH_MEDIA_TYPE = "application/vnd.sfumato.sketch+cbor"
HEADER_MEDIA_TYPE = "application/vnd.sfumato.sketch-header+cbor"
VERSION = 1
KINDS = ("local.v1", "phase.v1", "sum.v1")
"""Kinds of releases, as plans name them."""
MAX_STREAM_NAME = 64
STREAM_NAME_RULE = f"must have 1 to {MAX_STREAM_NAME} characters; {PLAIN_TEXT_RULE}"
_SUM = "sum.v1"
# By the keys 1 to 15; `block` may be absent.
_NAMES = (
    *("version", "kind", "study", "plan_digest", "device", "stream", "sequence", "slots"),
    *("n_records", "n_public", "report_id", "sealed", "payload_length", "payload_digest"),
    "block",
)
_BLOCK_KEY = 15
_DIGESTS = ("study", "plan_digest", "device", "payload_digest")
_ALWAYS = frozenset(range(1, _BLOCK_KEY))


def is_stream_name(name: object) -> bool:
    """Return whether something may be the name of a stream."""
    return isinstance(name, str) and 1 <= len(name) <= MAX_STREAM_NAME and is_plain(name)


@dataclass(frozen=True, kw_only=True)
class SketchHeader:
    """The header that a device signs about one sketch.

    Parameters
    ----------
    study, plan_digest, device
        32 bytes each.
    stream, sequence
        The source on the device, and the sketch's number in it: 0, 1, 2, ...
    slots
        First and last slot that the sketch covers, for windows by time; None for windows by count,
        which carry no times.
    n_records, n_public
        Records in the sketch, and whether that number is public. Where it is not (add-remove-one)
        ``n_records`` is None: the payload ends with the number, scaled and noised.
    report_id
        16 random bytes.
    payload_length, payload_digest
        Length and SHA-256 of the payload.
    block
        The block of features in the payload; None where a sketch carries all of them.
    kind
        The plan's kind of release, which says how the payload is read.
    sealed
        Of ``sum.v1``: the seed of the payload's mask, sealed to the helper; None elsewhere.
    """

    study: bytes
    plan_digest: bytes
    device: bytes
    stream: str
    sequence: int
    slots: tuple[int, int] | None
    n_records: int | None
    n_public: bool
    report_id: bytes
    payload_length: int
    payload_digest: bytes
    block: int | None = None
    version: int = VERSION
    kind: str = KINDS[0]
    sealed: bytes | None = None

    @cached_property
    def sketch_id(self) -> bytes:
        """The identity of the sketch."""
        return compute_sketch_id(self.study, self.device, self.stream, self.sequence)

    @property
    def mask_context(self) -> MaskContext:
        """The release that the mask of a ``sum.v1`` payload belongs to."""
        return MaskContext(
            plan_digest=self.plan_digest, sketch_id=self.sketch_id, report_id=self.report_id
        )

    @property
    def seal_context(self) -> bytes:
        """The context that a ``sum.v1`` seal is bound to: all of the header but the seal."""
        return compute_context(encode_header(replace(self, sealed=None)))


@dataclass(frozen=True, kw_only=True)
class SketchMessage:
    """A decoded message; nothing in it is to be trusted before :meth:`verify`."""

    header: SketchHeader
    payload: bytes
    header_bytes: bytes
    protected_bytes: bytes
    signature: bytes

    def verify(self, public_key: bytes) -> None:
        """Check the signature over the header, and the payload against the header.

        Raises
        ------
        SignatureError
            Either does not match.
        """
        _verify(public_key, self.signature, self.protected_bytes, self.header_bytes)
        if hashlib.sha256(self.payload).digest() != self.header.payload_digest:
            raise SignatureError(
                "does not have the digest that the header states",
                field="payload",
                fix="send the stored bytes again; they were altered on the way",
            )


def verify_header(
    public_key: bytes, *, device: bytes, header_bytes: bytes, signature: bytes
) -> None:
    """Check the signature over a header that was kept without its message.

    Raises
    ------
    SignatureError
        It does not verify.
    """
    _verify(public_key, signature, encode_protected(HEADER_MEDIA_TYPE, device), header_bytes)


def _verify(public_key: bytes, signature: bytes, protected: bytes, header_bytes: bytes) -> None:
    verify_signature(
        public_key,
        signature,
        encode_signature_input(protected, header_bytes),
        rule="does not verify with the device's enrolled key",
        fix="send the bytes exactly as they were signed, or enrol the device again",
    )


def compute_sketch_id(study: bytes, device: bytes, stream: str, sequence: int) -> bytes:
    """Return the SHA-256 of the deterministic encoding of ``[study, device, stream, sequence]``."""
    return hashlib.sha256(encode_deterministic([study, device, stream, sequence])).digest()


def encode_message(header: SketchHeader, payload: bytes, sign: Callable[[bytes], bytes]) -> bytes:
    """Sign a header and encode the message ``[COSE_Sign1, payload]``.

    Parameters
    ----------
    header, payload
        What is released.
    sign
        The device's Ed25519 signature of given bytes.
    """
    envelope = sign_content(HEADER_MEDIA_TYPE, header.device, encode_header(header), sign)
    return encode_deterministic([envelope, payload])


def encode_header(header: SketchHeader) -> bytes:
    """Encode the signed part of a message; without a seal, what a seal is bound to."""
    return encode_deterministic(_header_to_map(header))


def shorten_header(header: SketchHeader) -> bytes:
    """Encode a header without its four digests, two thirds of its bytes."""
    document = _header_to_map(header)
    kept = {key: value for key, value in document.items() if _NAMES[key - 1] not in _DIGESTS}
    return encode_deterministic(kept)


def restore_header(short: bytes, **digests: bytes) -> bytes:
    """Return the bytes of a header that was shortened.

    Parameters
    ----------
    digests
        ``study``, ``plan_digest``, ``device`` and ``payload_digest``.

    Raises
    ------
    MalformedMessageError
        It is not a shortened header.
    """
    kept = decode_deterministic(short, what="header")
    _require(isinstance(kept, dict), "header", "must be a map")
    more = {_NAMES.index(name) + 1: digests[name] for name in _DIGESTS}
    return encode_deterministic({**kept, **more})


def decode_message(data: bytes) -> SketchMessage:
    """Decode a message; :meth:`SketchMessage.verify` comes after.

    Raises
    ------
    MalformedMessageError
        Not a message of this form; the error names the part.
    UnsupportedVersionError
        A version or kind that this release does not know.
    """
    match decode_deterministic(data, what="message"):
        case [envelope, bytes(payload)] if (parts := read_envelope(envelope)) is not None:
            protected, header_bytes, sig = parts
        case _:
            raise MalformedMessageError(
                "must be an array of a tagged COSE_Sign1 and a byte string",
                field="message",
                fix="see shared/wire/sketch.cddl",
            )
    header = decode_header(header_bytes)
    _require_protected(protected, header.device)
    _require(len(payload) == header.payload_length, "payload", "must have the length in the header")
    return SketchMessage(
        header=header,
        payload=payload,
        header_bytes=header_bytes,
        protected_bytes=protected,
        signature=sig,
    )


def decode_header(data: bytes) -> SketchHeader:
    """Decode the signed part of a message by itself. Raises as :func:`decode_message`."""
    return _header_from_map(decode_deterministic(data, what="header"))


def _require(holds: bool, field: str, rule: str) -> None:
    if not holds:
        raise MalformedMessageError(rule, field=field, fix="see shared/wire/sketch.cddl")


def _require_protected(protected: bytes, device: bytes) -> None:
    holds = has_protected(protected, HEADER_MEDIA_TYPE, device)
    _require(holds, "protected", "must name EdDSA, the header's type and the device")


def _header_to_map(header: SketchHeader) -> dict[int, Any]:
    values = {**vars(header), "sealed": [] if header.sealed is None else [header.sealed]}
    document = {key: values[name] for key, name in enumerate(_NAMES, 1)}
    if header.block is None:
        del document[_BLOCK_KEY]
    return document


# By hand rather than from the declaration, which takes three times as long: a server reads one for
# every upload.
def _header_from_map(document: Any) -> SketchHeader:
    _require(isinstance(document, dict), "header", "must be a map")
    if document.get(1) != VERSION or document.get(2) not in KINDS:
        raise UnsupportedVersionError(
            f"this release knows version {VERSION} and the kinds {', '.join(KINDS)}",
            field="header",
            fix="update the aggregator, or use a plan that it offers",
        )
    _require(
        document.keys() - {_BLOCK_KEY} == _ALWAYS, "header", "must have the keys 1 to 14, or to 15"
    )
    values = {name: document.get(key) for key, name in enumerate(_NAMES, 1)}
    sizes = dict.fromkeys(("study", "plan_digest", "device", "payload_digest"), 32)
    for name, size in {**sizes, "report_id": 16}.items():
        value = values[name]
        _require(isinstance(value, bytes) and len(value) == size, name, f"must be {size} bytes")
    _require(is_stream_name(values["stream"]), "stream", STREAM_NAME_RULE)
    _require(type(values["n_public"]) is bool, "n_public", "must be true or false")
    for name in ("sequence", "n_records", "payload_length", "block"):
        value = values[name]
        if name == "block" and _BLOCK_KEY not in document:
            continue
        if name == "n_records" and not values["n_public"]:
            _require(value is None, name, "must be null where n_public is false")
            continue
        _require(type(value) is int and 0 <= value < 1 << 63, name, "must be an integer, 0 or more")
    values["sealed"] = _sealed_from(values["sealed"], is_summed=values["kind"] == _SUM)
    return SketchHeader(**{**values, "slots": _slots_from(values["slots"])})


def _sealed_from(value: Any, *, is_summed: bool) -> bytes | None:
    match value:
        case [] if not is_summed:
            return None
        case [bytes(box)] if is_summed and len(box) == BOX_BYTES:
            return box
    rule = f"one byte string of {BOX_BYTES} bytes" if is_summed else "an empty array"
    raise MalformedMessageError(
        f"must be {rule} for this kind", field="sealed", fix="see shared/wire/sketch.cddl"
    )


def _slots_from(value: Any) -> tuple[int, int] | None:
    match value:
        case None:
            return None
        case [first, last] if type(first) is int and type(last) is int:
            if 0 <= first <= last < 1 << 53:
                return first, last
    raise MalformedMessageError(
        "must be null, or the first and last slot in order, none before the plan's origin",
        field="slots",
        fix="see shared/wire/sketch.cddl",
    )
