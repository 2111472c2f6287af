"""Dry run: examine state, server, plan and sources without noise, sums or a change of the state."""

from __future__ import annotations

import bisect
import errno
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path

from device_agent.agent.device import Clock, Device, make_event, open_device
from device_agent.agent.enrol import verify_plan
from device_agent.agent.exchange.clocks import ServerClock
from device_agent.agent.exchange.comparing import describe_copied, find_copied, load_offers
from device_agent.agent.owners_ledger import require_in_shared_budget
from device_agent.agent.policy import (
    describe_budget,
    describe_policy,
    require_plan_allowed,
    require_server_allowed,
)
from device_agent.agent.reading.slots import plan_slots
from device_agent.agent.reading.windows import open_stream_source
from device_agent.server.connection import make_context
from device_agent.server.transport import ServerClient
from device_agent.settings.agent_settings import Settings
from device_agent.sources import RecordBatch
from device_agent.sources.settings import LocalSettings, StreamSettings
from device_agent.store.database import DATABASE_NAME, open_database
from device_agent.store.identity import load_identity
from device_agent.store.streams import load_stream
from device_agent.windows import Clocks, WindowCutter, describe_difference
from shared.core.engines import describe_engine
from shared.errors import ConfigError, DiskError, PlanMismatchError, SketchError, StoreError
from shared.plan import SketchPlan, compute_plan_digest, describe_release, find_cautions
from shared.privacy import require_within_budget

