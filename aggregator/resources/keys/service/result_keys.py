"""The keys that sign published results; any server of the database signs with the last one."""

from __future__ import annotations

from collections.abc import Sequence

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sfumato.aggregator.base.transaction import Transaction
from sfumato.aggregator.resources.keys.record import ResultKeyRecord
from sfumato.shared.wire import compute_key_id, encode_endorsement_input


async def require_result_keys(transaction: Transaction, *, now: float) -> Sequence[ResultKeyRecord]:
    """Return the result keys, the present one last; make the first if there is none."""
    keys = await transaction.list_all(ResultKeyRecord)
    if not keys:
        # Where another server was faster, its key is the one.
        await transaction.add(make_result_key(0, now))
        keys = await transaction.list_all(ResultKeyRecord)
    return keys


def make_result_key(
    number: int, now: float, *, endorsed_by: ResultKeyRecord | None = None
) -> ResultKeyRecord:
    """Draw a key, which another may name as its successor."""
    private = Ed25519PrivateKey.generate()
    public_key = private.public_key().public_bytes_raw()
    endorsement = None
    if endorsed_by is not None:
        told = encode_endorsement_input(
            key_id=compute_key_id(endorsed_by.public_key), public_key=public_key
        )
        endorsement = Ed25519PrivateKey.from_private_bytes(endorsed_by.private_key).sign(told)
    return ResultKeyRecord(
        number=number,
        public_key=public_key,
        private_key=private.private_bytes_raw(),
        created=now,
        endorsement=endorsement,
    )
