"""Releases that their owner signs."""

import errno
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from hypothesis import given, strategies as st

from sfumato.analyst.estimators import CompressiveKMeans, MomentMixture, TreeKMeans
from sfumato.analyst.estimators.held import decode_release
from sfumato.analyst.estimators.signature import (
    create_owner_key,
    open_release,
    read_owner_key,
    sign_release,
)
from sfumato.lab import NetworkMixture
from sfumato.learning.clustering.methods.release import ClusterRelease
from sfumato.shared.errors import ConfigError, MalformedMessageError, SignatureError

RECORDS = np.random.default_rng(0).random((3000, 2))
PARTS = (RECORDS[:, 0] > 0.5).astype(int)
LEVEL: dict[str, Any] = {"epsilon": "4", "delta": "1e-6", "bounds": (0, 1)}
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
OWNER = KEY.public_key().public_bytes_raw()

SM2 = b"""-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqBHM9VAYItBG0wawIBAQQgvL1HYxeEd+2NdcjJ
MuA+Gjgeh11TeP2GUmAuJ08wvmShRANCAAR9fVs0AxbDPkl0KZs5EkeQssI7B2iL
BToOcwy/Y20n/MQzeWYeuOzRYLTDSzIkZDdVzUdWfA1O7IW1MgtwDcEH
-----END PRIVATE KEY-----
"""
"""A key of a curve that the library reads and does not support; made for this test."""


class Bytes:
    def encode(self) -> bytes:
        return b"\xa1\x01\x02"


SIGNED = sign_release(Bytes(), KEY)


def test_a_mixture_of_moments_that_its_owner_signed_is_read_and_samples() -> None:
    model = MomentMixture([0, 1], **LEVEL).fit(RECORDS, PARTS)
    signed = sign_release(model.release_, KEY)
    again = MomentMixture.decode(signed, owner=OWNER.hex())
    assert again.release_.digest == model.release_.digest
    assert again.sample(3)[0].shape == (3, 2)


def test_releases_of_clusters_and_of_sketches_are_signed_alike() -> None:
    tree = TreeKMeans(2, epsilon="4", bounds=(0, 1)).fit(RECORDS)
    opened = open_release(sign_release(tree.release_, KEY), OWNER)
    assert ClusterRelease.decode(opened).digest == tree.release_.digest
    sketch = CompressiveKMeans(2, epsilon="4", bounds=(0, 1), scale="bounds").fit(RECORDS)
    opened = open_release(sign_release(sketch.release_, KEY), OWNER)
    assert decode_release(opened).digest == sketch.release_.digest


@given(st.integers(0, len(SIGNED) - 1), st.integers(1, 255))
def test_a_signed_release_with_any_byte_changed_is_refused(place: int, change: int) -> None:
    changed = bytearray(SIGNED)
    changed[place] ^= change
    with pytest.raises((SignatureError, MalformedMessageError)):
        open_release(bytes(changed), OWNER)


def test_a_release_that_another_signed_is_refused() -> None:
    other = Ed25519PrivateKey.generate()
    with pytest.raises(SignatureError, match="is not signed by this owner"):
        open_release(SIGNED, other.public_key().public_bytes_raw())


def test_a_release_without_a_signature_is_read_only_where_no_owner_is_stated() -> None:
    assert open_release(b"\xa0") == b"\xa0"
    with pytest.raises(SignatureError, match="has no signature"):
        open_release(b"\xa0", OWNER)


@pytest.mark.parametrize("owner", ["", "zz", "aa" * 31, b"short"])
def test_an_owner_that_is_no_public_key_is_refused(owner: str | bytes) -> None:
    with pytest.raises(ConfigError, match="owner: must be an Ed25519 public key"):
        open_release(SIGNED, owner)


def test_a_key_is_written_once_for_its_owner_alone_and_read_again(tmp_path: Path) -> None:
    path = tmp_path / "owner.key"
    public = create_owner_key(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_owner_key(path).public_key().public_bytes_raw().hex() == public
    with pytest.raises(ConfigError, match="cannot be written"):
        create_owner_key(path)


def test_a_file_without_such_a_key_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "owner.key"
    with pytest.raises(ConfigError, match="cannot be read"):
        read_owner_key(path)
    path.write_bytes(b"nothing")
    with pytest.raises(ConfigError, match="must hold an Ed25519 private key"):
        read_owner_key(path)
    path.write_bytes(SM2)
    with pytest.raises(ConfigError, match="must hold an Ed25519 private key"):
        read_owner_key(path)
    other = generate_private_key(SECP256R1())
    path.write_bytes(other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    with pytest.raises(ConfigError, match="must hold an Ed25519 private key"):
        read_owner_key(path)


def test_a_mixture_of_networks_that_its_owner_signed_is_read_and_samples() -> None:
    pytest.importorskip("dp_accounting")
    model = NetworkMixture([0, 1], **LEVEL, n_hidden=4, n_latent=2, n_steps=2).fit(RECORDS, PARTS)
    again = NetworkMixture.decode(sign_release(model.release_, KEY), owner=OWNER)
    assert again.release_.digest == model.release_.digest


@given(st.integers(0, len(SIGNED) - 1))
def test_a_signed_release_that_is_cut_off_is_refused(length: int) -> None:
    with pytest.raises((SignatureError, MalformedMessageError)):
        open_release(SIGNED[:length], OWNER)


def test_a_signed_release_is_not_read_without_its_owner() -> None:
    with pytest.raises(SignatureError, match="is signed, and no owner is stated"):
        open_release(SIGNED)
    with pytest.raises(SignatureError, match="is signed, and no owner is stated"):
        MomentMixture.decode(SIGNED)


def test_a_key_that_the_disk_does_not_take_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(ConfigError, match="cannot be written: No space left"):
        create_owner_key(tmp_path / "owner.key")
    assert list(tmp_path.iterdir()) == []
