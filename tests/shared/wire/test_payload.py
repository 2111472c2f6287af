import numpy as np
import pytest
from hypothesis import given, strategies as st

from sfumato.shared.errors import MalformedMessageError, WireError
from sfumato.shared.wire import decode_payload, encode_payload


@given(st.integers(1, 8), st.data())
def test_coordinates_of_any_width_survive_the_round_trip(width: int, data: st.DataObject) -> None:
    limit = 1 << (8 * width - 1)
    values = data.draw(st.lists(st.integers(-limit, limit - 1), max_size=20))
    sums = np.array(values, dtype=np.int64)
    payload = encode_payload(sums, width)
    assert len(payload) == width * len(values)
    assert decode_payload(payload, width=width, n_coordinates=len(values)).tolist() == values


def test_coordinates_are_little_endian_twos_complement() -> None:
    assert encode_payload(np.array([1, -2, 258], dtype=np.int64), 3) == bytes.fromhex(
        "010000feffff020100"
    )


@pytest.mark.parametrize("value", [-(1 << 15) - 1, 1 << 15])
def test_a_coordinate_beyond_the_width_is_refused(value: int) -> None:
    with pytest.raises(WireError, match="does not fit 2 bytes"):
        encode_payload(np.array([value], dtype=np.int64), 2)


def test_a_payload_of_another_length_is_refused() -> None:
    with pytest.raises(MalformedMessageError, match="must have 8 bytes and has 7"):
        decode_payload(bytes(7), width=4, n_coordinates=2)
