from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from hypothesis import given, settings, strategies as st

from sfumato.shared.errors import ConfigError
from sfumato.shared.wire import require_public_key, verify_proof

VECTORS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[2] / "vectors" / "public_keys.json").read_text()
)
SMALL = [bytes.fromhex(v["key"]) for v in VECTORS if v["what"].startswith("order")]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: f"{v['what']} {v['key'][-2:]}")
def test_the_key_is_taken_or_refused_as_the_vector_says(vector: dict[str, Any]) -> None:
    key = bytes.fromhex(vector["key"])
    if vector["valid"]:
        require_public_key(key)
        return
    with pytest.raises(ConfigError, match=r"public_key: must .* Make a new Ed25519 key"):
        require_public_key(key)


def forge(key: bytes) -> bytes | None:
    """Look for a signature that verifies, made without a private key: S = 0, R of small order."""
    for message in range(40):
        for commitment in SMALL:
            try:
                Ed25519PublicKey.from_public_bytes(key).verify(
                    commitment + bytes(32), bytes([message])
                )
            except (InvalidSignature, ValueError):
                continue
            return bytes([message]) + commitment + bytes(32)
    return None


@pytest.mark.parametrize("key", SMALL, ids=bytes.hex)
def test_a_point_of_small_order_would_verify_what_nobody_signed(key: bytes) -> None:
    forged = forge(key)
    assert forged is not None, "the library refuses such points by itself"
    with pytest.raises(ConfigError, match="public_key"):
        verify_proof(forged[:1], public_key=key, proof=forged[1:])


@settings(max_examples=8)
@given(seed=st.binary(min_size=32, max_size=32))
def test_every_key_that_is_made_of_a_private_one_is_taken(seed: bytes) -> None:
    key = Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()
    require_public_key(key)
    assert forge(key) is None


@given(key=st.binary(max_size=40))
def test_any_bytes_are_taken_or_refused_by_name(key: bytes) -> None:
    field: str | None = None
    try:
        require_public_key(key)
    except ConfigError as error:
        field = error.field
    assert field == "public_key" or len(key) == 32
