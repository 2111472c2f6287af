"""Container of what is stored or sent as a file: its format, version, members, and a digest.

One map of deterministic CBOR: ``format``, ``version``, the members of the format, and ``digest``,
the SHA-256 of the encoding of the map without it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from sfumato.shared.cbor import decode_deterministic, encode_deterministic
from sfumato.shared.errors import MalformedMessageError, UnsupportedVersionError


def encode_container(name: str, version: int, members: Mapping[str, Any]) -> bytes:
    """Encode members of a format; the digest covers every other byte."""
    document = {"format": name, "version": version, **members}
    digest = hashlib.sha256(encode_deterministic(document)).digest()
    return encode_deterministic({**document, "digest": digest})


def decode_container(
    data: bytes, name: str, version: int, *, field: str, fix: str
) -> dict[str, Any]:
    """Return the members of a container, and nothing of a damaged one.

    Parameters
    ----------
    field, fix
        Name of the bytes in errors, and where whole ones come from.

    Raises
    ------
    MalformedMessageError
        Damaged, cut short, or of another format.
    UnsupportedVersionError
        Another release wrote it.
    """
    try:
        found = decode_deterministic(data, what=field)
    except MalformedMessageError:
        found = None
    if not isinstance(found, dict) or found.pop("format", None) != name:
        raise MalformedMessageError("is damaged, or of another format", field=field, fix=fix)
    found.pop("digest", None)
    stated = found.pop("version", None)
    if not isinstance(stated, int) or encode_container(name, stated, found) != data:
        raise MalformedMessageError(
            "is damaged: its digest is not that of what it holds", field=field, fix=fix
        )
    if stated != version:
        raise UnsupportedVersionError(
            f"is of version {stated}, and this release reads version {version}",
            field=field,
            fix="update this software",
        )
    return found
