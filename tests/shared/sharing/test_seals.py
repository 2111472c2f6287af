"""Seals of mask seeds."""

from __future__ import annotations

import hashlib
import os

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from sfumato.shared.errors import SealError
from sfumato.shared.sharing.seals import is_usable_key, open_seal, seal_seed
from tests.shared.sharing.rfc9180 import open_by_the_rfc, seal_by_the_rfc

KEY = X25519PrivateKey.from_private_bytes(hashlib.sha256(b"seal").digest())
PUBLIC = KEY.public_key().public_bytes_raw()
CONTEXT = hashlib.sha256(b"context").digest()
SEED = b"k" * 32

# RFC 9180, appendix A.2.1: DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, ChaCha20-Poly1305, base mode.
RFC_INFO = bytes.fromhex("4f6465206f6e2061204772656369616e2055726e")
RFC_ENC = bytes.fromhex("1afa08d3dec047a643885163f1180476fa7ddb54c6a8029ea33f95796bf2ac4a")
RFC_PRIVATE = bytes.fromhex("8057991eef8f1f1af18f4a9491d16a1ce333f695d4db8e38da75975c4478e0fb")
RFC_PUBLIC = bytes.fromhex("4310ee97d88cc1f088a5576c77ab0cf5c3ac797f3d95139c6c84b5429c59662a")
RFC_TEXT = bytes.fromhex("4265617574792069732074727574682c20747275746820626561757479")
RFC_AAD = bytes.fromhex("436f756e742d30")
RFC_CIPHERTEXT = bytes.fromhex(
    "1c5250d8034ec2b784ba2cfd69dbdb8af406cfe3ff938e131f0def8c8b60b4db21993c62ce81883d2dd1b51a28"
)


def test_our_reading_of_the_rfc_opens_its_vector() -> None:
    private = X25519PrivateKey.from_private_bytes(RFC_PRIVATE)

    opened = open_by_the_rfc(private, RFC_ENC, RFC_CIPHERTEXT, RFC_INFO, RFC_AAD)

    assert private.public_key().public_bytes_raw() == RFC_PUBLIC
    assert opened == RFC_TEXT


def test_a_seal_is_a_message_of_the_rfc_that_is_bound_by_its_info() -> None:
    box = seal_seed(SEED, PUBLIC, CONTEXT)

    opened = open_by_the_rfc(KEY, box[:32], box[32:], b"sfumato/v1/sum/seal" + CONTEXT, b"")

    assert len(box) == 80
    assert opened == SEED
    assert open_seal(box, KEY, CONTEXT) == SEED


def test_a_seal_that_was_made_by_the_rfc_alone_opens() -> None:
    ephemeral = X25519PrivateKey.from_private_bytes(b"\x07" * 32)

    box = seal_by_the_rfc(PUBLIC, ephemeral, SEED, b"sfumato/v1/sum/seal" + CONTEXT, b"")

    assert open_seal(box, KEY, CONTEXT) == SEED


def test_a_seal_opens_with_no_other_key_context_or_bytes() -> None:
    box = seal_seed(SEED, PUBLIC, CONTEXT)
    other = X25519PrivateKey.generate()
    broken = bytes([box[0] ^ 1]) + box[1:]

    for each, key, context in (
        (box, other, CONTEXT),
        (box, KEY, bytes(32)),
        (broken, KEY, CONTEXT),
        (box[:-1] + bytes([box[-1] ^ 1]), KEY, CONTEXT),
        (box[:-1], KEY, CONTEXT),
        (b"", KEY, CONTEXT),
        (bytes(80), KEY, CONTEXT),
        (os.urandom(80), KEY, CONTEXT),
    ):
        with pytest.raises(SealError, match="sealed: does not open"):
            open_seal(each, key, context)


def test_a_seal_of_something_else_than_a_seed_is_refused() -> None:
    box = seal_seed(SEED[:31], PUBLIC, CONTEXT)

    with pytest.raises(SealError, match="sealed: does not open"):
        open_seal(box + b"\x00", KEY, CONTEXT)
    with pytest.raises(SealError, match="sealed: does not open"):
        open_seal(box, KEY, CONTEXT)


# The points of small order on Curve25519, in canonical form.
SMALL = [
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0100000000000000000000000000000000000000000000000000000000000000",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
    "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
]


@pytest.mark.parametrize("key", SMALL)
def test_a_key_of_small_order_is_refused(key: str) -> None:
    assert is_usable_key(PUBLIC)
    assert not is_usable_key(bytes.fromhex(key))
    with pytest.raises(SealError, match="helper_key: cannot be used"):
        seal_seed(SEED, bytes.fromhex(key), CONTEXT)
