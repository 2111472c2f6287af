"""The bytes of the wire, written again from ``shared/wire/README.md``, whose sections they name."""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import cbor2
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

if TYPE_CHECKING:
    from tests.system.stranger import plans


class RefusedError(Exception):
    """Something is not what the document says."""


def require(holds: bool, what: str) -> None:
    if not holds:
        raise RefusedError(what)


def sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def to_cbor(value: Any) -> bytes:
    return cbor2.dumps(value, canonical=True)


def to_base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


@dataclass(frozen=True)
class Key:
    """An Ed25519 key."""

    private: bytes

    @property
    def public(self) -> bytes:
        return Ed25519PrivateKey.from_private_bytes(self.private).public_key().public_bytes_raw()

    @property
    def key_id(self) -> bytes:
        return sha256(self.public)

    def sign(self, data: bytes) -> bytes:
        return Ed25519PrivateKey.from_private_bytes(self.private).sign(data)


def read_code(text: str) -> tuple[str, bytes, str]:
    """3. Return server, study and token of an enrolment code."""
    line = "".join(text.split()).upper()
    require(line.startswith("SFUMATO:"), "prefix")
    encoded = line.removeprefix("SFUMATO:")
    data = base64.b32decode(encoded + "=" * (-len(encoded) % 8))
    require(base64.b32encode(data).decode("ascii").rstrip("=") == encoded, "bits at the end")
    body, crc = data[:-4], data[-4:]
    require(zlib.crc32(body).to_bytes(4, "little") == crc, "checksum")
    version, server, study, token = cbor2.loads(body)
    require(version == 1, "version")
    return server, study, token


def study_id_input(name: str, plan_digest: bytes) -> bytes:
    return to_cbor([name, plan_digest])


def stream_id(device: bytes, stream: str) -> bytes:
    return device + b"/" + stream.encode("utf-8")


def proof_input(token: str, study: bytes, public_key: bytes, labels: Mapping[str, str]) -> bytes:
    """5."""
    return to_cbor(["sfumato/v1/enrolment", token, study, public_key, dict(labels)])


def rotation_input(device: bytes, public_key: bytes, last_sequences: Mapping[str, int]) -> bytes:
    """12."""
    return to_cbor(["sfumato/v1/rotation", device, public_key, dict(last_sequences)])


def signature_base(method: str, path: str, body: bytes, parameters: str) -> bytes:
    """6."""
    lines = [f'"@method": {method}', f'"@path": {path}']
    if body:
        lines.append(f'"content-digest": {content_digest(body)}')
    return "\n".join([*lines, f'"@signature-params": {parameters}']).encode("ascii")


def signature_parameters(device: bytes, created: int, body: bytes) -> str:
    components = '("@method" "@path" "content-digest")' if body else '("@method" "@path")'
    return f'{components};created={created};keyid="{device.hex()}";alg="ed25519"'


def content_digest(body: bytes) -> str:
    return f"sha-256=:{to_base64(sha256(body))}:"


def sign_headers(
    key: Key, device: bytes, method: str, path: str, body: bytes, created: int
) -> dict[str, str]:
    parameters = signature_parameters(device, created, body)
    signature = key.sign(signature_base(method, path, body, parameters))
    headers = {
        "Signature-Input": f"sfumato={parameters}",
        "Signature": f"sfumato=:{to_base64(signature)}:",
    }
    return headers | ({"Content-Digest": content_digest(body)} if body else {})


def encode_header(
    plan: plans.Plan,
    *,
    study: bytes,
    device: bytes,
    stream: str,
    sequence: int,
    slots: Sequence[int] | None,
    n_records: int | None,
    report_id: bytes,
    payload: bytes,
    block: int | None = None,
) -> bytes:
    """9."""
    values = [
        1,
        plan["release"]["kind"],
        study,
        plan.digest,
        device,
        stream,
        sequence,
        None if slots is None else list(slots),
        n_records,
        not plan.counts,
        report_id,
        [],
        len(payload),
        sha256(payload),
    ] + ([] if block is None else [block])
    return to_cbor(dict(enumerate(values, start=1)))


def encode_protected(device: bytes) -> bytes:
    return to_cbor({1: -8, 3: "application/vnd.sfumato.sketch-header+cbor", 4: device})


def signature_input(protected: bytes, header: bytes) -> bytes:
    return to_cbor(["Signature1", protected, b"", header])


def encode_message(key: Key, device: bytes, header: bytes, payload: bytes) -> bytes:
    protected = encode_protected(device)
    signature = key.sign(signature_input(protected, header))
    return to_cbor([cbor2.CBORTag(18, [protected, {}, header, signature]), payload])


def sketch_id_input(study: bytes, device: bytes, stream: str, sequence: int) -> bytes:
    """10."""
    return to_cbor([study, device, stream, sequence])


def sketch_path(study: bytes, sketch_id: bytes) -> str:
    return f"/v1/studies/{study.hex()}/sketches/{sketch_id.hex()}"
