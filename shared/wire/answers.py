"""JSON answers of an aggregator, read without trust."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

from shared.errors import TransportError
from shared.wire.bodies.declaring import BodyError, read_body

T = TypeVar("T")


@dataclass(frozen=True)
class AnswerReader:
    """Reader of answers; its methods raise ``TransportError`` for what no aggregator sends.

    Parameters
    ----------
    field
        Setting of the server's address, which the error names.
    """

    field: str

    def read_document(self, data: bytes | str) -> dict[str, Any]:
        """Parse a body that is one JSON object."""
        try:
            document = json.loads(data)
        # Nesting that Python does not follow is no document either.
        except (ValueError, RecursionError) as error:
            raise self.refuse("the body") from error
        if not isinstance(document, dict):
            raise self.refuse("the body")
        return document

    def read(self, declared: type[T], answer: bytes | str | dict[str, Any]) -> T:
        """Read a body as it is declared."""
        document = answer if isinstance(answer, dict) else self.read_document(answer)
        try:
            return read_body(declared, document)
        except BodyError as error:
            raise self.refuse(str(error)) from error

    def check(self, declared: type[Any], document: dict[str, Any]) -> dict[str, Any]:
        """Return a document that can be read as declared, as it is."""
        self.read(declared, document)
        return document

    def require(
        self, document: Mapping[str, Any], name: str, kind: type[T] | tuple[type[T], ...]
    ) -> T:
        """Return a field of a kind; a boolean is no number."""
        value = document.get(name)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise self.refuse(name)
        return value

    def refuse(self, what: str) -> TransportError:
        """Return the error of an answer that no aggregator gives."""
        return TransportError(
            f"{what} of the answer is not what an aggregator sends",
            field=self.field,
            fix="check the address; something else may be answering there",
        )


def read_problem(data: bytes | str) -> dict[str, Any]:
    """Parse the body of a refusal; empty where it is no JSON object."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def read_retry_after(text: str, *, now: float) -> float | None:
    """Return the seconds that a ``Retry-After`` header asks for; None if it makes no sense."""
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - now)
    except (ValueError, TypeError, OverflowError):
        return None
