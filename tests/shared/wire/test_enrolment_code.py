import base64
import re
import zlib

import pytest
from hypothesis import given, strategies as st

from sfumato.shared.cbor import encode_deterministic
from sfumato.shared.errors import MalformedMessageError, UnsupportedVersionError, WireError
from sfumato.shared.wire import (
    CODE_PREFIX,
    EnrolmentCode,
    decode_enrolment_code,
    encode_enrolment_code,
    is_enrolment_code,
)

CODE = EnrolmentCode(
    server="https://sketches.example.org", study=bytes(range(32)), token="sfe_" + "aB3_-" * 8
)
LINE = encode_enrolment_code(CODE)
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
PRINTED = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=100)
CODES = st.builds(
    EnrolmentCode, server=PRINTED, study=st.binary(min_size=32, max_size=32), token=PRINTED
)


def make_line(document: object) -> str:
    body = encode_deterministic(document)
    data = body + zlib.crc32(body).to_bytes(4, "little")
    return CODE_PREFIX + base64.b32encode(data).decode().rstrip("=")


@given(CODES)
def test_a_code_is_one_line_for_qr_and_comes_back_as_it_was(code: EnrolmentCode) -> None:
    line = encode_enrolment_code(code)
    assert re.fullmatch(r"[0-9A-Z $%*+\-./:]+", line)
    assert is_enrolment_code(line)
    assert decode_enrolment_code(line) == code


@given(CODES, st.data())
def test_a_code_may_be_typed_in_small_letters_and_in_groups(
    code: EnrolmentCode, data: st.DataObject
) -> None:
    line = encode_enrolment_code(code)
    width = data.draw(st.integers(1, 20))
    typed = " ".join(line[i : i + width] for i in range(0, len(line), width)).lower()
    assert decode_enrolment_code(f" {typed}\n") == code


@given(st.data())
def test_every_change_within_four_neighbouring_characters_is_found(data: st.DataObject) -> None:
    at = data.draw(st.integers(len(CODE_PREFIX), len(LINE) - 4))
    typed = data.draw(st.text(ALPHABET + "0189", min_size=4, max_size=4))
    changed = LINE[:at] + typed + LINE[at + 4 :]
    if changed != LINE:
        with pytest.raises(MalformedMessageError, match="code"):
            decode_enrolment_code(changed)


def test_every_missing_doubled_swapped_or_wrong_character_is_found() -> None:
    for i in range(len(LINE)):
        changes = {LINE[:i] + LINE[i + 1 :], LINE[:i] + LINE[i] + LINE[i:]}
        changes |= {LINE[:i] + LINE[i : i + 2][::-1] + LINE[i + 2 :]}
        changes |= {LINE[:i] + letter + LINE[i + 1 :] for letter in ALPHABET}
        for changed in changes - {LINE}:
            with pytest.raises(MalformedMessageError, match="code"):
                decode_enrolment_code(changed)


@given(st.text() | st.text(ALPHABET).map(CODE_PREFIX.__add__))
def test_anything_else_is_refused_by_name(text: str) -> None:
    with pytest.raises(WireError, match="code"):
        decode_enrolment_code(text)


@pytest.mark.parametrize(
    "document",
    [
        [],
        7,
        [1, "https://a", bytes(31), "t"],
        [1, "https://a", bytes(32), "t", 0],
        [1, 'https://a"\n', bytes(32), "t"],
        [1, "", bytes(32), "t"],
        [True, "https://a", bytes(32), "t"],
        [1, "https://a", bytes(32), "t" * 3000],
    ],
)
def test_a_code_with_a_true_checksum_over_nonsense_is_refused(document: object) -> None:
    with pytest.raises(WireError, match="code"):
        decode_enrolment_code(make_line(document))


def test_a_later_version_is_told_from_a_mistake() -> None:
    with pytest.raises(UnsupportedVersionError, match="version 2"):
        decode_enrolment_code(make_line([2, "a", "b"]))


def test_what_does_not_fit_is_refused_when_it_is_made() -> None:
    with pytest.raises(MalformedMessageError, match="2000 characters"):
        encode_enrolment_code(EnrolmentCode(server="h" * 2000, study=bytes(32), token="t"))
