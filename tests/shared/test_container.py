"""The container of files: what was written comes back whole, or not at all."""

import pytest
from hypothesis import given, strategies as st

from sfumato.shared.container import decode_container, encode_container
from sfumato.shared.errors import MalformedMessageError, UnsupportedVersionError

MEMBERS = st.dictionaries(
    st.sampled_from(["a", "sums", "name"]), st.integers() | st.binary() | st.lists(st.integers())
)
ASKED = {"field": "release", "fix": "copy it again"}


@given(MEMBERS)
def test_members_come_back(members: dict[str, object]) -> None:
    assert decode_container(encode_container("made", 3, members), "made", 3, **ASKED) == members


@given(MEMBERS, st.data())
def test_no_damaged_byte_is_read(members: dict[str, object], data: st.DataObject) -> None:
    whole = bytearray(encode_container("made", 3, members))
    whole[data.draw(st.integers(0, len(whole) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(MalformedMessageError) as refused:
        decode_container(bytes(whole), "made", 3, **ASKED)
    assert (refused.value.field, refused.value.fix) == ("release", "copy it again")


@given(MEMBERS, st.integers(0, 200))
def test_no_part_of_a_file_is_read(members: dict[str, object], length: int) -> None:
    whole = encode_container("made", 3, members)
    with pytest.raises(MalformedMessageError):
        decode_container(whole[: min(length, len(whole) - 1)], "made", 3, **ASKED)


def test_another_format_and_another_version_are_told_apart() -> None:
    made = encode_container("made", 3, {})
    with pytest.raises(MalformedMessageError, match="another format"):
        decode_container(made, "other", 3, **ASKED)
    with pytest.raises(UnsupportedVersionError, match="version 3, and this release reads"):
        decode_container(made, "made", 4, **ASKED)
