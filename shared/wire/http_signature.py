"""Signatures of a device on requests other than sketches: a profile of RFC 9421, Ed25519.

The signature covers the method, the path, the time of signing and, where there is a body, its
digest (RFC 9530).
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from sfumato.shared.errors import RequestSignatureError

CLOCK_LEEWAY_S = 300
"""Most seconds by which the clocks of device and server may differ."""

_LABEL = "sfumato"
_INPUT = re.compile(
    rf'^{_LABEL}=(\((?:"[a-z@-]+" ?)+\)'
    r';created=(\d{1,12});keyid="([0-9a-f]{64})";alg="ed25519")$'
)
_SIGNATURE = re.compile(rf"^{_LABEL}=:([A-Za-z0-9+/=]{{88}}):$")
_FIX = "sign the request with the enrolled key, and check this machine's clock"


@dataclass(frozen=True, kw_only=True)
class RequestSignature:
    """A parsed, not yet verified signature of a request."""

    device: bytes
    created: int
    parameters: str
    signature: bytes


def sign_request(
    *,
    method: str,
    path: str,
    body: bytes,
    device: bytes,
    created: int,
    sign: Callable[[bytes], bytes],
) -> dict[str, str]:
    """Return the headers that sign a request.

    Parameters
    ----------
    method, path, body
        The request; ``path`` without the query.
    device
        The device's identity.
    created
        Seconds since 1970-01-01 UTC.
    sign
        The device's Ed25519 signature of given bytes.
    """
    parameters = f'{_components(body)};created={created};keyid="{device.hex()}";alg="ed25519"'
    signature = base64.b64encode(sign(_base(method, path, body, parameters))).decode("ascii")
    headers = {
        "Signature-Input": f"{_LABEL}={parameters}",
        "Signature": f"{_LABEL}=:{signature}:",
    }
    if body:
        headers["Content-Digest"] = _content_digest(body)
    return headers


def parse_request_signature(headers: Mapping[str, str]) -> RequestSignature:
    """Read the signature of a request; ``headers`` is looked up by lower-case names.

    Raises
    ------
    RequestSignatureError
        It is missing or not of this profile.
    """
    stated = _INPUT.match(headers.get("signature-input", ""))
    signed = _SIGNATURE.match(headers.get("signature", ""))
    if not stated or not signed:
        raise RequestSignatureError(
            "is missing or not of this profile", field="Signature", fix=_FIX
        )
    return RequestSignature(
        device=bytes.fromhex(stated.group(3)),
        created=int(stated.group(2)),
        parameters=stated.group(1),
        signature=base64.b64decode(signed.group(1)),
    )


def verify_request(
    signature: RequestSignature,
    *,
    method: str,
    path: str,
    body: bytes,
    public_key: bytes,
    now: float,
) -> None:
    """Check a signature against the request as it arrived.

    Raises
    ------
    RequestSignatureError
        It does not verify, covers too little, or was made more than 300 s from now.
    """
    if abs(now - signature.created) > CLOCK_LEEWAY_S:
        raise RequestSignatureError(
            f"must be made within {CLOCK_LEEWAY_S} s of the server's time: it was made at "
            f"{format_time(signature.created)}, and the server's clock says {format_time(now)}; "
            "one of the two clocks is wrong",
            field="Signature",
            fix="compare both with a third, and set the wrong one",
        )
    covers_all = signature.parameters.startswith(_components(body) + ";")
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(
            signature.signature, _base(method, path, body, signature.parameters)
        )
    except (InvalidSignature, ValueError):
        covers_all = False
    if not covers_all:
        raise RequestSignatureError("does not verify", field="Signature", fix=_FIX)


def _components(body: bytes) -> str:
    return '("@method" "@path" "content-digest")' if body else '("@method" "@path")'


def _content_digest(body: bytes) -> str:
    return f"sha-256=:{base64.b64encode(hashlib.sha256(body).digest()).decode('ascii')}:"


def _base(method: str, path: str, body: bytes, parameters: str) -> bytes:
    """Return the signature base of RFC 9421, section 2.5."""
    lines = [f'"@method": {method.upper()}', f'"@path": {path}']
    if body:
        lines.append(f'"content-digest": {_content_digest(body)}')
    lines.append(f'"@signature-params": {parameters}')
    return "\n".join(lines).encode("ascii")


def format_time(seconds: float) -> str:
    """Write a time as RFC 3339 UTC, also one that a clock is wrong by."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return f"{seconds:.0f} s after 1970"
