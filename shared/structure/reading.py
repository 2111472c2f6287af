"""Read a document into a declared dataclass; each error names its place, rule and fix."""

from __future__ import annotations

import math
import re
import tomllib
import types
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields, is_dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from sfumato.shared.errors import ConfigError, SketchError
from sfumato.shared.structure.declaration import Rule, Short, Tagged, Text, read_hints

T = TypeVar("T")


def read_exact(value: int | str | Fraction) -> Fraction:
    """Return an exact number; raise ``ValueError`` or ``ZeroDivisionError`` where it is none."""
    # 1e999999999 would be computed in full.
    if isinstance(value, str) and re.search(r"e[+-]?\d{3}", value, re.IGNORECASE):
        raise ValueError
    return Fraction(require_plain(value) if isinstance(value, str) else value)


def require_plain(text: str) -> str:
    """Return the text of a number, or raise ``ValueError`` where only Python would read it.

    It takes ``1_000`` and digits of other scripts, and a reader of either may see another number.
    """
    if "_" in text or not text.isascii():
        raise ValueError("must have no digits but 0 to 9, and no underscore")
    return text


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file.

    Raises
    ------
    ConfigError
        It cannot be read, or is not TOML.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigError(
            f"cannot be read ({error.strerror})",
            field=str(path),
            fix="name a file that exists and that this user may read",
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"is not TOML: {error}", field=str(path), fix="correct it at that place"
        ) from error


def structure(
    kind: type[T],
    document: Any,
    path: str = "",
    *,
    folder: Path | None = None,
    given: Mapping[str, Any] = types.MappingProxyType({}),
    error: type[SketchError] = ConfigError,
    complete: bool = False,
    unknown: str | None = None,
    strict: bool = True,
) -> T:
    """Build a frozen dataclass from a mapping.

    Parameters
    ----------
    kind
        The dataclass.
    document
        What a parser gave.
    path
        The path of the mapping, such as ``streams[0].source``; empty at the top.
    folder
        What relative paths are relative to.
    given
        Fields that are not read from the document.
    error
        The class of the errors that are raised.
    complete
        Whether keys with a default must be there too, as in a whole plan.
    unknown
        Text that stands for None, for which null stands by default; not where any text may stand.
    strict
        Whether keys that are not declared are refused; else they are ignored.

    Raises
    ------
    SketchError
        A key is missing, unknown or breaks its rule; ``field`` is its whole path.
    """
    reader = _Reader(folder=folder, error=error, complete=complete, unknown=unknown, strict=strict)
    built: T = reader.read_table(kind, document, path, given)
    return built


