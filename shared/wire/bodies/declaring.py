"""Declare a JSON object once, and read one without trust.

The server lets pydantic check requests and write OpenAPI from the declarations; clients read
answers by :func:`read_body`, which needs the standard library alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass
from datetime import UTC, datetime
from functools import cache
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    TypeVar,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from shared.core.text import PLAIN_TEXT, PLAIN_TEXT_RULE, is_plain

T = TypeVar("T")

HEX_64 = "^[0-9a-f]{64}$"
HEX_128 = "^[0-9a-f]{128}$"
TIME_RULE = "must be a time of RFC 3339 with its time zone"
YEAR_RULE = "must be in the years 1970 to 9000"


class BodyError(ValueError):
    """A JSON value is not as declared; the text names the member at fault."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """Limits on a value beyond its type.

    Parameters
    ----------
    ge, gt, le, lt
        Bounds of a number; pydantic reads a bounded ``int`` strictly.
    min_length, max_length
        Of a text, list or object.
    pattern
        Of a text: anchored, and the same in the dialects of JSON Schema, Python and Rust.
    check
        Raises ``ValueError`` with the rule if a value breaks it; else returns the value.
    """

    ge: int | None = None
    gt: int | None = None
    le: int | None = None
    lt: int | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None
    check: Callable[[Any], Any] | None = None

    def __get_pydantic_core_schema__(
        self, source: Any, handler: Callable[[Any], dict[str, Any]]
    ) -> dict[str, Any]:
        """Add the limits to pydantic's schema of the type, which is a plain dictionary."""
        limits = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "check"}
        schema = handler(source) | {k: v for k, v in limits.items() if v is not None}
        if schema["type"] == "int":
            schema["strict"] = True
        if self.check is None:
            return schema
        function = {"type": "no-info", "function": self.check}
        return {"type": "function-after", "function": function, "schema": schema}

    def allows(self, value: Any) -> bool:
        """Return whether a value of the right type keeps the limits."""
        size = len(value) if isinstance(value, str | list | dict) else 0
        bounds = (
            (self.ge, lambda bound: value >= bound),
            (self.gt, lambda bound: value > bound),
            (self.le, lambda bound: value <= bound),
            (self.lt, lambda bound: value < bound),
            (self.min_length, lambda bound: size >= bound),
            (self.max_length, lambda bound: size <= bound),
            (self.pattern, lambda bound: re.fullmatch(bound, value) is not None),
        )
        if not all(bound is None or holds(bound) for bound, holds in bounds):
            return False
        try:
            return self.check is None or self.check(value) is not None
        except ValueError:
            return False


def _require_plain(text: str) -> str:
    if not is_plain(text):
        raise ValueError(PLAIN_TEXT_RULE)
    return text


def _require_time(text: str) -> str:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(TIME_RULE) from None
    if time.tzinfo is None:
        raise ValueError(TIME_RULE)
    # Years at the ends of the calendar leave it in another time zone.
    if not 1970 <= time.year <= 9000:
        raise ValueError(YEAR_RULE)
    return text


def plain_text(*, max_length: int, min_length: int = 1) -> Rule:
    """Return the rule of a text that is shown to people."""
    return Rule(
        min_length=min_length, max_length=max_length, pattern=PLAIN_TEXT, check=_require_plain
    )


Hex = Annotated[str, Rule(pattern=HEX_64)]
"""32 bytes in hexadecimal digits."""
Signature = Annotated[str, Rule(pattern=HEX_128)]
"""64 bytes in hexadecimal digits."""
SmallText = Annotated[str, plain_text(max_length=200)]
Labels = dict[SmallText, SmallText]
Time = Annotated[str, Rule(max_length=40, check=_require_time)]
SAMPLE_ID = "5f" * 32
SAMPLE_TIME = "2026-03-01T12:00:00.000000Z"


def member(
    meaning: str, sample: Any = MISSING, *, default: Any = MISSING, default_factory: Any = MISSING
) -> Any:
    """Declare a member of a body: its meaning, and its value in the example of the body.

    The sample is left out where the member is a body itself, which has samples of its own.
    """
    metadata = {"description": meaning, "sample": sample}
    if default_factory is not MISSING:
        return field(default_factory=default_factory, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(member,))
def body(declared: type[T]) -> type[T]:
    """Declare a JSON object."""
    return _declare(declared, {"json_schema_extra": _add_sample})


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(member,))
def request(declared: type[T]) -> type[T]:
    """Declare a JSON object that may have no other member, so that a typing error is noticed."""
    return _declare(declared, {"json_schema_extra": _add_sample, "extra": "forbid"})


