"""Text as names: one rule of what a name may hold."""

from __future__ import annotations

import re

_UNSEEN = (
    # Control characters, and ends of lines.
    r"\u0000-\u001f\u007f-\u009f\u2028\u2029"
    # Marks, embeddings and isolates that change the direction of writing.
    r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
    # Invisible in every font: Default_Ignorable_Code_Point of Unicode, and non-characters.
    r"\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u206f\u3164"
    r"\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    # Written literally: no escape of larger code points works in every dialect.
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
PLAIN_TEXT = f"^[^{_UNSEEN}]*$"
"""The pattern of text in one line without unseen characters, in the dialect of JSON Schema too."""
PLAIN_TEXT_RULE = (
    "must have no control, bidirectional or invisible character, and be in Unicode's composed form "
    "(NFC)"
)
PLAIN_TEXT_FIX = "write it in one line of visible characters, in composed form"
_PLAIN = re.compile(PLAIN_TEXT.removeprefix("^").removesuffix("$"))


def is_plain(text: str) -> bool:
    """Return whether text is one line of visible characters in their composed form (NFC).

    Others move the cursor of whoever reads a list, show in another order or not at all, or are a
    second spelling of the same name; and not every database stores them. The check uses fixed
    tables, so machines with other versions of Unicode agree.
    """
    if _PLAIN.fullmatch(text) is None:
        return False
    return text.isascii() or _is_composed(text)


def _is_composed(text: str) -> bool:
    """Compare with normalisation form C by the tables of Unicode 3.2.

    Newer characters count as composed; the form of all older characters never changes.
    """
    # Loaded only for a name that is not ASCII: few are, and the tables take a megabyte.
    from unicodedata import ucd_3_2_0  # noqa: PLC0415

    return ucd_3_2_0.normalize("NFC", text) == text
