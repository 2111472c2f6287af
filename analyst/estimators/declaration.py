"""How estimators are declared: their parameters are members, described where they first appear."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal, TypeVar, dataclass_transform

from sfumato.analyst.estimators.frames import open_frame

Declared = TypeVar("Declared", bound=type[Any])

_FIRST: Final = ("epsilon", "bounds", "delta", "scale")
_LAST: Final = (
    "relation", "max_records", "public_seed", "random_state", "ledger", "source", "budget", "refit",
    "max_unreadable", "verbose",
)  # fmt: skip
"""Parameters that stand before and after those of an estimator's own."""
_READERS: Final = (
    "fit", "partial_fit", "fit_predict", "fit_transform", "predict", "predict_proba", "transform",
    "inverse_transform", "score", "score_samples", "look",
)  # fmt: skip
"""Methods whose first argument is a table."""
_INHERITED: Final = ("Parameters", "Attributes")


def result(*, init: Literal[False] = False) -> Any:
    """Declare an attribute that a fit sets; type checkers read ``init``: it is no parameter."""
    return field(init=init)


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(field, result))
def estimator(declared: Declared) -> Declared:
    """Make the ``__init__`` of an estimator of its members, which it stores as they are given.

    scikit-learn reads the parameters from the signature. What the class does not say of parameters
    and attributes is taken from its bases.
    """
    made: Any = dataclass(kw_only=True, eq=False, repr=False)(declared)
    initialise: Any = made.__init__
    signature = inspect.signature(initialise)
    this, *given = signature.parameters.values()
    given.sort(key=lambda each: (each.kind, _rank(each.name)))
    initialise.__signature__ = signature.replace(parameters=[this, *given])
    order = [each.name for each in given] + [each.name for each in fields(made) if not each.init]
    made.__doc__ = _complete(made, order)
    for name in _READERS:
        method = vars(made).get(name)
        if inspect.isfunction(method):
            setattr(made, name, reading(method))
    return made  # type: ignore[no-any-return]  # the same class


def reading(method: Callable[..., Any]) -> Callable[..., Any]:
    """Let a method take tables of any library, and files."""

    @functools.wraps(method)
    def read(self: Any, *given: Any, **named: Any) -> Any:
        if given:
            given = (open_frame(given[0]), *given[1:])
        elif "X" in named:
            named["X"] = open_frame(named["X"])
        return method(self, *given, **named)

    return read


def _rank(name: str) -> tuple[int, int]:
    if name in _FIRST:
        return 0, _FIRST.index(name)
    return (2, _LAST.index(name)) if name in _LAST else (1, 0)


def _complete(made: type[Any], order: list[str]) -> str:
    """Return what a class says of itself, with entries of its bases for what it leaves out."""
    known = [each for each in made.__mro__ if "__dataclass_fields__" in vars(each)]
    own = _divide(made.__doc__)
    for title in _INHERITED:
        entries: dict[str, list[str]] = {}
        for base in known:
            said = {name for head in entries for name in head.split(", ")}
            for head, lines in _read_entries(_divide(base.__doc__).get(title, [])).items():
                if said.isdisjoint(head.split(", ")):
                    entries[head] = lines
        heads = sorted(entries, key=lambda head: _place(head, order))
        own[title] = [line for head in heads for line in (head, *entries[head])]
    titles = ["", *_INHERITED, *(each for each in own if each and each not in _INHERITED)]
    parts = [
        "\n".join([title, "-" * len(title), *own[title]] if title else own[title])
        for title in titles
        if own[title]
    ]
    return "\n\n".join(part.rstrip() for part in parts)


def _place(head: str, order: list[str]) -> int:
    name = head.split(", ", maxsplit=1)[0]
    return order.index(name) if name in order else len(order)


def _divide(text: str | None) -> dict[str, list[str]]:
    """Return the lines of each section of a documentation; the lead has no title."""
    found: dict[str, list[str]] = {"": []}
    title = ""
    lines = inspect.cleandoc(text or "").splitlines()
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        if after and set(after) == {"-"} and len(after) == len(line):
            title = line
            found[title] = []
        elif not (line and set(line) == {"-"}):
            found[title].append(line)
    return found


def _read_entries(lines: list[str]) -> dict[str, list[str]]:
    """Return the indented lines that follow each name, or several with commas between."""
    entries: dict[str, list[str]] = {}
    for line in lines:
        if line and not line.startswith(" "):
            entries[line] = []
        elif line:
            entries[list(entries)[-1]].append(line)
    return entries
