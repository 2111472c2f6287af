"""Vectors of the secure sum: words, masks, seals, a batch and its total, an accepted plan."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from sfumato.shared.plan import compute_endorsed, compute_plan_digest, encode_plan
from sfumato.shared.sharing.batches import (
    BatchKey,
    add_noise_to_masks,
    choose_part,
    compute_members,
    compute_report,
    open_total,
)
from sfumato.shared.sharing.masks import expand_mask, mask_sum, read_masked
from sfumato.shared.sharing.ring import Ring
from sfumato.shared.wire import PayloadForm, SketchHeader
from sfumato.shared.wire.message import encode_header
from tests.shared.sharing.rfc9180 import seal_by_the_rfc
from tests.shared.sharing.samples import IDENTITY, KEY, make_plan


def derive(name: str, count: int = 32) -> bytes:
    """Return bytes that a name stands for."""
    return hashlib.shake_256(f"sfumato sum vectors/{name}".encode()).digest(count)


def make_ring_vectors() -> list[dict[str, Any]]:
    """Integers to words and back, at the ends of the range and where it wraps."""
    vectors = []
    for width in (2, 5, 8):
        ring, half = Ring(width=width), 1 << (8 * width - 1)
        values = [0, 1, -1, half - 1, -half, half // 3, -(half // 7)]
        words = ring.wrap(np.array(values, dtype=np.int64))
        total = ring.add(words, words[::-1])
        vectors.append(
            {
                "width": width,
                "values": [str(value) for value in values],
                "words": ring.encode(words).hex(),
                "plus_reversed": ring.encode(total).hex(),
                "centred": [str(value) for value in ring.centre(total).tolist()],
            }
        )
    return vectors


def make_batch_vectors() -> dict[str, Any]:
    """Three reports of one plan, from seeds to the opened total."""
    plan = make_plan()
    digest, ring, n_words = compute_plan_digest(plan), plan.ring, plan.n_coordinates
    rng = np.random.default_rng(2013)
    reports: list[dict[str, Any]] = []
    masked, masks, headers = [], [], []
    for ordinal in range(3):
        sums = rng.integers(-40_000, 40_000, size=n_words, dtype=np.int64)
        seed, blind = derive(f"seed {ordinal}"), derive(f"blind {ordinal}")
        header = SketchHeader(
            study=derive("study"),
            plan_digest=digest,
            device=derive(f"device {ordinal}"),
            stream="main",
            sequence=ordinal,
            slots=(3, 3),
            n_records=2,
            n_public=True,
            report_id=derive(f"report {ordinal}", 16),
            payload_length=PayloadForm.of(plan).length,
            payload_digest=bytes(32),
            kind="sum.v1",
        )
        payload = mask_sum(sums, seed, blind, header.mask_context, ring=ring)
        header = replace(header, payload_digest=hashlib.sha256(payload).digest())
        context = header.seal_context
        ephemeral = X25519PrivateKey.from_private_bytes(derive(f"ephemeral {ordinal}"))
        info = b"sfumato/v1/sum/seal" + context
        box = seal_by_the_rfc(plan.helper.key, ephemeral, seed, info, b"")
        sealed = encode_header(replace(header, sealed=box))
        mask = expand_mask(seed, header.mask_context, ring=ring, n_words=n_words)
        masks.append(mask)
        masked.append(read_masked(payload, ring=ring, n_words=n_words))
        headers.append(sealed)
        reports.append(
            {
                "sums": sums.tolist(),
                "seed": seed.hex(),
                "blind": blind.hex(),
                "sketch_id": header.sketch_id.hex(),
                "report_id": header.report_id.hex(),
                "mask": ring.encode(mask).hex(),
                "payload": payload.hex(),
                "header_without_seal": encode_header(header).hex(),
                "context": context.hex(),
                "info": info.hex(),
                "box": box.hex(),
                "header": sealed.hex(),
                "report": compute_report(sealed).hex(),
                "part_of_16": choose_part(header.sketch_id, 16),
            }
        )
    helpers, leaders = rng.integers(-(10**6), 10**6, size=(2, n_words), dtype=np.int64)
    half = add_noise_to_masks(ring.add(*masks), helpers, ring=ring)
    batch = BatchKey(plan_digest=digest, slot=3, labels={}, part=0, number=0)
    return {
        "plan": encode_plan(plan).hex(),
        "plan_digest": digest.hex(),
        "endorsed": compute_endorsed(plan).hex(),
        "endorsement": plan.helper.endorsement.hex(),
        "helper_identity_private": IDENTITY.private_bytes_raw().hex(),
        "helper_private": KEY.private_bytes_raw().hex(),
        "width": ring.width,
        "n_words": n_words,
        "reports": reports,
        "batch": {"slot": 3, "labels": {}, "part": 0, "number": 0},
        "batch_id": batch.batch_id.hex(),
        "members": compute_members(compute_report(each) for each in headers).hex(),
        "noise_of_helper": helpers.tolist(),
        "noise_of_leader": leaders.tolist(),
        "half_of_helper": ring.encode(half).hex(),
        "total": open_total(ring.add(*masked), half, leaders, ring=ring).tolist(),
    }


def make_sum_vectors() -> dict[str, Any]:
    """Return all of them."""
    return {"ring": make_ring_vectors(), "batch": make_batch_vectors()}
