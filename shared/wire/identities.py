"""Identities of a study and of the stream that keys the masks; the form of an API key."""

from __future__ import annotations

import hashlib
import re

from shared.cbor import encode_deterministic
from shared.plan import SketchPlan, compute_plan_digest

API_KEY = re.compile(r"sfk_([0-9a-f]{16})_[A-Za-z0-9_-]{43}")
"""The form of an API key; its group is the key's public identity."""


def is_api_key(text: str) -> bool:
    """Return whether text has the form of an API key."""
    return API_KEY.fullmatch(text) is not None


def compute_study_id(name: str, plan: SketchPlan) -> bytes:
    """Return the SHA-256 of the deterministic encoding of ``[name, plan digest]``."""
    return hashlib.sha256(encode_deterministic([name, compute_plan_digest(plan)])).digest()


def encode_stream_id(device: bytes, stream: str) -> bytes:
    """Return the bytes that key the masks of a device's stream: ``device || "/" || stream``.

    The device has 32 bytes, so that no two pairs of device and stream give the same bytes.
    """
    return device + b"/" + stream.encode("utf-8")
