"""The client without coroutines: the calls of the other one, over connections that block.

A coroutine whose connections block never waits, so one step runs it to its end. Nothing here needs
an event loop, and a notebook that has one can use it.
"""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Generator
from functools import update_wrapper
from types import TracebackType
from typing import Any, ClassVar, Concatenate, Generic, ParamSpec, Self, TypeVar, cast

from sfumato.analyst.client.analyses import AsyncAnalysis
from sfumato.analyst.client.client import AsyncClient
from sfumato.analyst.client.decodes import AsyncDecode, AsyncServedResult
from sfumato.analyst.results.analyses import AnalysisResult

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R", bound=AnalysisResult[Any])

_TWIN = re.compile(r"\bAsync(?=[A-Z])")


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


class Client:
    """Client of an aggregator."""

    __doc__ = AsyncClient.__doc__

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        timeout: float = 30.0,
        patience_s: float = 60.0,
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
    study = _calling(AsyncClient.study)
    plan = _calling(AsyncClient.plan)
    set_state = _calling(AsyncClient.set_state)
    set_search_box = _calling(AsyncClient.set_search_box)
    withdraw_study = _calling(AsyncClient.withdraw_study)
    create_token = _calling(AsyncClient.create_token)
    tokens = _listing(AsyncClient.tokens)
    revoke_token = _calling(AsyncClient.revoke_token)
    sketches = _listing(AsyncClient.sketches)
    upload = _calling(AsyncClient.upload)
    refusals = _calling(AsyncClient.refusals)

    snapshot = _calling(AsyncClient.snapshot)
    frozen = _calling(AsyncClient.frozen)
    snapshot_sums = _calling(AsyncClient.snapshot_sums)
    histogram = _calling(AsyncClient.histogram)
    moments = _calling(AsyncClient.moments)
    clusters = _calling(AsyncClient.clusters)
    calibration = _calling(AsyncClient.calibration)

    decode = _decoding(AsyncClient.decode)
    decodes = _listing(AsyncClient.decodes)
    find_decode = _calling(AsyncClient.find_decode)
    decode_state = _calling(AsyncClient.decode_state)
    decode_events = _listing(AsyncClient.decode_events)
    cancel = _calling(AsyncClient.cancel)
    ask = _calling(AsyncClient.ask)
    synthesise = _calling(AsyncClient.synthesise)

    compare = _analysing(AsyncClient.compare)
    timeline = _analysing(AsyncClient.timeline)
    accept_change = _calling(AsyncClient.accept_change)
    accepted_changes = _listing(AsyncClient.accepted_changes)
    reopen_change = _calling(AsyncClient.reopen_change)
    groups = _analysing(AsyncClient.groups)
    device_health = _analysing(AsyncClient.device_health)
    analyses = _listing(AsyncClient.analyses)
    find_analysis = _calling(AsyncClient.find_analysis)
    analysis_state = _calling(AsyncClient.analysis_state)
    analysis_events = _listing(AsyncClient.analysis_events)
    cancel_analysis = _calling(AsyncClient.cancel_analysis)

    devices = _listing(AsyncClient.devices)
    find_device = _calling(AsyncClient.find_device)
    device = _calling(AsyncClient.device)
    exclude_device = _calling(AsyncClient.exclude_device)
    revoke_device = _calling(AsyncClient.revoke_device)
    create_key = _calling(AsyncClient.create_key)
    keys = _listing(AsyncClient.keys)
    revoke_key = _calling(AsyncClient.revoke_key)
    audit = _listing(AsyncClient.audit)

    publish = _calling(AsyncClient.publish)
    publications = _listing(AsyncClient.publications)
    published = _calling(AsyncClient.published)
    identity = _calling(AsyncClient.identity)
    rotate_identity = _calling(AsyncClient.rotate_identity)

    create_schedule = _calling(AsyncClient.create_schedule)
    schedules = _listing(AsyncClient.schedules)
    schedule = _calling(AsyncClient.schedule)
    pause_schedule = _calling(AsyncClient.pause_schedule)
    resume_schedule = _calling(AsyncClient.resume_schedule)
    remove_schedule = _calling(AsyncClient.remove_schedule)
    create_alarm = _calling(AsyncClient.create_alarm)
    alarms = _listing(AsyncClient.alarms)
    alarm = _calling(AsyncClient.alarm)
    test_alarm = _calling(AsyncClient.test_alarm)
    enable_alarm = _calling(AsyncClient.enable_alarm)
    remove_alarm = _calling(AsyncClient.remove_alarm)
    deliveries = _listing(AsyncClient.deliveries)
    find_schedule = _calling(AsyncClient.find_schedule)
    find_alarm = _calling(AsyncClient.find_alarm)

    batches = _listing(AsyncClient.batches)
    batch = _calling(AsyncClient.batch)
    open_batch = _calling(AsyncClient.open_batch)
    admit_batch = _calling(AsyncClient.admit_batch)
    set_batch_aside = _calling(AsyncClient.set_batch_aside)
    give_batch_up = _calling(AsyncClient.give_batch_up)
    suspects = _calling(AsyncClient.suspects)
    find_batch = _calling(AsyncClient.find_batch)

    find_study = _calling(AsyncClient.find_study)

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
