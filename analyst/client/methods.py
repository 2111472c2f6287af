"""Methods of both clients from declared calls: coroutines in one, run to their end in the other."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from dataclasses import MISSING, asdict, fields
from inspect import Parameter, Signature, cleandoc
from textwrap import fill, indent
from typing import (
    Any,
    ClassVar,
    Concatenate,
    Generic,
    ParamSpec,
    TypeVar,
    cast,
    get_type_hints,
    overload,
)

from sfumato.shared.wire.calls.call import Call, Nothing, Pages

P = ParamSpec("P")
T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")

_MEANINGS = {
    "study": "Its id, its name, or the first 6 or more digits of its id.",
    "device": "Its id, its name if no other has it, or the first 6 or more digits of its id.",
    "snapshot": "Its id.",
}
_BEGINNING = "Its id, or the first 6 or more digits of it."
_SELF = Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)


class Waits:
    """A client whose methods are coroutines."""

    _blocks: ClassVar[bool] = False


class Blocks:
    """A client whose methods run those of ``_calls`` to their end."""

    _calls: Any


class Method(Generic[P, A, B]):
    """A method whose result is an ``A`` in a client that waits, and a ``B`` in one that blocks.

    Parameters
    ----------
    start
        Starts it in a client that waits, with the arguments by name.
    finish
        Makes the result of a client that blocks from that.
    returns
        Annotations of ``A`` and ``B``.
    """

    def __init__(
        self,
        start: Callable[[Any, dict[str, Any]], A],
        finish: Callable[[A], B],
        parameters: list[Parameter],
        returns: tuple[str, str],
        text: str,
    ) -> None:
        signature = Signature([_SELF, *parameters])

        def wait(self: Any, /, *given: Any, **named: Any) -> A:
            arguments = signature.bind(self, *given, **named).arguments
            return start(arguments.pop("self"), arguments)

        def block(self: Any, /, *given: Any, **named: Any) -> B:
            return finish(wait(self._calls, *given, **named))

        self._functions: dict[type, Any] = {Waits: wait, Blocks: block}
        for function, returned in zip(self._functions.values(), returns, strict=True):
            function.__doc__ = text
            function.__signature__ = signature.replace(return_annotation=returned)

    def __set_name__(self, owner: type, name: str) -> None:
        for function in self._functions.values():
            function.__name__, function.__module__ = name, owner.__module__
            function.__qualname__ = f"{owner.__qualname__}.{name}"

    @overload
    def __get__(self, client: Waits, owner: Any) -> Callable[P, A]: ...
    @overload
    def __get__(self, client: Blocks, owner: Any) -> Callable[P, B]: ...
    @overload
    def __get__(self, client: None, owner: Any) -> Callable[Concatenate[Any, P], Any]: ...
    def __get__(self, client: Any, owner: Any) -> Any:
        function = self._functions[Blocks if issubclass(owner, Blocks) else Waits]
        return function if client is None else function.__get__(client, owner)


def run(awaitable: Awaitable[T]) -> T:
    """Run a coroutine that does not wait, and return what it returns."""
    try:
        next(awaitable.__await__())
    except StopIteration as ended:
        return cast(T, ended.value)
    raise RuntimeError("a call of the client without coroutines has waited")


def run_all(stream: AsyncGenerator[T, None]) -> Generator[T, None, None]:
    """Yield the items of a generator that does not wait."""
    try:
        while True:
            try:
                item = run(stream.__anext__())
            except StopAsyncIteration:
                return
            yield item
    finally:
        run(stream.aclose())


def plain(call: Call[P, T]) -> Method[P, Coroutine[Any, Any, T], T]:
    """Make the method of a call without references."""
    return _make(call)


def of_one(call: Call[P, T]) -> Method[Concatenate[str, P], Coroutine[Any, Any, T], T]:
    """Make the method of a call whose path refers to one object."""
    return _make(call)


def of_two(call: Call[P, T]) -> Method[Concatenate[str, str, P], Coroutine[Any, Any, T], T]:
    """Make the method of a call whose path refers to two objects."""
    return _make(call)


def listed(call: Pages[T]) -> Method[[], AsyncGenerator[T, None], Generator[T, None, None]]:
    """Make the method of a list that belongs to no object."""
    return _make(call)


def listed_of(call: Pages[T]) -> Method[[str], AsyncGenerator[T, None], Generator[T, None, None]]:
    """Make the method of a list that belongs to an object."""
    return _make(call)


def found(kind: str) -> Method[[str], Coroutine[Any, Any, str], str]:
    """Make the method that completes the id of an object of a kind."""
    given = "its name" if kind in ("study", "device") else "all of it"
    text = f"""Return the id of the {kind}, given {given} or its first 6 or more digits.

    Raises
    ------
    NotFoundError, ConfigError
        No {kind} fits, or more than one; the error lists the candidates.
    """

    def start(client: Any, arguments: dict[str, Any]) -> Coroutine[Any, Any, str]:
        return cast("Coroutine[Any, Any, str]", client._find(*arguments.values(), kind))

    name = "study" if kind == "study" else "reference"
    return Method(start, run, [_refer(name)], ("str", "str"), cleandoc(text))


def _make(call: Call[Any, Any]) -> Method[Any, Any, Any]:
    parameters, meanings = _list_parameters(call)
    n_references, is_list = len(call.references), isinstance(call, Pages)

    def start(client: Any, arguments: dict[str, Any]) -> Any:
        references = [arguments.pop(each.name) for each in parameters[:n_references]]
        if is_list:
            return client._list(call, *references)
        body = None if call.request is Nothing else asdict(cast(Any, call.request)(**arguments))
        return client._call(call, *references, body=body)

    text = call.text
    if parameters:
        lines = [text, "", "Parameters", "----------"]
        for parameter, meaning in zip(parameters, meanings, strict=True):
            lines += (parameter.name, indent(fill(meaning, 88), "    "))
        text = "\n".join(lines)
    item = call.answer.__name__
    returns = (f"AsyncIterator[{item}]", f"Iterator[{item}]") if is_list else (item, item)
    return Method(start, run_all if is_list else run, parameters, returns, text)


def _list_parameters(call: Call[Any, Any]) -> tuple[list[Parameter], list[str]]:
    """Return the parameters of a call, references first, and the meaning of each."""
    parameters = [_refer(kind if kind == "study" else f"{kind}_id") for kind in call.references]
    meanings = [_MEANINGS.get(kind, _BEGINNING) for kind in call.references]
    if call.request is not Nothing:
        hints = get_type_hints(call.request)
        for each in fields(cast(Any, call.request)):
            default = Parameter.empty if each.default is MISSING else each.default
            if each.default_factory is not MISSING:
                default = each.default_factory()
            kind, hint = Parameter.KEYWORD_ONLY, hints[each.name]
            parameters.append(Parameter(each.name, kind, default=default, annotation=hint))
            meanings.append(re.sub(r"\bnull\b", "None", each.metadata["description"]))
    return parameters, meanings


def _refer(name: str) -> Parameter:
    return Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, annotation=str)
