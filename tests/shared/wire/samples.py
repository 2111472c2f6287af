"""One valid message and the key that signed it, and the rules of the CDDL files."""

import hashlib
import re
from pathlib import Path
from typing import Any

import pycddl
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import sfumato.shared.wire
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


def cddl_rule(file: str, name: str) -> pycddl.Schema:
    # The validator does not look inside byte strings, so each encoded part is checked by its rule.
    text = (Path(sfumato.shared.wire.__file__).parent / file).read_text(encoding="utf-8")
    return pycddl.Schema(f"root = {name}\n" + re.sub(r"bstr \.cbor [a-z-]+", "bstr", text))