@dataclass(frozen=True, kw_only=True)
class _Reader:
    folder: Path | None
    error: type[SketchError]
    complete: bool
    unknown: str | None
    strict: bool

    def read_table(self, kind: type, document: Any, path: str, given: Mapping[str, Any]) -> Any:
        if not isinstance(document, dict):
            raise self.error(
                "must be a table of named values",
                field=path or "document",
                fix=f"write [{path}]" if path else "write names with their values",
            )
        known = {n: each for n, each in _list_fields(kind).items() if n not in given}
        if self.strict and (others := [name for name in document if name not in known]):
            raise self.error(
                "is not a known key",
                field=_join(path, _quote(others[0])),
                fix=suggest(str(others[0]), list(known)),
            )
        values = dict(given)
        for name, (hint, _, _) in known.items():
            if name in document:
                with self._naming_seconds(name, known, path):
                    values[name] = self.read(hint, document[name], _join(path, name))
        for name, (hint, is_needed, is_optional) in known.items():
            if name not in document and (is_needed or (self.complete and not is_optional)):
                raise self.error("is missing", field=_join(path, name), fix=_show(name, path, hint))
        with self._inside(path):
            return kind(**values)

    @contextmanager
    def _naming_seconds(self, name: str, known: Collection[str], path: str) -> Iterator[None]:
        """Name the key beside a refused one that holds a time: `length_s` beside `length`."""
        try:
            yield
        except SketchError as error:
            if error.field == _join(path, name) and f"{name}_s" in known:
                error.fix = f"{error.fix}; write a time as {name}_s, in seconds"
            raise

    def read(self, hint: Any, value: Any, path: str) -> Any:
        if isinstance(hint, type) and hint in _SCALARS:
            return self._read_scalar(hint, value, path)
        origin, args = get_origin(hint), get_args(hint)
        if origin is Annotated:
            return self._read_annotated(args[0], args[1:], value, path)
        if origin is Literal:
            # 1 == True == 1.0, so the types are compared as well.
            if not any(type(value) is type(choice) and value == choice for choice in args):
                words = [f'"{each}"' if isinstance(each, str) else repr(each) for each in args]
                text = " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))
                raise self.error(f"must be {text}", field=path, fix="choose one of them")
            return value
        if origin in (Union, types.UnionType):
            # Where any text is a value, such as a level, the word for None is a value too.
            is_text = self.unknown is not None and str in args
            if types.NoneType in args and value == self.unknown and not is_text:
                return None
            return self._read_union([a for a in args if a is not types.NoneType], value, path)
        if origin in (list, tuple):
            if not isinstance(value, list | tuple):
                raise self.error("must be a list", field=path, fix=f"write {path} = [...]")
            kinds = args if origin is tuple and args[-1] is not ... else args[:1] * len(value)
            if len(kinds) != len(value):
                raise self.error(f"must have {len(kinds)} elements", field=path)
            each = zip(kinds, value, strict=True)
            return origin(self.read(k, v, f"{path}[{i}]") for i, (k, v) in enumerate(each))
        if origin in (Mapping, dict):
            if not isinstance(value, dict):
                raise self.error("must be a table", field=path, fix=f"write [{path}]")
            return {
                self.read(args[0], name, path): self.read(args[1], v, _join(path, _quote(name)))
                for name, v in value.items()
            }
        if hint is Any or isinstance(hint, TypeVar):
            return value
        return self.read_table(hint, value, path, {})

    def _read_annotated(self, hint: Any, marks: tuple[Any, ...], value: Any, path: str) -> Any:
        rules = [mark for mark in marks if isinstance(mark, Rule)]
        try:
            for mark in marks:
                if isinstance(mark, Tagged):
                    hint = self._find_class(mark, value, path) or hint
                if isinstance(mark, Short) and isinstance(value, str):
                    value = {mark.key: value}
            found = self.read(hint, value, path)
        except self.error as error:
            if error.field != path or not rules or not rules[0].text:
                raise
            raise self.error(rules[0].text, field=path, fix=rules[0].fix) from error
        for mark in marks:
            if isinstance(mark, Rule):
                if not mark.allows(found):
                    raise self.error(mark.describe(), field=path, fix=mark.fix)
            elif callable(mark):
                found = mark(found)
        return found

    def _find_class(self, mark: Tagged, value: Any, path: str) -> type | None:
        if not isinstance(value, dict):
            return None
        where = _join(path, mark.key)
        if mark.key not in value:
            raise self.error("is missing", field=where, fix=_show(mark.key, path, str))
        with self._inside(where):
            return mark.find(self.read(Text, value[mark.key], where))

    def _read_union(self, hints: list[Any], value: Any, path: str) -> Any:
        fitting = [hint for hint in hints if is_dataclass(hint) == isinstance(value, dict)]
        for hint in fitting[:-1]:
            try:
                return self.read(hint, value, path)
            except self.error:
                continue
        return self.read((fitting or hints)[-1], value, path)

    def _read_scalar(self, kind: type, value: Any, path: str) -> Any:
        accepted, convert, words, fix = _SCALARS[kind]
        try:
            if type(value) not in accepted:
                raise TypeError
            found = convert(value)
        except (ValueError, TypeError, ZeroDivisionError, OverflowError) as error:
            raise self.error(f"must be {words}", field=path, fix=fix) from error
        if isinstance(found, Path):
            return (self.folder or Path()) / found
        return found

    @contextmanager
    def _inside(self, path: str) -> Iterator[None]:
        """Put a path before the field of errors."""
        try:
            yield
        except SketchError as error:
            if error.field and path and error.field.startswith((f"{path}.", f"{path}[")):
                raise
            where = ".".join(filter(None, (path, error.field)))
            raise type(error)(error.rule, field=where or None, fix=error.fix) from error


@cache
def _list_fields(kind: type) -> dict[str, tuple[Any, bool, bool]]:
    hints = read_hints(kind)
    return {
        f.name: (
            hints[f.name],
            f.default is MISSING and f.default_factory is MISSING,
            f.metadata.get("optional", False),
        )
        for f in fields(kind)
        if f.init
    }


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _quote(name: object) -> str:
    """Return a name that a document chose, without what moves the cursor of a reader."""
    return name if isinstance(name, str) and re.fullmatch(r"[\w-]+", name) else repr(name)


def suggest(name: str, known: list[str]) -> str:
    """Return the fix for an unknown name: the one that is like it, or all that are known."""
    # A device seldom needs it.
    from difflib import get_close_matches  # noqa: PLC0415

    close = get_close_matches(name, known, n=1)
    return f"did you mean {close[0]}?" if close else f"use: {', '.join(known)}"


def _show(name: str, path: str, hint: Any) -> str:
    """Show how a missing key is written."""
    while get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    if get_origin(hint) is tuple:
        return f"add {name} = [...]"
    if is_dataclass(hint):
        return f"add [{_join(path, name)}]"
    return f"add {name} = 1" if hint in (int, float) else f'add {name} = "..."'


def _read_float(value: Any) -> float:
    if not math.isfinite(value):
        raise ValueError
    return float(value)


def _read_path(text: str) -> Path:
    if not text:
        raise ValueError
    return Path(text).expanduser()


def _read_bytes(value: Any) -> bytes:
    return bytes.fromhex(value) if isinstance(value, str) else bytes(value)


_SCALARS: dict[type, tuple[tuple[type, ...], Callable[[Any], Any], str, str]] = {
    bool: ((bool,), bool, "true or false", "use no quotes"),
    int: ((int,), int, "a whole number", "use no quotes"),
    float: ((int, float), _read_float, "a finite number", "use no quotes"),
    str: ((str,), str, "text", "quote it"),
    bytes: ((str, bytes), _read_bytes, "bytes in hexadecimal", "quote them"),
    Path: ((str,), _read_path, "a path", "quote it"),
    # A float would silently become its binary neighbour: 0.1 is larger than 1/10.
    Fraction: (
        (int, str, Fraction),
        read_exact,
        'an exact number: a whole number, or text such as "1/10" or "0.1"',
        'write "1" or "1/10"',
    ),
}
