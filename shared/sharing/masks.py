"""Masks of single sums, and the payloads that carry masked sums."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from sfumato.shared.arrays import Integers
from sfumato.shared.errors import MalformedMessageError
from sfumato.shared.sharing.ring import Ring, Words

SEED_BYTES = 32
BLIND_BYTES = 32
_DOMAIN = b"sfumato/v1/sum/mask"


@dataclass(frozen=True, kw_only=True)
class MaskContext:
    """The release that a mask belongs to: an equal seed in another release gives another mask.

    Parameters
    ----------
    plan_digest, sketch_id
        32 bytes each.
    report_id
        16 bytes.
    """

    plan_digest: bytes
    sketch_id: bytes
    report_id: bytes


def expand_mask(seed: bytes, context: MaskContext, *, ring: Ring, n_words: int) -> Words:
    """Expand a seed to a mask with SHAKE-256: shape ``(n_words,)``.

    Parameters
    ----------
    seed
        32 bytes.
    """
    state = hashlib.shake_256(
        _DOMAIN + context.plan_digest + context.sketch_id + context.report_id + seed
    )
    return ring.decode(state.digest(n_words * ring.width), n_words=n_words)


def mask_sum(
    sums: Integers, seed: bytes, blind: bytes, context: MaskContext, *, ring: Ring
) -> bytes:
    """Return the payload of a masked sum: ``S - mask`` as words, then the blind.

    The blind keeps the payload's digest, which others see, from telling whether a guess of S is
    right to somebody who knows the mask.

    Parameters
    ----------
    sums
        The exact sum S: shape ``(n_words,)``.
    seed, blind
        32 random bytes each, used for this payload alone.
    """
    mask = expand_mask(seed, context, ring=ring, n_words=sums.size)
    return ring.encode(ring.subtract(ring.wrap(sums), mask)) + blind


def read_masked(payload: bytes, *, ring: Ring, n_words: int) -> Words:
    """Return the words of a payload: shape ``(n_words,)``.

    Raises
    ------
    MalformedMessageError
        The payload has another length.
    """
    size = n_words * ring.width
    if len(payload) != size + BLIND_BYTES:
        raise MalformedMessageError(
            f"must have {size + BLIND_BYTES} bytes and has {len(payload)}",
            field="payload",
            fix="send what the plan's payload_width and statistic say",
        )
    return ring.decode(payload[:size], n_words=n_words)
