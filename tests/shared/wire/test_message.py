from typing import Any

import cbor2
import pycddl
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, strategies as st
from pycose.keys.okp import OKPKey
from pycose.messages.sign1message import Sign1Message

from sfumato.shared.cbor import encode_deterministic
from sfumato.shared.errors import (
    MalformedMessageError,
    SignatureError,
    UnsupportedVersionError,
    WireError,
)
from sfumato.shared.wire import (
    compute_sketch_id,
    decode_message,
    encode_header,
    encode_message,
    restore_header,
    shorten_header,
)
from tests.shared.refusals import list_wrong_refusals
from tests.shared.wire.samples import KEY, PAYLOAD, PUBLIC_KEY, cddl_rule, make_header, make_message


@pytest.mark.parametrize("slots", [None, (0, 0), (5, 7)])
def test_a_message_decodes_to_the_header_and_payload_it_was_made_of(slots: Any) -> None:
    message = decode_message(make_message(slots=slots))
    message.verify(PUBLIC_KEY)
    assert message.header == make_header(slots=slots)
    assert message.payload == PAYLOAD


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "sealed.v1"},
        {"report_id": b""},
        {"slots": (1,)},
        {"slots": (-5, 7)},
        {"n_public": False},
        {"n_records": None},
    ],
)
def test_the_cddl_file_refuses_what_the_decoder_refuses(change: dict[str, Any]) -> None:
    data = make_message(**change)
    with pytest.raises(pycddl.ValidationError):
        cddl_rule("sketch.cddl", "sketch-header").validate_cbor(cbor2.loads(data)[0].value[2])
    with pytest.raises(WireError):
        decode_message(data)


def test_the_envelope_is_a_cose_sign1_to_another_implementation() -> None:
    envelope = cbor2.loads(make_message())[0]
    # Its own decoder expects what older releases of cbor2 returned, so it gets the parts as a list.
    message = Sign1Message.from_cose_obj([*envelope.value[:1], {}, *envelope.value[2:]], True)
    message.key = OKPKey(crv="ED25519", x=PUBLIC_KEY)
    assert message.verify_signature()
    message.payload = (message.payload or b"") + b"\x00"
    assert not message.verify_signature()


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_no_flipped_byte_of_a_message_verifies(position: int, mask: int) -> None:
    data = bytearray(make_message())
    data[position % len(data)] ^= mask
    with pytest.raises(WireError):
        decode_message(bytes(data)).verify(PUBLIC_KEY)


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_and_never_crash(data: bytes) -> None:
    with pytest.raises(WireError):
        decode_message(data)


def test_another_devices_key_does_not_verify() -> None:
    other = Ed25519PrivateKey.from_private_bytes(b"\x02" * 32)
    with pytest.raises(SignatureError, match="enrolled key"):
        decode_message(make_message()).verify(other.public_key().public_bytes_raw())


def test_a_payload_exchanged_for_another_of_its_length_does_not_verify() -> None:
    envelope = cbor2.loads(make_message())[0]
    swapped = encode_deterministic([envelope, bytes(len(PAYLOAD))])
    with pytest.raises(SignatureError, match="payload"):
        decode_message(swapped).verify(PUBLIC_KEY)


@pytest.mark.parametrize("change", [{"version": 2}, {"kind": "sealed.v1"}])
def test_versions_and_kinds_of_the_future_are_refused_as_such(change: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedVersionError):
        decode_message(make_message(**change))


def test_a_header_field_that_breaks_its_rule_is_refused_by_name() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"study": b"short"}, "study"),
        ({"plan_digest": "text"}, "plan_digest"),
        ({"stream": ""}, "stream"),
        ({"stream": "x" * 65}, "stream"),
        ({"stream": "a\0b"}, "stream"),
        ({"stream": "a\x1b[2J"}, "stream"),
        ({"stream": "a\u2028b"}, "stream"),
        ({"stream": "a\u202eb"}, "stream"),
        ({"stream": "e\u0301"}, "stream"),
        ({"sequence": -1}, "sequence"),
        ({"sequence": 1 << 63}, "sequence"),
        ({"n_records": 1.5}, "n_records"),
        ({"n_records": None}, "n_records"),
        ({"n_public": 1}, "n_public"),
        ({"n_public": False}, "n_records"),
        ({"n_public": False, "n_records": 0}, "n_records"),
        ({"slots": (5, 4)}, "slots"),
        ({"slots": (-1, 4)}, "slots"),
        ({"slots": (-5, -4)}, "slots"),
        ({"slots": (1, 2, 3)}, "slots"),
        ({"slots": (0, 1 << 60)}, "slots"),
        ({"report_id": b""}, "report_id"),
        ({"payload_length": 39}, "payload"),
    ]
    assert list_wrong_refusals(lambda **change: decode_message(make_message(**change)), cases) == []


def test_the_protected_part_must_name_the_device_of_the_header() -> None:
    tag = cbor2.loads(make_message())[0]
    other = cbor2.loads(encode_message(make_header(device=b"d" * 32), PAYLOAD, KEY.sign))[0]
    mixed = cbor2.CBORTag(18, [other.value[0], {}, tag.value[2], tag.value[3]])
    with pytest.raises(MalformedMessageError, match="protected"):
        decode_message(encode_deterministic([mixed, PAYLOAD]))


def test_a_header_with_a_secret_number_of_records_carries_none() -> None:
    data = make_message(n_records=None, n_public=False)
    header = decode_message(data).header
    assert (header.n_records, header.n_public) == (None, False)
    assert len(data) == len(make_message(n_records=0)), "null and zero have one byte each"


@given(
    st.integers(0, 1 << 62),
    st.none() | st.integers(0, 1 << 62),
    st.none() | st.integers(0, 1 << 62),
)
def test_a_header_without_its_digests_is_restored_byte_for_byte(
    sequence: int, n_records: int | None, block: int | None
) -> None:
    more = {"n_records": n_records, "n_public": n_records is not None, "block": block}
    header = decode_message(make_message(sequence=sequence, **more)).header
    short = shorten_header(header)
    names = ("study", "plan_digest", "device", "payload_digest")
    digests = {name: getattr(header, name) for name in names}
    assert not any(digest in short for digest in digests.values())
    assert restore_header(short, **digests) == encode_header(header)


def test_identities_differ_by_every_part() -> None:
    parts: list[tuple[bytes, bytes, str, int]] = [
        (b"s" * 32, b"d" * 32, "a", 0),
        (b"t" * 32, b"d" * 32, "a", 0),
        (b"s" * 32, b"e" * 32, "a", 0),
        (b"s" * 32, b"d" * 32, "b", 0),
        (b"s" * 32, b"d" * 32, "a", 1),
    ]
    assert len({compute_sketch_id(*part) for part in parts}) == len(parts)