_SHOWN_RECORDS = 3
_ENVELOPE_BYTES = 400


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Result of one examination.

    Parameters
    ----------
    text
        Description of what is in order.
    error
        The fault.
    values
        Records to show on a terminal; never logged or stored.
    depends_on_values
        Whether the text depends on values, so that it too is for a terminal only.
    """

    text: str = ""
    error: SketchError | None = None
    values: tuple[str, ...] = field(default=(), repr=False)
    depends_on_values: bool = False


def check_device(settings: Settings, *, clock: Clock) -> Iterator[Finding]:
    """Examine state, server, plan and sources in turn, and yield the findings."""
    yield Finding(text=f"engine: {describe_engine(settings.engine)}")
    if warning := settings.describe_server():
        yield Finding(text=warning)
    yield _check_disk(settings.state_dir)
    if not _has_enrolled(settings.state_dir, settings.study):
        yield from _check_before_enrolling(settings, clock)
        return
    with ExitStack() as stack:
        try:
            device = stack.enter_context(open_device(settings))
            client = stack.enter_context(device.connect(clock))
        except SketchError as error:
            yield Finding(error=error)
            return
        release = device.plan.release
        yield Finding(text=f"plan: epsilon {release.epsilon} a window, {release.neighbouring}")
        yield from _describe_limits(settings, device.plan)
        if device.next_key is not None:
            yield Finding(
                text="key: a change was begun and is not finished; the next run does that"
            )
        clocks = ServerClock(device.connection).read(clock())
        try:
            clocks, text = _check_server(device, client, clock)
            yield Finding(text=text)
        except SketchError as error:
            yield Finding(error=error)
        for stream in settings.streams:
            try:
                yield from _check_stream(device, stream, clocks)
            except SketchError as error:
                yield Finding(error=error)


def _has_enrolled(folder: Path, study: bytes) -> bool:
    """Return whether the folder holds a device; True also if it cannot be read."""
    if not (folder / DATABASE_NAME).exists():
        return False
    try:
        with closing(open_database(folder, study)) as connection:
            return load_identity(connection) is not None
    except SketchError:
        return True


def _check_disk(folder: Path) -> Finding:
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=existing) as file:
            file.write(bytes(1 << 16))
            file.flush()
    except OSError as error:
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        problem = (DiskError if is_full else ConfigError)(
            f"{existing} cannot be written ({error.strerror})",
            field="state_dir",
            fix="free space on that disk" if is_full else "name a folder of this user",
        )
        return Finding(error=problem)
    return Finding(text=f"disk: {existing} can be written")


def _check_before_enrolling(settings: Settings, clock: Clock) -> Iterator[Finding]:
    # The plan is public: no key is needed to look at it, and none is made.
    try:
        require_server_allowed(settings)
        context = make_context(settings.tls)
        with ServerClient(
            settings.server, device=b"", sign=lambda _: b"", clock=clock, context=context
        ) as client:
            plan = verify_plan(client.fetch_plan(settings.study), settings.study)
        require_plan_allowed(settings, plan)
        for stream in settings.streams:
            event = make_event(settings.study, plan, stream.name, 0)
            require_within_budget((), event, settings.limits)
            require_in_shared_budget(settings, None, event, stream.find_origins())
    except SketchError as error:
        yield Finding(error=error)
        return
    names = ", ".join(dimension.name for dimension in plan.dimensions)
    yield Finding(text=f"plan: {names}; {describe_release(plan)}")
    yield Finding(text=f"plan: its digest is {compute_plan_digest(plan).hex()}")
    yield from _describe_limits(settings, plan)
    yield Finding(
        error=ConfigError(
            f"{settings.state_dir} must hold an enrolled device",
            field="state_dir",
            fix="run `sfumato-agent init`, then check again",
        )
    )


def _describe_limits(settings: Settings, plan: SketchPlan) -> Iterator[Finding]:
    yield Finding(text=describe_policy(settings))
    yield Finding(text=describe_budget(settings.limits))
    for caution in find_cautions(plan):
        yield Finding(text=f"plan: warning: {caution}")


def _check_server(device: Device, client: ServerClient, clock: Clock) -> tuple[Clocks, str]:
    answer = client.fetch_device()
    known = ServerClock(device.connection).read(clock())
    clocks = replace(known, server=answer.server_time)
    if copied := find_copied(load_offers(device.connection), answer):
        raise describe_copied(copied)
    plan = client.fetch_plan(device.identity.study)
    if plan.plan_bytes != device.identity.plan_bytes:
        raise PlanMismatchError(
            "must be the plan that this device enrolled for",
            field="plan",
            fix="ask the study's operator; nothing was sent",
        )
    if not clocks.agree:
        raise ConfigError(describe_difference(clocks).removeprefix("clock: "), field="clock")
    seconds = abs(clocks.device - answer.server_time)
    return clocks, f"server: {device.settings.server} answers; clocks differ by {seconds:.0f} s"


def _check_stream(device: Device, stream: StreamSettings, clocks: Clocks) -> Iterator[Finding]:
    if device.plan.releases_count:
        yield from _check_slots(device, stream, clocks)
        return
    cutter = WindowCutter.of_plan(device.plan)
    state = load_stream(device.connection, stream.name)
    if state.suspended:
        raise StoreError(f"is suspended: {state.suspended}", field=f"stream {stream.name}")
    window, n_records, n_sketches = state.window, 0, 0
    shown: tuple[str, ...] = ()
    with closing(open_stream_source(device, _without_lock(stream))) as source:
        guarantee = source.guarantee
        # A dry run takes nothing away.
        for batch in () if guarantee.consumes else source.read():
            shown = shown or _show_records(batch, device)
            n_records += len(batch.timestamps)
            for cut in cutter.cut(window, batch.timestamps, now=clocks.latest_believable):
                n_sketches += cut.closed is not None
                window = cut.state
        notes = [*source.report.describe_reading(), *source.caveats]
        value_notes = source.report.describe_values()
    window = cutter.settle(window, now=clocks.latest_believable)
    over = cutter.close_over(window, clocks=clocks.closing) if clocks.agree else None
    if over is not None:
        n_sketches, window = n_sketches + 1, over[1]
    size = device.plan.payload_bytes + _ENVELOPE_BYTES
    counted = f"{n_records} new record(s); "
    left = f"; {window.n_records} record(s) stay in the open window"
    if device.plan.hides_counts:
        counted, left = "", "; how many records there are is secret under this plan"
    yield Finding(
        text=f"stream {stream.name}: {counted}would release {n_sketches} sketch(es) of about "
        f"{size} bytes{left}",
        values=shown,
    )
    yield Finding(text=f"stream {stream.name}: {guarantee.describe()}")
    for note in notes:
        yield Finding(text=f"stream {stream.name}: {note}")
    for note in value_notes:
        yield Finding(text=f"stream {stream.name}: {note}", depends_on_values=True)
    yield _check_budget(device, stream.name, state.next_sequence, n_sketches)


def _without_lock(stream: StreamSettings) -> StreamSettings:
    source = stream.source
    if isinstance(source, LocalSettings):
        source = replace(source, lock=False)
    return replace(stream, source=source)


def _check_slots(device: Device, stream: StreamSettings, clocks: Clocks) -> Iterator[Finding]:
    """Read a source without telling how many records are in it.

    No record is shown: of a source with one record or none, even that would tell.
    """
    load_stream(device.connection, stream.name).require_not_suspended()
    due, _ = plan_slots(device, stream.name, clocks=clocks)
    with closing(open_stream_source(device, _without_lock(stream))) as source:
        for _ in source.read():
            pass
        caveats = source.caveats
    size = device.plan.payload_bytes + _ENVELOPE_BYTES
    yield Finding(
        text=f"stream {stream.name}: can be read; would release {len(due)} sketch(es) of about "
        f"{size} bytes, one for each slot that is over; how many records there are is secret under "
        "this plan",
    )
    for caveat in caveats:
        yield Finding(text=f"stream {stream.name}: {caveat}")
    epsilon = device.plan.release.epsilon
    yield Finding(
        text=f"stream {stream.name}: cost epsilon {epsilon if due else 0} for each record, "
        f"{epsilon * len(due)} for someone in every window; the budget allows it"
    )


def _check_budget(device: Device, stream: str, next_sequence: int, n_sketches: int) -> Finding:
    def refusal(n_released: int) -> SketchError | None:
        try:
            device.require_all_affordable(stream, range(next_sequence, next_sequence + n_released))
        except SketchError as error:
            return error
        return None

    n_paid = bisect.bisect_left(range(n_sketches), True, key=lambda i: refusal(i + 1) is not None)
    if n_paid < n_sketches:
        return Finding(error=refusal(n_paid + 1))
    epsilon = device.plan.release.epsilon
    return Finding(
        text=f"stream {stream}: cost epsilon {epsilon if n_sketches else 0} for "
        f"{'a window' if device.plan.protects_devices else 'each record'}, "
        f"{epsilon * n_sketches} for someone in every window; the budget allows it"
    )


def _show_records(batch: RecordBatch, device: Device) -> tuple[str, ...]:
    names = [dimension.name for dimension in device.plan.dimensions]
    return tuple(
        ", ".join(f"{name}={value:g}" for name, value in zip(names, record, strict=True))
        for record in batch.values[:_SHOWN_RECORDS].tolist()
    )
