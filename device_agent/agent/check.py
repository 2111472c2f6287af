"""Dry run: examine state, server, plan and sources without noise, sums or a change of the state."""

from __future__ import annotations

import bisect
import errno
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from sfumato.device_agent.agent.campaign import narrow
from sfumato.device_agent.agent.device import Clock, Device, open_device
from sfumato.device_agent.agent.dry_run import DryRun, Sampler, SearchBox, without_lock
from sfumato.device_agent.agent.dry_run_limits import find_problems, find_questions
from sfumato.device_agent.agent.enrol import verify_plan
from sfumato.device_agent.agent.exchange.clocks import ServerClock
from sfumato.device_agent.agent.exchange.comparison import describe_copied, find_copied, load_offers
from sfumato.device_agent.agent.membership import (
    describe_unseen,
    examine_joining,
    find_unjoined,
    require_joined,
)
from sfumato.device_agent.agent.owners_ledger import (
    describe_ledger,
    locate_ledger,
    require_in_shared_budget,
    sum_up_streams,
)
from sfumato.device_agent.agent.policy import (
    describe_budget,
    describe_policy,
    require_plan_allowed,
    require_server_allowed,
)
from sfumato.device_agent.agent.reading.slots import describe_due, plan_slots
from sfumato.device_agent.agent.reading.windows import ENVELOPE_BYTES, open_stream_source
from sfumato.device_agent.server.connection import make_context
from sfumato.device_agent.server.transport import ServerClient
from sfumato.device_agent.settings.agent_settings import Settings
from sfumato.device_agent.sources import KnownPosition
from sfumato.device_agent.sources.settings import StreamSettings
from sfumato.device_agent.store.database import DATABASE_NAME, open_database, sum_ledger
from sfumato.device_agent.store.identity import load_identity
from sfumato.device_agent.store.key import DIGEST_KEY_NAME, key_folder, load_digest_key
from sfumato.device_agent.store.positions import load_positions
from sfumato.device_agent.store.streams import load_stream
from sfumato.device_agent.windows import Clocks, WindowCutter, describe_difference
from sfumato.shared.core.engines import describe_engine
from sfumato.shared.errors import ConfigError, DiskError, PlanMismatchError, SketchError, StoreError
from sfumato.shared.plan import (
    SketchPlan,
    compute_plan_digest,
    describe_helper,
    describe_release,
    describe_times,
    describe_trust,
    find_cautions,
    make_event,
)
from sfumato.shared.privacy import require_within_budget
from sfumato.shared.privacy.accounting import explain_relations

Audience = Literal["anyone", "terminal", "asked"]
"""``terminal``: depends on values, and is for whoever sits here, or asks. ``asked``: also tells how
many records there are under a plan that hides it, and is for whoever asks alone."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Result of one examination.

    Parameters
    ----------
    text
        Description of what is in order.
    error
        The fault.
    run
        What was found in a stream's first records; never logged or stored.
    warns
        Whether the text is a warning.
    audience
        Who may see text and run. An error is for anyone.
    """

    text: str = ""
    error: SketchError | None = None
    run: DryRun | None = field(default=None, repr=False)
    warns: bool = False
    audience: Audience = "anyone"

    def is_for(self, *, is_terminal: bool, is_asked: bool) -> bool:
        """Return whether it may be shown: on a terminal, or to an owner who has asked."""
        allowed = {"anyone", *(("terminal",) if is_terminal else ())}
        return is_asked or self.audience in allowed


