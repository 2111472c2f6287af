"""Encode and decode plans: CBOR that is hashed, JSON for people; both carry every field exactly."""

from __future__ import annotations

import hashlib
import types
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from fractions import Fraction
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from shared.cbor import decode_deterministic, encode_deterministic
from shared.errors import PlanError, UnsupportedVersionError
from shared.plan.model import SketchPlan
from shared.plan.rules import FORMAT_VERSION

T = TypeVar("T")
UNKNOWN = "unknown"
"""Stands for None, so that unknown values are explicit."""


def encode_plan(plan: SketchPlan) -> bytes:
    """Encode a plan as deterministic CBOR; rationals are tag 30."""
    return encode_deterministic(_to_map(plan, to_json=False))


def compute_plan_digest(plan: SketchPlan) -> bytes:
    """Return the SHA-256 of a plan's encoding, as every sketch carries it."""
    return hashlib.sha256(encode_plan(plan)).digest()


def decode_plan(data: bytes) -> SketchPlan:
    """Decode and verify a plan.

    Raises
    ------
    MalformedMessageError, UnsupportedVersionError, PlanError
        Not a plan, of a version that this release does not know, or breaking a rule.
    """
    plan = _load(decode_deterministic(data, what="plan"))
    if encode_plan(plan) != data:
        raise PlanError(
            "has a field of another type than plans have",
            field="plan",
            fix="encode it as `sfumato plan new` does",
        )
    return plan


def plan_to_json(plan: SketchPlan) -> dict[str, Any]:
    """Return a plan as JSON values: bytes in hexadecimal, rationals as ``"p/q"``."""
    document: dict[str, Any] = _to_map(plan, to_json=True)
    return document


def plan_from_json(document: Any) -> SketchPlan:
    """Read and verify a plan from JSON values; raise as :func:`decode_plan`."""
    return _load(document)


def _load(document: Any) -> SketchPlan:
    if isinstance(document, dict):
        version = document.get("format_version", FORMAT_VERSION)
        if version != FORMAT_VERSION:
            raise UnsupportedVersionError(
                f"this release reads version {FORMAT_VERSION}",
                field="format_version",
                fix="update this software",
            )
    plan = structure(SketchPlan, document, "", complete=True)
    plan.verify()
    return plan


def _to_map(value: Any, *, to_json: bool) -> Any:
    if is_dataclass(value):
        return {f.name: _to_map(getattr(value, f.name), to_json=to_json) for f in fields(value)}
    if isinstance(value, tuple):
        return [_to_map(item, to_json=to_json) for item in value]
    if value is None:
        return UNKNOWN
    if to_json and isinstance(value, Fraction):
        return str(value)
    if to_json and isinstance(value, bytes):
        return value.hex()
    return value


def structure(kind: type[T], document: Any, path: str, *, complete: bool = False) -> T:
    """Build a frozen dataclass from a mapping; every error names its field.

    Unknown and missing fields are refused: a field that one side ignored would be a promise that
    nobody keeps.

    Parameters
    ----------
    complete
        Whether fields with a default are required too, as in a whole plan.
    """
    if not isinstance(document, dict):
        raise PlanError("must be an object with named fields", field=path or "plan")
    hints = get_type_hints(kind)
    known = {f.name: f for f in fields(kind)}  # type: ignore[arg-type]
    for name in document:
        if name not in known:
            raise PlanError(
                "is not a known field", field=_join(path, str(name)), fix=f"use: {', '.join(known)}"
            )
    values: dict[str, Any] = {}
    for name, f in known.items():
        if name in document:
            where = _join(path, name)
            values[name] = _structure_value(hints[name], document[name], where, complete=complete)
        elif complete or (f.default is MISSING and f.default_factory is MISSING):
            raise PlanError("is missing", field=_join(path, name), fix="add it")
    return kind(**values)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _structure_value(kind: Any, value: Any, path: str, *, complete: bool) -> Any:
    origin = get_origin(kind)
    if origin is Literal:
        if value not in get_args(kind):
            choices = ", ".join(repr(choice) for choice in get_args(kind))
            raise PlanError(f"must be {choices} in this version", field=path)
        return value
    if origin in (Union, types.UnionType):
        present = next(arg for arg in get_args(kind) if arg is not type(None))
        if value == UNKNOWN:
            return None
        return _structure_value(present, value, path, complete=complete)
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise PlanError("must be a list", field=path)
        item = get_args(kind)[0]
        return tuple(
            _structure_value(item, v, f"{path}[{i}]", complete=complete)
            for i, v in enumerate(value)
        )
    if is_dataclass(kind):
        return structure(kind, value, path, complete=complete)  # type: ignore[arg-type]
    try:
        return _SCALARS[kind](value)
    except (ValueError, TypeError, ZeroDivisionError, OverflowError) as error:
        raise PlanError(f"must be {_WORDS[kind]}", field=path) from error


def _to_int(value: Any) -> int:
    if type(value) is not int:
        raise TypeError
    return value


def _to_float(value: Any) -> float:
    if type(value) not in (int, float):
        raise TypeError
    return float(value)


def _to_str(value: Any) -> str:
    if type(value) is not str:
        raise TypeError
    return value


def _to_bytes(value: Any) -> bytes:
    return bytes.fromhex(value) if isinstance(value, str) else bytes(memoryview(value))


def _to_fraction(value: Any) -> Fraction:
    # A float would silently become its binary neighbour: 0.1 is larger than 1/10.
    if type(value) not in (int, str, Fraction):
        raise TypeError
    return Fraction(value)


_SCALARS: dict[Any, Callable[[Any], Any]] = {
    int: _to_int,
    float: _to_float,
    str: _to_str,
    bytes: _to_bytes,
    Fraction: _to_fraction,
}
_WORDS = {
    int: "a whole number",
    float: "a number",
    str: "text",
    bytes: "bytes in hexadecimal",
    Fraction: 'an exact number: a whole number, or text such as "1/10" or "0.1"',
}
