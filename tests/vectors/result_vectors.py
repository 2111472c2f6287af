"""Vectors of published results: signed documents, a chain of keys, and the clusters of records."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sfumato.device_agent.agent.clusters import Labeller
from sfumato.shared.plan import SketchPlan, compute_plan_digest, encode_plan
from sfumato.shared.wire import (
    PublishedResult,
    compute_key_id,
    compute_study_id,
    encode_endorsement_input,
    encode_published,
)
from tests.vectors.wire_plans import MASKED, MIXED, MIXED_FEATURES, RECORDS, Record
from tests.vectors.wire_vectors import STUDY_NAME, _read_records

_KEYS = [
    Ed25519PrivateKey.from_private_bytes(hashlib.sha256(b"result key %d" % i).digest())
    for i in range(2)
]
_PUBLIC = [key.public_key().public_bytes_raw() for key in _KEYS]


def make_result_vectors() -> dict[str, Any]:
    """Keys, each but the first named by the one before it; and documents with records' clusters."""
    endorsed = encode_endorsement_input(key_id=compute_key_id(_PUBLIC[0]), public_key=_PUBLIC[1])
    mixed = ((40.0, 20.0, 0.5, 0.25, 0.25), (90.0, 9000.0, 0.0, 0.0, 1.0))
    return {
        "keys": [
            {"public_key": _PUBLIC[0].hex(), "endorsement": None},
            {"public_key": _PUBLIC[1].hex(), "endorsement": _KEYS[0].sign(endorsed).hex()},
        ],
        "results": [
            _make_result(
                "numbers",
                MASKED,
                RECORDS,
                centroids=((39.0, 0.6), (72.0, 0.3)),
                spreads=((2.0, 0.125), (0.0, 0.0)),
                verdict=("rough", "the candidates differ"),
            ),
            _make_result(
                "columns of every kind, no spreads", MIXED_FEATURES, MIXED, centroids=mixed
            ),
        ],
    }


def _make_result(
    name: str, plan: SketchPlan, records: list[Record], **fields: Any
) -> dict[str, Any]:
    usual: dict[str, Any] = {
        "study": compute_study_id(STUDY_NAME, plan),
        "plan_digest": compute_plan_digest(plan),
        "decode": bytes(range(32)),
        "sequence": 1_772_366_400,
        "created": 1_772_366_400,
        "name": "hiver",
        "verdict": None,
        "dimensions": tuple((axis.name, axis.unit) for axis in plan.axes),
        "weights": (0.75, 0.25),
        "spreads": None,
    }
    result = PublishedResult(**(usual | fields))
    labels = Labeller(plan, result).find(np.asarray(_read_records(plan, records)))
    far = [None] * len(records) if labels.are_far is None else labels.are_far.tolist()
    found = zip(
        labels.clusters.tolist(), labels.distances.tolist(), far, labels.are_outside, strict=True
    )
    return {
        "name": name,
        "plan": encode_plan(plan).hex(),
        "document": encode_published(result, _PUBLIC[0], _KEYS[0].sign).hex(),
        "public_key": _PUBLIC[0].hex(),
        "centroids": result.centroids,
        "spreads": result.spreads,
        "verdict": result.verdict,
        "records": [list(record) for record in records],
        "clusters": [
            {
                "cluster": cluster,
                "distance": distance if cluster else None,
                "is_far": is_far if cluster else None,
                "is_outside": bool(is_outside),
            }
            for cluster, distance, is_far, is_outside in found
        ],
    }