def _declare(declared: type[T], config: dict[str, Any]) -> type[T]:
    # The name under which pydantic looks for its configuration on a class that is not its own.
    declared.__pydantic_config__ = config  # type: ignore[attr-defined]
    return dataclass(frozen=True, kw_only=True)(declared)


def _add_sample(schema: dict[str, Any], declared: Any) -> None:
    if (sample := make_sample(declared)) is not None:
        schema["example"] = sample


def make_sample(declared: Any) -> dict[str, Any] | None:
    """Return the example of a body; None if a member has no sample."""
    sample: dict[str, Any] = {}
    for each in fields(declared):
        value = each.metadata["sample"]
        if value is MISSING:
            value = _sample_of(_types_of(declared)[each.name])
        if value is None and each.metadata["sample"] is MISSING:
            return None
        sample[each.name] = value
    return sample


def _sample_of(kind: Any) -> Any:
    if is_dataclass(kind):
        return make_sample(kind)
    inner = next((_sample_of(part) for part in get_args(kind) if part is not NoneType), None)
    return [inner] if get_origin(kind) is list and inner is not None else inner


def make_body(declared: Callable[..., T], value: Any, **members: Any) -> T:
    """Make a body of the members given, and of a value's attributes that have the other names.

    Bytes become hexadecimal digits, seconds in the place of a time RFC 3339 text, arrays lists.
    """
    for name, kind in _types_of(declared).items():
        if name not in members and hasattr(value, name):
            members[name] = _to_json(getattr(value, name), kind)
    return declared(**members)


def _to_json(value: Any, kind: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, int | float) and (kind is Time or Time in get_args(kind)):
        return to_rfc3339(value)
    if isinstance(value, Mapping):
        return dict(value)
    return value.tolist() if hasattr(value, "tolist") else value


def read_body(declared: type[T], document: Any) -> T:
    """Read a JSON value as a body; members that are not declared are left out.

    Raises
    ------
    BodyError
        A member is missing, of another type or against its rule.
    """
    found: T = _read(declared, document, "the body")
    return found


def to_document(value: Any) -> dict[str, Any]:
    """Return a body as a JSON value."""
    return asdict(value)


@cache
def _types_of(declared: Any) -> dict[str, Any]:
    return get_type_hints(declared, include_extras=True)


def _read(kind: Any, value: Any, where: str) -> Any:
    origin, parts = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if origin is Annotated:
        found = _read(parts[0], value, where)
        if all(rule.allows(found) for rule in parts[1:]):
            return found
    elif origin in (UnionType, Union):  # the latter where a part is annotated
        return _read_either(parts, value, where)
    elif origin is Literal:
        if value in parts and type(value) is type(parts[parts.index(value)]):
            return value
    elif origin is list and isinstance(value, list):
        return [_read(parts[0], item, where) for item in value]
    elif origin is tuple and isinstance(value, list) and len(value) == len(parts):
        return tuple(_read(part, item, where) for part, item in zip(parts, value, strict=True))
    elif origin is dict and isinstance(value, dict):
        return {_read(parts[0], k, where): _read(parts[1], v, where) for k, v in value.items()}
    elif kind is float and type(value) in (int, float):
        return _to_float(value, where)
    elif is_dataclass(kind) and isinstance(value, dict):
        return _read_members(kind, value)
    elif type(value) is kind:
        return value
    raise BodyError(where)


def _read_either(kinds: tuple[Any, ...], value: Any, where: str) -> Any:
    for kind in kinds[:-1]:
        try:
            return _read(kind, value, where)
        except BodyError:
            continue
    return _read(kinds[-1], value, where)


def _to_float(value: float, where: str) -> float:
    try:
        return float(value)
    except OverflowError:  # a whole number may be larger than any float
        raise BodyError(where) from None


def _read_members(declared: Any, document: Mapping[str, Any]) -> Any:
    types = _types_of(declared)
    found = {}
    for each in fields(declared):
        if each.name in document:
            found[each.name] = _read(types[each.name], document[each.name], each.name)
        elif each.default is MISSING and each.default_factory is MISSING:
            raise BodyError(each.name)
    return declared(**found)


def to_rfc3339(seconds: float) -> str:
    """Return a time as RFC 3339 text in UTC, to the microsecond."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds")[:-6] + "Z"


def maybe_rfc3339(seconds: float | None) -> str | None:
    """Return a time as text; None stays None."""
    return None if seconds is None else to_rfc3339(seconds)


def maybe_timestamp(text: str | None) -> float | None:
    """Return RFC 3339 text as seconds since 1970; None stays None."""
    return None if text is None else datetime.fromisoformat(text).timestamp()
