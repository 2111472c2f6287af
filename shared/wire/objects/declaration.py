"""Declare a JSON object once.

The server lets pydantic check requests and write OpenAPI from the declarations; clients read
answers by :func:`sfumato.shared.structure.structure`, which needs the standard library alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import UTC, datetime
from types import NoneType
from typing import Annotated, Any, TypeVar, dataclass_transform, get_args, get_origin

from sfumato.shared.core.text import PLAIN_TEXT, PLAIN_TEXT_FIX, PLAIN_TEXT_RULE, is_plain
from sfumato.shared.structure import Rule, declared, member, read_hints

T = TypeVar("T")

HEX_64 = "^[0-9a-f]{64}$"
HEX_128 = "^[0-9a-f]{128}$"


def _has_zone(text: str) -> bool:
    return datetime.fromisoformat(text).tzinfo is not None


def _is_near(text: str) -> bool:
    # Years at the ends of the calendar leave it in another time zone.
    return 1970 <= datetime.fromisoformat(text).year <= 9000


def plain_text(*, max_length: int, min_length: int = 1) -> Rule:
    """Return the rule of a text that is shown to people."""
    return Rule(
        is_plain,
        PLAIN_TEXT_RULE,
        PLAIN_TEXT_FIX,
        min_length=min_length,
        max_length=max_length,
        pattern=PLAIN_TEXT,
    )


Hex = Annotated[str, Rule(pattern=HEX_64)]
"""32 bytes in hexadecimal digits."""
Signature = Annotated[str, Rule(pattern=HEX_128)]
"""64 bytes in hexadecimal digits."""
Switch = Annotated[bool, Rule()]
"""True or false in a request."""
SmallText = Annotated[str, plain_text(max_length=200)]
Labels = dict[SmallText, SmallText]
SearchBox = dict[SmallText, Annotated[list[float], Rule(min_length=2, max_length=2)]]
"""Lower and upper bound by the name of a dimension."""
Time = Annotated[
    str,
    Rule(_has_zone, "must be a time of RFC 3339 with its time zone", max_length=40),
    Rule(_is_near, "must be in the years 1970 to 9000"),
]
SAMPLE_ID = "5f" * 32
SAMPLE_BOX = {"pressure": [1.0, 8.5]}
SAMPLE_TIME = "2026-03-01T12:00:00.000000Z"


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(member,))
def body(kind: type[T]) -> type[T]:
    """Declare a JSON object."""
    return _declare(kind, {"json_schema_extra": _add_sample})


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(member,))
def request(kind: type[T]) -> type[T]:
    """Declare a JSON object that may have no other member, so that a typing error is noticed."""
    return _declare(kind, {"json_schema_extra": _add_sample, "extra": "forbid"})


def _declare(kind: type[T], config: dict[str, Any]) -> type[T]:
    # The name under which pydantic looks for its configuration on a class that is not its own.
    kind.__pydantic_config__ = config  # type: ignore[attr-defined]
    return declared(kind)


def _add_sample(schema: dict[str, Any], kind: Any) -> None:
    if (sample := make_sample(kind)) is not None:
        schema["example"] = sample


def make_sample(kind: Any) -> dict[str, Any] | None:
    """Return the example of a body; None if a member has no sample."""
    sample: dict[str, Any] = {}
    for each in fields(kind):
        value = each.metadata["sample"]
        if value is MISSING:
            value = _sample_of(read_hints(kind)[each.name])
        if value is None and each.metadata["sample"] is MISSING:
            return None
        sample[each.name] = value
    return sample


def _sample_of(kind: Any) -> Any:
    if is_dataclass(kind):
        return make_sample(kind)
    inner = next((_sample_of(part) for part in get_args(kind) if part is not NoneType), None)
    return [inner] if get_origin(kind) is list and inner is not None else inner


def make_body(body: Callable[..., T], value: Any, **members: Any) -> T:
    """Make a body of the members given, and of a value's attributes that have the other names.

    Bytes become hexadecimal digits, seconds in the place of a time RFC 3339 text, arrays lists.
    """
    for name, kind in read_hints(body).items():
        if name not in members and hasattr(value, name):
            members[name] = _to_json(getattr(value, name), kind)
    return body(**members)


def _to_json(value: Any, kind: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, int | float) and (kind is Time or Time in get_args(kind)):
        return to_rfc3339(value)
    if isinstance(value, Mapping):
        return dict(value)
    return value.tolist() if hasattr(value, "tolist") else value


def to_rfc3339(seconds: float) -> str:
    """Return a time as RFC 3339 text in UTC, to the microsecond."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds")[:-6] + "Z"


def maybe_rfc3339(seconds: float | None) -> str | None:
    """Return a time as text; None stays None."""
    return None if seconds is None else to_rfc3339(seconds)


def maybe_timestamp(text: str | None) -> float | None:
    """Return RFC 3339 text as seconds since 1970; None stays None."""
    return None if text is None else datetime.fromisoformat(text).timestamp()
