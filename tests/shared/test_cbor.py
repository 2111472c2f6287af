import cbor2
import pytest
from hypothesis import given, strategies as st

from sfumato.shared.cbor import decode_deterministic, encode_deterministic
from sfumato.shared.errors import MalformedMessageError

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(VALUES)
def test_what_is_encoded_decodes_to_itself(value: object) -> None:
    assert decode_deterministic(encode_deterministic(value), what="value") == value


@given(st.binary(max_size=64))
def test_any_bytes_decode_or_are_refused_and_never_crash(data: bytes) -> None:
    try:
        value = decode_deterministic(data, what="value")
    except MalformedMessageError:
        return
    assert encode_deterministic(value) == data


@pytest.mark.parametrize(
    "data",
    [
        b"\x18\x01",  # one, in two bytes
        b"\xa2\x61b\x01\x61a\x02",  # keys out of order
        b"\x9f\x01\xff",  # an array of indefinite length
        b"\x01\x01",  # something after the end
        cbor2.dumps(1.5)[:1] + b"\x3f\xf8" + b"\x00" * 6,  # a double where a half would do
        b"\x81" * 2000 + b"\x01",  # nested two thousand deep
        b"\x9b\x7f" + b"\xff" * 7,  # an array of 2^63 items
    ],
)
def test_other_encodings_and_bombs_are_refused(data: bytes) -> None:
    with pytest.raises(MalformedMessageError, match="value"):
        decode_deterministic(data, what="value")
