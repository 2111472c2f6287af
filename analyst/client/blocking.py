"""The client without coroutines: the calls of the other one, over connections that block.

A coroutine whose connections block never waits, so one step runs it to its end. Nothing here needs
an event loop, and a notebook that has one can use it.
"""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator
from functools import update_wrapper
from types import TracebackType
from typing import Any, ClassVar, Concatenate, Generic, ParamSpec, Self, TypeVar, cast

from sfumato.analyst.client.analyses import AsyncAnalysis
from sfumato.analyst.client.catalogue import Catalogue
from sfumato.analyst.client.client import AsyncClient
from sfumato.analyst.client.decodes import AsyncDecode, AsyncServedResult
from sfumato.analyst.client.methods import Blocks, run, run_all
from sfumato.analyst.results.analyses import AnalysisResult

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R", bound=AnalysisResult[Any])

_TWIN = re.compile(r"\bAsync(?=[A-Z])")


def _calling(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], T]:
    """Make a method that runs one of the same name to its end."""

    def call(self: Any, /, *given: P.args, **named: P.kwargs) -> T:
        return run(method(self._calls, *given, **named))

    return _describe(call, method)


def _listing(
    method: Callable[Concatenate[Any, P], AsyncIterator[T]],
) -> Callable[Concatenate[Any, P], Generator[T, None, None]]:
    """Make a method that yields what one of the same name yields."""

    def call(self: Any, /, *given: P.args, **named: P.kwargs) -> Generator[T, None, None]:
        return run_all(cast("AsyncGenerator[T, None]", method(self._calls, *given, **named)))

    return _describe(call, method)


def _analysing(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, AsyncAnalysis[R]]],
) -> Callable[Concatenate[Any, P], Analysis[R]]:
    """Make a method that starts an analysis."""

    def call(self: Client, /, *given: P.args, **named: P.kwargs) -> Analysis[R]:
        started = run(method(self._calls, *given, **named))
        return Analysis(self, started.analysis_id, started.result)

    return _describe(call, method)


def _decoding(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, AsyncDecode]],
) -> Callable[Concatenate[Any, P], Decode]:
    """Make a method that starts a decode."""

    def call(self: Client, /, *given: P.args, **named: P.kwargs) -> Decode:
        return Decode(self, run(method(self._calls, *given, **named)).decode_id)

    return _describe(call, method)


def _serving(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, AsyncServedResult]],
) -> Callable[Concatenate[Any, P], ServedResult]:
    """Make a method that returns a result; the class of it follows from the connection."""
    return cast("Callable[Concatenate[Any, P], ServedResult]", _calling(method))


F = TypeVar("F", bound=Callable[..., Any])


def _describe(call: F, method: Callable[..., Any]) -> F:
    """Give a method name, help and signature of its twin, with the classes of this client."""
    update_wrapper(call, method)
    signature = inspect.signature(method)
    returned = _TWIN.sub("", str(signature.return_annotation)).replace("Stream", "Iterator")
    call.__signature__ = signature.replace(return_annotation=returned)  # type: ignore[attr-defined]
    call.__doc__ = _TWIN.sub("", method.__doc__ or "")
    return call


class ServedResult(AsyncServedResult):
    """The result of a decode on a server, which keeps its densities."""

    @property
    def _calls(self) -> Self:
        return self

    synthesise = _calling(AsyncServedResult.synthesise)  # type: ignore[assignment]


class _Calls(AsyncClient):
    _blocks: ClassVar[bool] = True

    @property
    def _served(self) -> type[AsyncServedResult]:
        return ServedResult


class Client(Catalogue, Blocks):
    """Client of an aggregator."""

    __doc__ = AsyncClient.__doc__

    def __init__(
        self, url: str, *, key: str | None = None, timeout: float = 30.0, patience_s: float = 60.0
    ) -> None:
        self._calls = _Calls(url, key=key, timeout=timeout, patience_s=patience_s)
        self.url = self._calls.url

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    close = _calling(AsyncClient.aclose)

    advise = _calling(AsyncClient.advise)
    create_study = _calling(AsyncClient.create_study)
    studies = _listing(AsyncClient.studies)
    plan = _calling(AsyncClient.plan)
    set_state = _calling(AsyncClient.set_state)
    set_search_box = _calling(AsyncClient.set_search_box)
    withdraw_study = _calling(AsyncClient.withdraw_study)
    create_token = _calling(AsyncClient.create_token)
    upload = _calling(AsyncClient.upload)

    snapshot = _calling(AsyncClient.snapshot)
    frozen = _calling(AsyncClient.frozen)
    histogram = _calling(AsyncClient.histogram)
    calibration = _calling(AsyncClient.calibration)

    decode = _decoding(AsyncClient.decode)
    decode_events = _listing(AsyncClient.decode_events)
    ask = _calling(AsyncClient.ask)
    synthesise = _calling(AsyncClient.synthesise)

    find_result = _calling(AsyncClient.find_result)
    plan_look = _calling(AsyncClient.plan_look)

    compare = _analysing(AsyncClient.compare)
    timeline = _analysing(AsyncClient.timeline)
    accept_change = _calling(AsyncClient.accept_change)
    reopen_change = _calling(AsyncClient.reopen_change)
    groups = _analysing(AsyncClient.groups)
    device_health = _analysing(AsyncClient.device_health)
    analysis_events = _listing(AsyncClient.analysis_events)

    devices = _listing(AsyncClient.devices)
    create_key = _calling(AsyncClient.create_key)
    revoke_key = _calling(AsyncClient.revoke_key)

    publish = _calling(AsyncClient.publish)
    published = _calling(AsyncClient.published)

    pause_schedule = _calling(AsyncClient.pause_schedule)
    resume_schedule = _calling(AsyncClient.resume_schedule)
    enable_alarm = _calling(AsyncClient.enable_alarm)

    find_batch = _calling(AsyncClient.find_batch)

    is_ready = _calling(AsyncClient.is_ready)
    read_result = _serving(AsyncClient.read_result)


class Decode:
    """A decode on the server."""

    def __init__(self, client: Client, decode_id: str) -> None:
        self._calls = AsyncDecode(client._calls, decode_id)
        self.decode_id = decode_id

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.decode_id!r})"

    state = _calling(AsyncDecode.state)
    end = _calling(AsyncDecode.end)
    cancel = _calling(AsyncDecode.cancel)
    ask = _calling(AsyncDecode.ask)
    synthesise = _calling(AsyncDecode.synthesise)
    wait = _serving(AsyncDecode.wait)


class Analysis(Generic[R]):
    """An analysis on the server; ``result`` is the class of its result."""

    def __init__(self, client: Client, analysis_id: str, result: type[R]) -> None:
        self._calls = AsyncAnalysis(client._calls, analysis_id, result)
        self.analysis_id = analysis_id
        self.result = result

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.analysis_id!r})"

    state = _calling(AsyncAnalysis.state)
    end = _calling(AsyncAnalysis.end)
    cancel = _calling(AsyncAnalysis.cancel)

    def wait(
        self,
        *,
        progress: Callable[[float], None] | None = None,
        timeout: float | None = None,
        note: Callable[[str], object] = warnings.warn,
    ) -> R:
        """Wait for the result."""
        return run(self._calls.wait(progress=progress, timeout=timeout, note=note))

    wait.__doc__ = AsyncAnalysis.wait.__doc__