def check_device(settings: Settings, *, clock: Clock) -> Iterator[Finding]:
    """Examine state, server, plan and sources in turn, and yield the findings.

    What speaks against a stream is an error until it has joined, and a warning afterwards: the exit
    status of a command must not depend on values of records that are being released.
    """
    yield Finding(text=f"engine: {describe_engine(settings.engine)}")
    if warning := settings.describe_server():
        yield Finding(text=warning, warns=True)
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
        yield from _describe_limits(settings, device.plan, device.connection)
        if device.next_key is not None:
            yield Finding(
                text="key: a change was begun and is not finished; the next run does that",
                warns=True,
            )
        box: SearchBox = {}
        clocks = ServerClock(device.connection).read(clock())
        try:
            clocks, box, text = _check_server(device, client, clock)
            yield Finding(text=text)
        except SketchError as error:
            yield Finding(error=error)
        yield from _check_joining(
            settings,
            device.plan,
            known=load_positions(device.connection),
            now=clocks.latest_believable,
            box=box,
        )
        unjoined = find_unjoined(settings)
        for stream in settings.streams:
            try:
                if stream in unjoined:
                    require_joined(settings, stream)
                yield from _check_relations(device, stream.name)
                yield from _check_stream(device, stream, clocks, box)
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
    with ExitStack() as stack:
        connection = None
        try:
            require_server_allowed(settings)
            context = make_context(settings.tls)
            with ServerClient(
                settings.server, device=b"", sign=lambda _: b"", clock=clock, context=context
            ) as client:
                answer = client.fetch_plan(settings.study)
                plan = verify_plan(answer, settings.study)
            settings = narrow(settings, plan)
            require_plan_allowed(settings, plan)
            if (settings.state_dir / DATABASE_NAME).exists():
                # Of a device that was forgotten, and of other studies.
                database = open_database(settings.state_dir, settings.study)
                connection = stack.enter_context(closing(database))
            for stream in settings.streams:
                next_sequence = 0
                if connection is not None:
                    next_sequence = load_stream(connection, stream.name).next_sequence
                event = make_event(
                    plan, stream=stream.name, sequence=next_sequence, study=settings.study
                )
                require_within_budget((), event, settings.limits)
                require_in_shared_budget(settings, connection, event, stream.find_origins(plan))
        except SketchError as error:
            yield Finding(error=error)
            return
        names = ", ".join(dimension.name for dimension in plan.dimensions)
        yield Finding(text=f"plan: {names}; {describe_release(plan)}")
        yield Finding(text=f"plan: its digest is {compute_plan_digest(plan).hex()}")
        yield from _describe_limits(settings, plan, connection)
        known = [] if connection is None else load_positions(connection)
        yield from _check_joining(settings, plan, known=known, now=clock(), box=answer.search_box)
        yield Finding(text=f"{settings.state_dir} holds no device yet: run `sfumato-agent init`")


def _check_joining(
    settings: Settings,
    plan: SketchPlan,
    *,
    known: Iterable[KnownPosition],
    now: float,
    box: SearchBox,
) -> Iterator[Finding]:
    """Look at the streams that have not joined; what speaks against them is an error."""
    folder = key_folder(settings.state_dir, settings.study)
    # None is made here: without it a file is known by its identity alone.
    key = load_digest_key(folder) if (folder / DIGEST_KEY_NAME).exists() else bytes(32)
    known = list(known)
    for stream in find_unjoined(settings):
        what = f"stream {stream.name}"
        try:
            run, problems = examine_joining(
                settings, plan, stream, known=known, digest_key=key, now=now, box=box
            )
        except SketchError as error:
            yield Finding(error=error)
            continue
        if run.unseen:
            yield Finding(text=f"{what}: {describe_unseen(run, plan)}", warns=True)
        else:
            yield Finding(text=f"{what}: looked at its records", run=run, audience="terminal")
        for note in run.notes:
            yield Finding(text=f"{what}: {note}", warns=True)
        for question in find_questions(run, field=what):
            yield Finding(text=question, warns=True)
        for problem in problems:
            yield Finding(error=problem)
        if not problems:
            yield Finding(text=f"{what}: may join")


def _describe_limits(
    settings: Settings, plan: SketchPlan, connection: sqlite3.Connection | None = None
) -> Iterator[Finding]:
    yield Finding(text=describe_policy(settings))
    yield Finding(text=describe_budget(settings.limits))
    spent = sum_up_streams(settings, connection, plan)
    for text in describe_ledger(locate_ledger(settings), spent):
        yield Finding(text=text)
    if plan.sum_release is not None:
        yield Finding(text=f"helper: {describe_helper(plan.sum_release)}")
        yield Finding(text=f"plan: {describe_trust(plan)}")
    if times := describe_times(plan):
        yield Finding(text=f"plan: {times}")
    for caution in find_cautions(plan):
        yield Finding(text=f"plan: {caution}", warns=True)


def _check_server(
    device: Device, client: ServerClient, clock: Clock
) -> tuple[Clocks, SearchBox, str]:
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
    text = f"server: {device.settings.server} answers; clocks differ by {seconds:.0f} s"
    return clocks, plan.search_box, text


