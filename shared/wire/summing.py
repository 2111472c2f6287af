"""Messages between the two servers of a secure sum: deterministic CBOR, answers signed.

Each call may be repeated at any time: the same request has the same effect and answer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from shared.cbor import decode_deterministic, encode_deterministic
from shared.errors import MalformedMessageError, SignatureError
from shared.sharing.batches import BatchKey

SUM_MEDIA_TYPE = "application/vnd.sfumato.sum+cbor"
MOST_HEADERS = 1024
"""Headers in one request."""
_ANSWER_DOMAIN = "sfumato/v1/sum/answer"
_FIX = "send what docs/explanation/secure-sum.md describes"

Verdict = Literal["accepted", "used", "late", "burnt", "header", "box", "closed"]
"""What the helper makes of a report: ``accepted`` (its seed is stored), ``used`` (its sketch is in
another batch, or was sent with another header), ``late``, ``burnt`` (of before the helper was
restored), ``header`` (it is not one of this batch), ``box`` (the seal does not open), ``closed``
(the batch is committed)."""
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

    def encode(self, sign: Callable[[bytes], bytes]) -> bytes:
        """Encode the answer: its signed part, the signature, and the body.

        Parameters
        ----------
        sign
            The helper's Ed25519 signature of given bytes.
        """
        signed = encode_deterministic(self._list_signed())
        return encode_deterministic([signed, sign(signed), self.body])

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
            case [bytes(signed), bytes(signature), bytes(body)]:
                pass
            case _:
                raise _malformed("answer")
        try:
            Ed25519PublicKey.from_public_bytes(identity).verify(signature, signed)
        except (InvalidSignature, ValueError) as error:
            raise _forged("signature") from error
        match decode_deterministic(signed, what="answer"):
            case [str(domain), bytes(batch), bytes(members), int(count), n_records, state, digest]:
                pass
            case _:
                raise _malformed("answer")
        if domain != _ANSWER_DOMAIN or state not in get_args(AnswerState):
            raise _malformed("answer")
        if not (n_records is None or type(n_records) is int):
            raise _malformed("answer")
        if digest != hashlib.sha256(body).digest():
            raise _forged("body")
        return cls(
            batch_id=batch,
            members=members,
            count=count,
            n_records=n_records,
            state=state,
            body=body,
        )

    def _list_signed(self) -> list[Any]:
        digest = hashlib.sha256(self.body).digest()
        stated = (self.batch_id, self.members, self.count, self.n_records, self.state)
        return [_ANSWER_DOMAIN, *stated, digest]


def _are_labels(labels: Mapping[Any, Any]) -> bool:
    return all(isinstance(text, str) for item in labels.items() for text in item)


def _are_bytes(values: list[Any], size: int | None) -> bool:
    return all(isinstance(each, bytes) and size in (None, len(each)) for each in values)


def _malformed(what: str) -> MalformedMessageError:
    return MalformedMessageError("does not have the form of this message", field=what, fix=_FIX)


def _forged(field: str) -> SignatureError:
    return SignatureError(
        "is not the helper's",
        field=field,
        fix="check the address of the helper; somebody may stand in its place",
    )
