"""One valid message and the key that signed it."""

import hashlib
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sfumato.shared.wire import SketchHeader, device_id_of, encode_message

KEY = Ed25519PrivateKey.from_private_bytes(b"\x01" * 32)
PUBLIC_KEY = KEY.public_key().public_bytes_raw()
PAYLOAD = bytes(range(40))


def make_header(**changes: Any) -> SketchHeader:
    values: dict[str, Any] = {
        "study": b"s" * 32,
        "plan_digest": b"p" * 32,
        "device": device_id_of(PUBLIC_KEY),
        "stream": "weather",
        "sequence": 3,
        "slots": (12, 14),
        "n_records": 2180,
        "n_public": True,
        "report_id": b"r" * 16,
        "payload_length": len(PAYLOAD),
        "payload_digest": hashlib.sha256(PAYLOAD).digest(),
    }
    return SketchHeader(**{**values, **changes})


def make_message(**changes: Any) -> bytes:
    return encode_message(make_header(**changes), PAYLOAD, KEY.sign)
