from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given, strategies as st

from sfumato.shared.core.text import PLAIN_TEXT, is_plain

BIDIRECTIONAL = {"LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI"}
SEEN = {
    "Cf": "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"
    + "".join(map(chr, range(0x13430, 0x13440)))
}
"""Signs that enclose or join other letters, and are seen with them."""


def test_what_no_font_shows_is_in_no_name() -> None:
    """By this machine's own tables, where they are newer than the rule."""
    for code in range(0x110000):
        character = chr(code)
        category = unicodedata.category(character)
        is_marked = unicodedata.bidirectional(character) in BIDIRECTIONAL
        is_unseen = category in ("Cc", "Cf", "Zl", "Zp") and character not in SEEN["Cf"]
        if is_marked or is_unseen:
            assert not is_plain(f"a{character}b"), f"U+{code:04X}"


@pytest.mark.parametrize(
    "text", ["meter", "Zähler", "温度", "датчик", "μm", "µm", "°F", "Ångström", "ضغط", "😀", ""]
)
def test_what_is_seen_may_be_in_a_name(text: str) -> None:
    assert is_plain(text)


@pytest.mark.parametrize(
    "text", ["e\u0301", "A\u030a", "\u2126", "\u212b", "\u1100\u1161", "a\u0323\u0307".swapcase()]
)
def test_a_second_spelling_of_a_name_is_refused(text: str) -> None:
    composed = unicodedata.normalize("NFC", text)
    if composed != text:
        assert not is_plain(text)
    assert is_plain(composed)


@given(text=st.text())
def test_the_pattern_says_all_but_the_form(text: str) -> None:
    matches = re.fullmatch(PLAIN_TEXT.removeprefix("^").removesuffix("$"), text) is not None
    assert matches or not is_plain(text)
    normal = unicodedata.normalize("NFC", text)
    if matches and normal == text:
        assert is_plain(text), "whoever composes by newer tables is understood"
