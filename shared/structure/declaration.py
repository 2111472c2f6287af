"""Declare the keys of a table: types, rules, meanings and samples."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import KW_ONLY, MISSING, dataclass, field
from functools import cache, cached_property
from typing import Annotated, Any, TypeVar, dataclass_transform, get_type_hints, overload

T = TypeVar("T")


_LIMITS: dict[str, tuple[Callable[[Any, Any], object], str]] = {
    "ge": (operator.ge, "at least {}"),
    "gt": (operator.gt, "above {}"),
    "le": (operator.le, "at most {}"),
    "lt": (operator.lt, "below {}"),
    "min_length": (lambda value, least: len(value) >= least, "at least {} long"),
    "max_length": (lambda value, most: len(value) <= most, "at most {} long"),
    "pattern": (lambda value, pattern: re.fullmatch(pattern, value), "text that matches {}"),
}


@dataclass(frozen=True)
class Rule:
    """A rule for a value, written into its annotation: ``Annotated[float, Rule(...)]``.

    Parameters
    ----------
    holds
        Whether a value of the right type is allowed; ``ValueError``, ``OSError`` and
        ``LookupError`` mean that it is not. A lambda inside a class sees no name of its module.
    text
        The whole rule, with the type: it follows the name of the key. By default it is made of the
        limits.
    fix
        An imperative.
    ge, gt, le, lt
        Bounds of a number; pydantic reads an ``int`` or ``bool`` with a rule strictly.
    min_length, max_length
        Bounds on the length of a text, list or table.
    pattern
        Pattern of a text: anchored, and the same in the dialects of JSON Schema, Python and Rust.
    """

    holds: Callable[[Any], object] | None = None
    text: str = ""
    fix: str | None = None
    _: KW_ONLY
    ge: int | None = None
    gt: int | None = None
    le: int | None = None
    lt: int | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None

    @cached_property
    def limits(self) -> dict[str, Any]:
        """The limits that are set, by name."""
        return {name: v for name in _LIMITS if (v := getattr(self, name)) is not None}

    def allows(self, value: Any) -> bool:
        """Return whether a value of the right type keeps the rule."""
        try:
            return all(_LIMITS[name][0](value, v) for name, v in self.limits.items()) and (
                self.holds is None or bool(self.holds(value))
            )
        except (ValueError, OSError, LookupError):
            return False

    def describe(self) -> str:
        """Describe the rule; it follows the name of the key."""
        limits = (_LIMITS[name][1].format(value) for name, value in self.limits.items())
        return self.text or f"must be {' and '.join(limits)}"

    def __get_pydantic_core_schema__(
        self, source: Any, handler: Callable[[Any], dict[str, Any]]
    ) -> dict[str, Any]:
        """Add the rule to pydantic's schema of the type, which is a plain dictionary."""
        schema = handler(source) | self.limits
        if schema["type"] in ("bool", "int"):
            schema["strict"] = True
        if self.holds is None:
            return schema
        function = {"type": "no-info", "function": self._require}
        return {"type": "function-after", "function": function, "schema": schema}

    def _require(self, value: Any) -> Any:
        if not self.allows(value):
            raise ValueError(self.text)
        return value


@dataclass(frozen=True)
class Tagged:
    """Mark of a dataclass that is chosen by one key of its table.

    Parameters
    ----------
    key
        The key that chooses.
    find
        Returns the class for a value, or raises a ``ConfigError`` without a field.
    """

    key: str
    find: Callable[[str], type]


@dataclass(frozen=True)
class Short:
    """Mark of a dataclass for which a text may stand: the value of this one key."""

    key: str


Text = Annotated[str, Rule(bool, "must be text and not empty", "quote it")]
Seconds = Annotated[
    float, Rule(None, "must be a number greater than zero", "write seconds, such as 10", gt=0)
]


@overload
def member(meaning: str, sample: Any = ..., *, default: T, optional: bool = ...) -> T: ...
@overload
def member(meaning: str, sample: Any = ..., *, default_factory: Callable[[], T]) -> T: ...
@overload
def member(meaning: str, sample: Any = ...) -> Any: ...
def member(
    meaning: str,
    sample: Any = MISSING,
    *,
    default: Any = MISSING,
    default_factory: Any = MISSING,
    optional: bool = False,
) -> Any:
    """Declare a key: its meaning, and its value in an example of the document.

    The sample is left out where the member is a table itself, which has samples of its own. An
    optional key is absent from a whole document too where its value is the default.
    """
    metadata = {"description": meaning, "sample": sample, "optional": optional}
    if default_factory is not MISSING:
        return field(default_factory=default_factory, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(member, field))
def declared(kind: type[T]) -> type[T]:
    """Declare the keys of a table."""
    return dataclass(frozen=True, kw_only=True)(kind)


@cache
def read_hints(kind: Any) -> dict[str, Any]:
    """Return the annotations of a class by name, with their rules."""
    return get_type_hints(kind, include_extras=True)
