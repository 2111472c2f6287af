from typing import Any

import cbor2
import pytest
from hypothesis import given, strategies as st
from pycose.keys.okp import OKPKey
from pycose.messages.sign1message import Sign1Message

from sfumato.shared.errors import (
    SignatureError,
    UnsupportedVersionError,
    WireError,
)
from sfumato.shared.wire import (
    PublishedResult,
    compute_key_id,
    decode_published,
    encode_published,
)
from tests.shared.refusals import list_wrong_refusals
from tests.shared.wire.samples import KEY, PUBLIC_KEY, cddl_rule


def make_result(**changes: Any) -> PublishedResult:
    usual: dict[str, Any] = {
        "study": b"s" * 32,
        "plan_digest": b"p" * 32,
        "decode": b"d" * 32,
        "sequence": 1_772_366_400,
        "created": 1_772_366_400,
        "name": "hiver",
        "verdict": ("rough", "the candidates differ"),
        "dimensions": (("pressure", "bar"), ("flow", "")),
        "centroids": ((1.5, -2.0), (0.1, 1e300)),
        "weights": (0.75, 0.25),
        "spreads": ((0.0, 1.0), (0.5, 0.25)),
    }
    return PublishedResult(**(usual | changes))


def make_document(**changes: Any) -> bytes:
    return encode_published(make_result(**changes), PUBLIC_KEY, KEY.sign)


@pytest.mark.parametrize("changes", [{}, {"verdict": None}, {"spreads": None}, {"name": ""}])
def test_a_document_decodes_to_the_result_it_was_made_of(changes: dict[str, Any]) -> None:
    signed = decode_published(make_document(**changes))
    signed.verify(PUBLIC_KEY)
    assert signed.result == make_result(**changes)
    assert signed.key_id == compute_key_id(PUBLIC_KEY)


@pytest.mark.parametrize("changes", [{}, {"verdict": None}, {"spreads": None}])
def test_the_document_is_what_the_cddl_file_describes(changes: dict[str, Any]) -> None:
    data = make_document(**changes)
    protected, _, content, _ = cbor2.loads(data).value
    cddl_rule("result.cddl", "published-result").validate_cbor(data)
    cddl_rule("result.cddl", "protected-header").validate_cbor(protected)
    cddl_rule("result.cddl", "result").validate_cbor(content)


def test_the_document_is_a_cose_sign1_to_another_implementation() -> None:
    envelope = cbor2.loads(make_document())
    message = Sign1Message.from_cose_obj([*envelope.value[:1], {}, *envelope.value[2:]], True)
    message.key = OKPKey(crv="ED25519", x=PUBLIC_KEY)
    assert message.verify_signature()


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_no_flipped_byte_of_a_document_verifies(position: int, flip: int) -> None:
    data = bytearray(make_document())
    data[position % len(data)] ^= flip
    with pytest.raises((WireError, SignatureError)):
        decode_published(bytes(data)).verify(PUBLIC_KEY)


@given(st.binary(max_size=300))
def test_arbitrary_bytes_are_an_error_of_the_wire(data: bytes) -> None:
    with pytest.raises(WireError):
        decode_published(data)


def test_a_member_that_breaks_its_rule_is_named() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"study": b"s"}, "study"),
        ({"sequence": -1}, "sequence"),
        ({"name": "a\nb"}, "name"),
        ({"verdict": ("fine", "x")}, "verdict"),
        ({"dimensions": ()}, "dimensions"),
        ({"weights": ()}, "weights"),
        ({"centroids": ((1.0, 2.0),)}, "centroids"),
        ({"centroids": ((1.0,), (2.0,))}, "centroids"),
        ({"centroids": ((1.0, float("nan")), (2.0, 1.0))}, "centroids"),
        ({"spreads": ((1.0, -1.0), (1.0, 1.0))}, "spreads"),
        ({"created": 1.5}, "created"),
    ]
    assert list_wrong_refusals(lambda **new: decode_published(make_document(**new)), cases) == []


def test_a_later_version_asks_for_an_update() -> None:
    with pytest.raises(UnsupportedVersionError, match="Update the agent"):
        decode_published(make_document(version=2))