def _check_relations(device: Device, stream: str) -> Iterator[Finding]:
    event = device.make_event(stream, 0)
    readers = {event.reader, *device.find_near(stream)}
    released = [each for each in sum_ledger(device.connection) if each.reader in readers]
    if explained := explain_relations([*released, event]):
        yield Finding(text=f"stream {stream}: {explained}", warns=True)


def _check_stream(
    device: Device, stream: StreamSettings, clocks: Clocks, box: SearchBox
) -> Iterator[Finding]:
    if device.plan.releases_count:
        yield from _check_slots(device, stream, clocks, box)
        return
    plan = device.plan
    cutter = WindowCutter.of_plan(plan, begins=device.identity.begins)
    state = load_stream(device.connection, stream.name)
    if state.suspended:
        raise StoreError(f"is suspended: {state.suspended}", field=f"stream {stream.name}")
    window, n_records, n_sketches = state.window, 0, 0
    now = clocks.latest_believable
    sampler = Sampler(stream, plan, device.settings.check, now=now, box=box)
    with closing(open_stream_source(device, without_lock(stream), now=lambda: now)) as source:
        guarantee, keeper = source.guarantee, source.keep_rows()
        # A dry run takes nothing away.
        for batch in () if guarantee.consumes else source.read():
            sampler.add(batch)
            n_records += len(batch.timestamps)
            for cut in cutter.cut(window, batch.timestamps, now=clocks.latest_believable):
                n_sketches += cut.closed is not None
                window = cut.state
        notes = [*source.report.describe_reading(hides_counts=plan.hides_counts), *source.caveats]
        value_notes = source.report.describe_values(hides_counts=plan.hides_counts)
        run = sampler.finish(source, keeper.rows)
    window = cutter.settle(window, now=clocks.latest_believable)
    over = cutter.close_over(window, clocks=clocks.closing) if clocks.agree else None
    if over is not None:
        n_sketches, window = n_sketches + 1, over[1]
    size = plan.payload_bytes + ENVELOPE_BYTES
    counted = f"{n_records} new record(s); "
    left = f"; {window.n_records} record(s) stay in the open window"
    if plan.hides_counts:
        counted, left = "", "; how many records there are is secret under this plan"
    yield Finding(
        text=f"stream {stream.name}: {counted}would release {n_sketches} sketch(es) of about "
        f"{size} bytes{left}"
    )
    yield Finding(text=f"stream {stream.name}: {guarantee.describe()}")
    for note in notes:
        yield Finding(text=f"stream {stream.name}: {note}", warns=True)
    yield from _describe_values(device, run, value_notes)
    yield _check_budget(device, stream.name, state.next_sequence, n_sketches)


def _describe_values(device: Device, run: DryRun, notes: Iterable[str] = ()) -> Iterator[Finding]:
    """List notes about values for the owner of a stream that has joined; they change nothing.

    Where the plan hides how many records there are, only on request: all of this tells it.
    """
    audience: Audience = "asked" if device.plan.hides_counts else "terminal"
    what = f"stream {run.stream}"
    for note in notes:
        yield Finding(text=f"{what}: {note}", warns=True, audience=audience)
    if run.unseen is None:
        yield Finding(text=f"{what}: looked at its records", run=run, audience=audience)
    problems = map(str, find_problems(run, device.settings.check, field=what))
    for text in (*find_questions(run, field=what), *problems):
        yield Finding(text=text, warns=True, audience=audience)


def _check_slots(
    device: Device, stream: StreamSettings, clocks: Clocks, box: SearchBox
) -> Iterator[Finding]:
    """Read a source without telling how many records are in it, unless the owner asks."""
    load_stream(device.connection, stream.name).require_not_suspended()
    due, _ = plan_slots(device, stream.name, clocks=clocks)
    now = clocks.latest_believable
    sampler = Sampler(stream, device.plan, device.settings.check, now=now, box=box)
    with closing(open_stream_source(device, without_lock(stream))) as source:
        keeper = source.keep_rows()
        for batch in () if source.guarantee.consumes else source.read():
            sampler.add(batch)
        caveats = source.caveats
        run = sampler.finish(source, keeper.rows)
    yield Finding(
        text=f"stream {stream.name}: can be read; would release {describe_due(device.plan, due)}; "
        "how many records there are is secret under this plan",
    )
    for caveat in caveats:
        yield Finding(text=f"stream {stream.name}: {caveat}", warns=True)
    yield from _describe_values(device, run)
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
