"""Keys of devices: find the signer, change the key.

The identity of a device is the hash of the key that it enrolled with, and never changes. When a
device changes its key, it names the last sketch of each stream that the old key signed. The retired
key verifies these and no later ones, so a thief of it can sign nothing new.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress

from sfumato.aggregator.base.transaction import Transaction
from sfumato.aggregator.resources.devices.record import DeviceRecord, RetiredKeyRecord
from sfumato.aggregator.resources.devices.store import rotate_key
from sfumato.shared.errors import (
    AccessError,
    ConfigError,
    RequestSignatureError,
    SignatureError,
    StoreError,
)
from sfumato.shared.wire import SketchMessage

MOST_RETIRED = 32
"""Retired keys of one device: an upload is verified with each that may have signed it."""


def key_id_of(public_key: bytes) -> bytes:
    """Return the identity of a key, its SHA-256."""
    return hashlib.sha256(public_key).digest()


async def find_signer(
    transaction: Transaction, device: DeviceRecord, message: SketchMessage
) -> RetiredKeyRecord | None:
    """Return the retired key that signed a message; None if it was the present key.

    Raises
    ------
    SignatureError
        No eligible key of the device signed it.
    """
    header = message.header
    try:
        message.verify(device.public_key)
    except SignatureError:
        for retired in await transaction.list_all(RetiredKeyRecord, device_id=device.device_id):
            if header.sequence <= retired.last_sequences.get(header.stream, -1):
                with suppress(SignatureError):
                    message.verify(retired.public_key)
                    return retired
        raise
    return None


def require_valid(device: DeviceRecord, signer: RetiredKeyRecord | None) -> None:
    """Refuse a revoked key or device.

    Raises
    ------
    AccessError
        The key or the device was revoked.
    """
    if device.revoked is not None or (signer is not None and signer.revoked is not None):
        raise AccessError(
            "is signed with a key that was revoked",
            field="device",
            fix="ask the operator for the reason; a new key enrols with a new token",
        )


async def take_key(
    transaction: Transaction,
    device: DeviceRecord,
    *,
    public_key: bytes,
    last_sequences: Mapping[str, int],
    now: float,
) -> None:
    """Change the key of a locked device.

    Raises
    ------
    ConfigError
        The key is or was in use.
    StoreError
        The device has retired too many keys.
    """
    retired = await transaction.list_all(RetiredKeyRecord, device_id=device.device_id)
    key_id = key_id_of(public_key)
    used = {record.key_id for record in retired} | {key_id_of(device.public_key)}
    if key_id in used or await transaction.get(DeviceRecord, key_id) is not None:
        raise ConfigError("is or was in use", field="public_key", fix="make a new key")
    if len(retired) >= MOST_RETIRED:
        raise StoreError(
            f"has {MOST_RETIRED} retired keys, the largest number",
            field="device",
            fix="enrol it again with a token",
        )
    record = RetiredKeyRecord(
        key_id=key_id_of(device.public_key),
        device_id=device.device_id,
        public_key=device.public_key,
        retired=now,
        successor=key_id,
        last_sequences=dict(last_sequences),
    )
    if not await rotate_key(transaction, record, public_key=public_key):
        raise StoreError("is another device's retired key", field="device", fix="enrol it again")


async def repeat_change(
    transaction: Transaction,
    signer: RetiredKeyRecord,
    *,
    public_key: bytes,
    last_sequences: Mapping[str, int],
) -> None:
    """Repeat a change of keys whose answer was lost.

    The device may have signed more with its old key since: the last sequences only grow.

    Raises
    ------
    RequestSignatureError
        Another key replaced the key that signed.
    """
    if signer.successor != key_id_of(public_key):
        raise RequestSignatureError(
            "is by a key that another key replaced",
            field="Signature",
            fix="sign with the device's present key",
        )
    both = signer.last_sequences.keys() | last_sequences.keys()
    furthest = {
        stream: max(signer.last_sequences.get(stream, 0), last_sequences.get(stream, 0))
        for stream in both
    }
    await transaction.change(RetiredKeyRecord, signer.key_id, last_sequences=furthest)
