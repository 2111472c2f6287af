"""Messages between the two servers of a secure sum: deterministic CBOR, answers signed.

Each call may be repeated at any time: the same request has the same effect and answer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sfumato.shared.cbor import decode_deterministic, encode_deterministic
from sfumato.shared.errors import MalformedMessageError, SignatureError
from sfumato.shared.sharing.batches import BatchKey
from sfumato.shared.wire.cose import (
    encode_signature_input,
    has_protected,
    read_envelope,
    sign_content,
    verify_signature,
)

SUM_MEDIA_TYPE = "application/vnd.sfumato.sum+cbor"
MOST_HEADERS = 1024
"""Headers in one request."""
ANSWER_MEDIA_TYPE = "application/vnd.sfumato.sum-answer+cbor"
_FIX = "send what shared/wire/sum.cddl describes"
_CHECK_HELPER = "check the address of the helper; somebody may stand in its place"

Verdict = Literal["accepted", "used", "early", "late", "burnt", "header", "box", "closed"]
"""What the helper makes of a report: ``accepted`` (it is in the batch), ``used`` (its sketch is in
another batch, or was sent with another header), ``early`` (by the helper's clock its slot has not
begun: it may be sent again), ``late``, ``burnt`` (of before the helper was restored), ``header``
(it is not one of this batch), ``box`` (the seal does not open), ``closed`` (the batch is
committed)."""
AnswerState = Literal["answered", "acknowledged"]


@dataclass(frozen=True, kw_only=True)
class ReportsRequest:
    """Reports for the helper to check: the batch, and at most 1024 signed headers of it."""

    batch: BatchKey
    headers: tuple[bytes, ...]

    def encode(self) -> bytes:
        """Encode the request."""
        key = self.batch
        parts = (key.plan_digest, key.slot, dict(key.labels), key.part, key.number)
        return encode_deterministic(dict(enumerate((*parts, list(self.headers)), 1)))

    @classmethod
    def decode(cls, data: bytes) -> ReportsRequest:
        """Decode a request.

        Raises
        ------
        MalformedMessageError
            It has another form.
        """
        match decode_deterministic(data, what="reports"):
            case {
                1: bytes(digest),
                2: int(slot),
                3: Mapping() as labels,
                4: int(part),
                5: int(number),
                6: [*headers],
                **rest,
            } if not rest and _are_labels(labels) and _are_bytes(headers, None):
                if len(headers) <= MOST_HEADERS and min(slot, part, number) >= 0:
                    key = BatchKey(
                        plan_digest=digest,
                        slot=slot,
                        labels=dict(labels),
                        part=part,
                        number=number,
                    )
                    return cls(batch=key, headers=tuple(headers))
        raise _malformed("reports")


@dataclass(frozen=True, kw_only=True)
class CommitRequest:
    """A batch to answer for: the digest and number of its members, and reports to leave out."""

    members: bytes
    count: int
    without: tuple[bytes, ...] = ()

    def encode(self) -> bytes:
        """Encode the request."""
        return encode_deterministic({1: self.members, 2: self.count, 3: list(self.without)})

    @classmethod
    def decode(cls, data: bytes) -> CommitRequest:
        """Decode a request.

        Raises
        ------
        MalformedMessageError
            It has another form.
        """
        match decode_deterministic(data, what="commit"):
            case {1: bytes(members), 2: int(count), 3: [*without], **rest} if (
                not rest and len(members) == 32 and count >= 0 and _are_bytes(without, 32)
            ):
                return cls(members=members, count=count, without=tuple(without))
        raise _malformed("commit")


@dataclass(frozen=True, kw_only=True)
class SumAnswer:
    """The helper's answer for a batch.

    Parameters
    ----------
    batch_id, members, count
        The batch, the digest and the number of its members.
    n_records
        The sum of their public numbers of records; None where these are secret.
    state
        ``answered``: the body is the helper's half; ``acknowledged``: the opened total.
    body
        As many words as the plan has coordinates.
    """

    batch_id: bytes
    members: bytes
    count: int
    n_records: int | None
    state: AnswerState
    body: bytes

    def encode(self, identity: bytes, sign: Callable[[bytes], bytes]) -> bytes:
        """Encode the answer: a COSE_Sign1 of what it states, and the body.

        Parameters
        ----------
        identity, sign
            The helper's identity, and its Ed25519 signature of given bytes.
        """
        stated = (self.batch_id, self.members, self.count, self.n_records, self.state)
        content = encode_deterministic(
            dict(enumerate((*stated, hashlib.sha256(self.body).digest()), 1))
        )
        key_id = hashlib.sha256(identity).digest()
        envelope = sign_content(ANSWER_MEDIA_TYPE, key_id, content, sign)
        return encode_deterministic([envelope, self.body])

    @classmethod
    def decode(cls, data: bytes, identity: bytes) -> SumAnswer:
        """Decode an answer, and check its signature by the helper's identity.

        Raises
        ------
        MalformedMessageError
            It has another form.
        SignatureError
            The helper did not sign it, or its body was exchanged.
        """
        match decode_deterministic(data, what="answer"):
            case [envelope, bytes(body)] if (parts := read_envelope(envelope)) is not None:
                protected, content, sig = parts
            case _:
                raise _malformed("answer")
        if not has_protected(protected, ANSWER_MEDIA_TYPE, hashlib.sha256(identity).digest()):
            raise SignatureError("is not the helper's", field="signature", fix=_CHECK_HELPER)
        verify_signature(
            identity,
            sig,
            encode_signature_input(protected, content),
            rule="is not the helper's",
            fix=_CHECK_HELPER,
        )
        match decode_deterministic(content, what="answer"):
            case {
                1: bytes(batch),
                2: bytes(members),
                3: int(count),
                4: int() | None as n_records,
                5: ("answered" | "acknowledged") as state,
                6: bytes(digest),
                **rest,
            } if not rest:
                pass
            case _:
                raise _malformed("answer")
        if digest != hashlib.sha256(body).digest():
            raise SignatureError("is not the helper's", field="body", fix=_CHECK_HELPER)
        return cls(
            batch_id=batch,
            members=members,
            count=count,
            n_records=n_records,
            state=state,
            body=body,
        )


def _are_labels(labels: Mapping[Any, Any]) -> bool:
    return all(isinstance(text, str) for item in labels.items() for text in item)


def _are_bytes(values: list[Any], size: int | None) -> bool:
    return all(isinstance(each, bytes) and size in (None, len(each)) for each in values)


def _malformed(what: str) -> MalformedMessageError:
    return MalformedMessageError("does not have the form of this message", field=what, fix=_FIX)
