"""JSON answers of an aggregator, read without trust."""

from __future__ import annotations

import json
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

from sfumato.shared.errors import ConfigError, TransportError
from sfumato.shared.structure import structure

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
        document = _parse(data)
        if document is None:
            raise self.refuse("the body")
        return document

    def read(self, declared: type[T], answer: bytes | str | dict[str, Any]) -> T:
        """Read a body as it is declared."""
        document = answer if isinstance(answer, dict) else self.read_document(answer)
        try:
            return structure(declared, document, strict=False)
        except ConfigError as error:
            raise self.refuse(error.field or "the body") from error

    def check(self, declared: type[Any], document: dict[str, Any]) -> dict[str, Any]:
        """Return a document that can be read as declared, as it is."""
        self.read(declared, document)
        return document

    def refuse(self, what: str) -> TransportError:
        """Return the error of an answer that no aggregator gives."""
        return TransportError(
            f"{what} of the answer is not what an aggregator sends",
            field=self.field,
            fix="check the address; something else may be answering there",
        )


def read_problem(data: bytes | str) -> dict[str, Any]:
    """Parse the body of a refusal; empty where it is no JSON object."""
    return _parse(data) or {}


def _parse(data: bytes | str) -> dict[str, Any] | None:
    try:
        document = json.loads(data)
    # Nesting that Python does not follow is no document either.
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def read_retry_after(text: str, *, now: float) -> float | None:
    """Return the seconds that a ``Retry-After`` header asks for; None if it makes no sense."""
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - now)
    except (ValueError, TypeError, OverflowError):
        return None
