"""The published vectors of the secure sum, read by themselves: integers of Python and hashlib."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from sfumato.shared.plan import decode_plan
from sfumato.shared.sharing.seals import open_seal
from sfumato.shared.wire import decode_header
from tests.vectors.sum_vectors import make_sum_vectors

VECTORS: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "vectors" / "sum.json").read_text(encoding="utf-8")
)
BATCH = VECTORS["batch"]


def test_the_code_still_makes_the_vectors() -> None:
    assert make_sum_vectors() == VECTORS


@pytest.mark.parametrize("report", BATCH["reports"])
def test_a_seal_is_bound_to_the_header_without_it(report: dict[str, Any]) -> None:
    bare = bytes.fromhex(report["header_without_seal"])
    private = X25519PrivateKey.from_private_bytes(bytes.fromhex(BATCH["helper_private"]))

    assert report["context"] == hashlib.sha256(bare).hexdigest()
    assert report["info"] == (b"sfumato/v1/sum/seal" + hashlib.sha256(bare).digest()).hex()
    header = decode_header(bytes.fromhex(report["header"]))
    assert header.sealed is not None
    opened = open_seal(header.sealed, private, header.seal_context)
    assert opened.hex() == report["seed"]
    assert report["part_of_16"] == int(report["sketch_id"][:16], 16) % 16


def test_the_members_are_digested_in_ascending_order() -> None:
    reports = [hashlib.sha256(bytes.fromhex(each["header"])).digest() for each in BATCH["reports"]]
    assert [each.hex() for each in reports] == [each["report"] for each in BATCH["reports"]]

    joined = b"sfumato/v1/sum/members" + b"".join(sorted(reports))

    assert BATCH["members"] == hashlib.sha256(joined).hexdigest()


def test_the_plan_is_endorsed_by_its_helper() -> None:
    identity = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(BATCH["helper_identity_private"]))
    plan = decode_plan(bytes.fromhex(BATCH["plan"]))

    assert identity.sign(bytes.fromhex(BATCH["endorsed"])).hex() == BATCH["endorsement"]
    assert plan.helper.endorsement.hex() == BATCH["endorsement"]
