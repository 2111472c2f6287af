"""Enrolment code: server, study and token in one line, with a checksum.

::

    SFUMATO:<base32 of deterministic CBOR [1, server, study, token] and its CRC-32, little endian>

All its characters are in the alphanumeric mode of QR codes (ISO/IEC 18004), which takes two thirds
of the room of bytes. It is as secret as the token in it.
"""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass

from sfumato.shared.cbor import decode_deterministic, encode_deterministic
from sfumato.shared.errors import MalformedMessageError, UnsupportedVersionError

CODE_PREFIX = "SFUMATO:"
MAX_CODE_LENGTH = 2000
"""Characters; a QR code holds 4296."""
_VERSION = 1
_STUDY_BYTES = 32
_CHECKSUM_BYTES = 4
_FIX = "copy or scan the whole line again, or ask the operator for `sfumato study token --code`"


@dataclass(frozen=True, kw_only=True)
class EnrolmentCode:
    """Server, study and token, which a device needs to enrol.

    Parameters
    ----------
    server
        The public address, in ASCII.
    study
        The study's identity, 32 bytes.
    token
        The enrolment token; it is secret.
    """

    server: str
    study: bytes
    token: str


def is_enrolment_code(text: str) -> bool:
    """Return whether a text is meant to be a code, rather than a token alone."""
    return text.strip().upper().startswith(CODE_PREFIX)


def encode_enrolment_code(code: EnrolmentCode) -> str:
    """Encode a code as one line.

    Raises
    ------
    MalformedMessageError
        A field cannot stand in a code, or the line would be too long.
    """
    _require_valid(code)
    body = encode_deterministic([_VERSION, code.server, code.study, code.token])
    line = CODE_PREFIX + _to_base32(body + _checksum(body))
    if len(line) > MAX_CODE_LENGTH:
        raise _refusal(f"would be longer than {MAX_CODE_LENGTH} characters", "use a short address")
    return line


def make_page_address(code: EnrolmentCode) -> str:
    """Return the address of the server's page that makes a browser the device of a code.

    The code stands after ``#``, which browsers do not send to a server.
    """
    return f"{code.server.rstrip('/')}/try/#{encode_enrolment_code(code)}"


def decode_enrolment_code(text: str) -> EnrolmentCode:
    """Decode a code; small letters and white space in it do not matter.

    Guarantees: every change within four neighbouring characters is found, for they are at most 32
    bits of the codeword; and any other with probability 1 - 2^-32.

    Raises
    ------
    MalformedMessageError, UnsupportedVersionError
        It is not a code, was copied wrongly, or is of a later version.
    """
    line = "".join(text.split()).upper()
    if not line.startswith(CODE_PREFIX) or len(line) > MAX_CODE_LENGTH:
        raise _refusal(f"must begin with {CODE_PREFIX}, on at most {MAX_CODE_LENGTH} characters")
    body = _strip_checksum(line.removeprefix(CODE_PREFIX))
    match decode_deterministic(body, what="code"):
        case [bool(), *_]:
            raise _refusal("does not begin with its version")
        case [int(version), str(server), bytes(study), str(token)] if version == _VERSION:
            code = EnrolmentCode(server=server, study=study, token=token)
        case [int(version), *_] if version > _VERSION:
            raise UnsupportedVersionError(
                f"is of version {version}, and this release knows {_VERSION}",
                field="code",
                fix="upgrade this program",
            )
        case _:
            raise _refusal("does not hold a server, a study and a token")
    _require_valid(code)
    return code


def _strip_checksum(text: str) -> bytes:
    try:
        data = base64.b32decode(text + "=" * (-len(text) % 8))
    except ValueError:
        data = b""
    body = data[:-_CHECKSUM_BYTES]
    # Bits after the last byte must be zero: a mistake there is one too.
    if _to_base32(data) != text or not body or data[len(body) :] != _checksum(body):
        raise _refusal("was not copied as it was printed: its checksum is wrong")
    return body


def _to_base32(data: bytes) -> str:
    return base64.b32encode(data).decode("ascii").rstrip("=")


def _checksum(body: bytes) -> bytes:
    return zlib.crc32(body).to_bytes(_CHECKSUM_BYTES, "little")


def _require_valid(code: EnrolmentCode) -> None:
    for name in ("server", "token"):
        text = getattr(code, name)
        if not text or not text.isascii() or not text.isprintable() or " " in text:
            raise _refusal(f"needs a {name} of printable ASCII without spaces")
    if len(code.study) != _STUDY_BYTES:
        raise _refusal(f"needs a study of {_STUDY_BYTES} bytes")


def _refusal(rule: str, fix: str = _FIX) -> MalformedMessageError:
    return MalformedMessageError(rule, field="code", fix=fix)
