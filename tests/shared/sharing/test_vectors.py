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


def read_words(text: str, width: int) -> list[int]:
    data = bytes.fromhex(text)
    return [int.from_bytes(data[i : i + width], "little") for i in range(0, len(data), width)]


def centre(value: int, width: int) -> int:
    half = 1 << (8 * width - 1)
    return (value + half) % (2 * half) - half


def test_the_code_still_makes_the_vectors() -> None:
    assert make_sum_vectors() == VECTORS


@pytest.mark.parametrize("vector", VECTORS["ring"], ids=lambda each: f"w={each['width']}")
def test_words_are_integers_modulo_two_to_the_8w(vector: dict[str, Any]) -> None:
    width = vector["width"]
    values = [int(text) for text in vector["values"]]
    modulus = 1 << 8 * width
    total = [(a + b) % modulus for a, b in zip(values, reversed(values), strict=True)]

    assert read_words(vector["words"], width) == [value % modulus for value in values]
    assert read_words(vector["plus_reversed"], width) == total
    assert [int(text) for text in vector["centred"]] == [centre(each, width) for each in total]


@pytest.mark.parametrize("report", BATCH["reports"])
def test_a_report_is_the_sum_minus_the_stream_of_its_seed(report: dict[str, Any]) -> None:
    width, n = BATCH["width"], BATCH["n_words"]
    parts = ("plan_digest", "sketch_id", "report_id", "seed")
    values = {**report, "plan_digest": BATCH["plan_digest"]}
    said = b"sfumato/v1/sum/mask" + b"".join(bytes.fromhex(values[name]) for name in parts)
    stream = hashlib.shake_256(said).digest(width * n)

    assert report["mask"] == stream.hex()
    mask = read_words(report["mask"], width)
    masked = read_words(report["payload"][: 2 * width * n], width)
    modulus = 1 << 8 * width
    assert masked == [(s - m) % modulus for s, m in zip(report["sums"], mask, strict=True)]
    assert report["payload"][2 * width * n :] == report["blind"]


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


def test_both_halves_open_to_the_sum_and_both_noises() -> None:
    width, modulus = BATCH["width"], 1 << 8 * BATCH["width"]
    reports = BATCH["reports"]
    masks = [read_words(each["mask"], width) for each in reports]
    noises = zip(BATCH["noise_of_helper"], BATCH["noise_of_leader"], strict=True)
    sums = [sum(column) for column in zip(*(each["sums"] for each in reports), strict=True)]

    half = [
        (sum(column) + noise) % modulus
        for column, noise in zip(zip(*masks, strict=True), BATCH["noise_of_helper"], strict=True)
    ]

    assert read_words(BATCH["half_of_helper"], width) == half
    assert BATCH["total"] == [s + h + n for s, (h, n) in zip(sums, noises, strict=True)]


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
