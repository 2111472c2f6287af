"""The layout of text: its encoding, what stands before records, and what is between fields."""

from __future__ import annotations

import codecs
from typing import Annotated, Literal

from sfumato.shared.errors import ConfigError
from sfumato.shared.structure import Rule, Text, declared, member

_ESCAPES = r"\u0041 \x0a \n \101"
BLANKS = "blanks"
"""In place of a delimiter: any number of spaces and tabs."""
_ASCII = "".join(map(chr, range(32, 127))) + "\r\n\t"


def keeps_ascii(encoding: str) -> bool:
    """Return whether an encoding keeps ASCII as it is, in each line by itself.

    Lines are found and numbers are read in the bytes as they are, and each line by itself: an
    encoding in which one character changes how those behind it are read would join them.
    """
    has_states = codecs.lookup(encoding).name.startswith(("iso2022", "hz", "utf-7"))
    if has_states or _ASCII.encode(encoding) != _ASCII.encode("ascii"):
        return False
    return _ESCAPES.encode("ascii").decode(encoding) == _ESCAPES


def _is_utf16(encoding: str) -> bool:
    return codecs.lookup(encoding).name == "utf-16"


def is_file_encoding(encoding: str) -> bool:
    """Return whether files of text may have an encoding."""
    return _is_utf16(encoding) or keeps_ascii(encoding)


def is_delimiter(text: str) -> bool:
    """Return whether a text may stand between the fields of a line."""
    return text == BLANKS or (len(text) == 1 and text.isascii() and text not in '"\r\n')


@declared
class Layout:
    """The layout of lines of text; all but the encoding is of CSV alone."""

    encoding: Annotated[
        str,
        Rule(
            keeps_ascii,
            "must be an encoding that keeps ASCII as it is, in each line by itself",
            'write "utf-8", "latin-1" or "cp1252"; UTF-16 is read from files alone',
        ),
    ] = member("An encoding that keeps ASCII as it is.", default="utf-8")
    delimiter: Annotated[
        str,
        Rule(
            is_delimiter,
            'must be one ASCII character and no quote, or "blanks"',
            r'write ";" or "\t"',
        ),
    ] = member(
        "One character between the fields of a CSV line, or `blanks`: any number of spaces and "
        "tabs.",
        default=",",
    )
    header: tuple[Text, ...] = member(
        "The names of the CSV columns, where there is no header line.", default=()
    )
    skip_lines: Annotated[int, Rule(ge=0, le=1000)] = member(
        "Number of lines before the header of a CSV file that are no part of the table.", default=0
    )
    comment: str = member(
        "What lines before the header of a CSV file begin with that are no part of the table.",
        default="",
    )

    def __post_init__(self) -> None:
        """Refuse comments where nothing tells their end."""
        if self.comment and self.header:
            raise ConfigError(
                "cannot be combined with header: without a line of names nothing tells where "
                "comments end, and a record that begins like one would be lost",
                field="comment",
                fix="state skip_lines instead",
            )

    @property
    def line_encoding(self) -> str:
        """The encoding of lines as they are parsed."""
        return self.encoding


@declared
class FileLayout(Layout):
    """The layout of a file of text, which may have to be made into lines first."""

    encoding: Annotated[
        str,
        Rule(
            is_file_encoding,
            'must be "utf-16", or an encoding that keeps ASCII as it is, in each line by itself',
            'write "utf-8", "latin-1", "cp1252" or "utf-16"',
        ),
    ] = member(
        "`utf-16`, with a mark of byte order, or an encoding that keeps ASCII as it is.",
        default="utf-8",
    )
    packed: Literal["gzip", "zstd"] | None = member(
        "`gzip` or `zstd` where each file is packed; none by default.", default=None
    )
    records: str = member(
        "The way to the list of records in a file that is one JSON document: keys with dots "
        "between, such as `data.items`, or `.` for the document itself. By default each line is "
        "an object.",
        default="",
    )

    @property
    def is_utf16(self) -> bool:
        """Whether characters are units of 16 bits."""
        return _is_utf16(self.encoding)

    @property
    def has_lines(self) -> bool:
        """Whether the lines lie in the file as they are."""
        return not (self.packed or self.records or self.is_utf16)

    @property
    def line_encoding(self) -> str:
        """See ``Layout``."""
        return "utf-8" if self.is_utf16 else self.encoding


PLAIN_TEXT = FileLayout()
