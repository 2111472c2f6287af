"""Streams join a study by a decision of their owner, who has looked at their records before.

The dry run looks at values, so the decision depends on them, and lies outside the guarantee. It is
made when the owner enrols the device or reloads the configuration, and never by itself. Afterwards
only the settings can stop a stream: one that is read in another way than its owner saw is not read.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from sfumato.device_agent.agent.dry_run import (
    CONSUMES,
    EMPTY,
    DryRun,
    SearchBox,
    examine_stream,
)
from sfumato.device_agent.agent.dry_run_limits import find_problems
from sfumato.device_agent.settings.agent_settings import Settings
from sfumato.device_agent.sources import KnownPosition
from sfumato.device_agent.sources.settings import StreamSettings
from sfumato.device_agent.store.joined import Joined, load_joined, save_joined
from sfumato.device_agent.store.key import key_folder
from sfumato.shared.arrays import Floats
from sfumato.shared.errors import ConfigError, RecordError, SketchError
from sfumato.shared.plan import SketchPlan
from sfumato.shared.wire import CLOCK_LEEWAY_S

if TYPE_CHECKING:
    from sfumato.device_agent.agent.device import Device

Show = Callable[[DryRun, SketchPlan], None]
"""Shows the owner what was found in a stream that would join."""


def digest_reading(stream: StreamSettings) -> str:
    """Return the SHA-256 of all settings that decide which records are read, and how."""
    source = stream.source
    found = source.list_reading()
    for name in stream.columns:
        column = stream.find_field(name)
        found[f"columns.{name}"] = repr(
            (column.name, column.conversion.scale, column.conversion.offset)
        )
    found["origins"] = repr(sorted((origin.kind, origin.name) for origin in source.origins))
    return hashlib.sha256(repr(sorted(found.items())).encode()).hexdigest()


def find_unjoined(settings: Settings) -> list[StreamSettings]:
    """Return the streams that have not joined, or are read in another way than when they did."""
    joined = load_joined(key_folder(settings.state_dir, settings.study))
    return [
        stream
        for stream in settings.streams
        if stream.name not in joined or joined[stream.name].digest != digest_reading(stream)
    ]


def require_joined(settings: Settings, stream: StreamSettings) -> Joined:
    """Return how a stream has joined; no value of a record decides it.

    Raises
    ------
    ConfigError
        It has not, or is read in another way than when it did.
    """
    joined = load_joined(key_folder(settings.state_dir, settings.study)).get(stream.name)
    if joined is not None and joined.digest == digest_reading(stream):
        return joined
    raise ConfigError(
        "has not joined the study"
        if joined is None
        else "is read in another way than when it joined the study: its source, times or columns "
        "were set otherwise",
        field=f"stream {stream.name}",
        fix="stop the agent and run `sfumato-agent init`, which looks at the records first",
    )


def examine_unjoined(
    settings: Settings,
    plan: SketchPlan,
    *,
    known: Iterable[KnownPosition],
    digest_key: bytes,
    now: float,
    box: SearchBox | None = None,
) -> Iterator[tuple[DryRun, list[ConfigError]]]:
    """Look at every stream that would join now; see :func:`examine_joining`."""
    known = list(known)
    for stream in find_unjoined(settings):
        yield examine_joining(
            settings, plan, stream, known=known, digest_key=digest_key, now=now, box=box
        )


def examine_joining(
    settings: Settings,
    plan: SketchPlan,
    stream: StreamSettings,
    *,
    known: Sequence[KnownPosition],
    digest_key: bytes,
    now: float,
    box: SearchBox | None = None,
) -> tuple[DryRun, list[ConfigError]]:
    """Look at a stream that would join; return what was found, and what speaks against it.

    Raises
    ------
    RecordError, LedgerError, ConfigError
        Its source cannot be opened or read.
    """
    where = f"streams[{settings.streams.index(stream)}]"
    look = partial(
        examine_stream, stream, plan, settings.check, digest_key=digest_key, now=now, box=box
    )
    run = look(known=known)
    if run.unseen == EMPTY and known:
        # All were read before, perhaps in another way: they are looked at, and not read again.
        with suppress(SketchError):
            run = look(known=())
    problems = find_problems(run, settings.check, field=where)
    if run.unseen and not _may_begin_unseen(plan) and not settings.check.unseen:
        problems.append(_refuse_unseen(run, plan, where))
    return run, problems


def require_fit(
    runs: Iterable[tuple[DryRun, list[ConfigError]]], show: Callable[[DryRun], None]
) -> dict[str, DryRun]:
    """Show every stream that would join, and return them by name.

    Raises
    ------
    ConfigError
        Something speaks against one of them; all of them were shown.
    """
    found, problems = {}, []
    for run, against in runs:
        show(run)
        found[run.stream] = run
        problems += against
    if problems:
        first, n_more = problems[0], len(problems) - 1
        more = f" (and {n_more} more: `sfumato-agent check` shows all)" if n_more else ""
        raise ConfigError(f"{first.rule}{more}", field=first.field, fix=first.fix)
    return found


def note_joined(settings: Settings, runs: dict[str, DryRun]) -> None:
    """Store that streams have joined; may raise ``StoreError``."""
    if not runs:
        return
    folder = key_folder(settings.state_dir, settings.study)
    joined = load_joined(folder)
    for stream in settings.streams:
        if stream.name in runs:
            joined[stream.name] = Joined(
                digest=digest_reading(stream), is_seen=runs[stream.name].unseen is None
            )
    save_joined(folder, joined)


def carry_joined(before: Settings, settings: Settings) -> None:
    """Let the streams of a phase join the next one, read as their owner saw them.

    Raises
    ------
    ConfigError
        One is read in another way than when it joined, or has not.
    StoreError
        It cannot be written.
    """
    known = {stream.name: require_joined(before, stream) for stream in before.streams}
    save_joined(
        key_folder(settings.state_dir, settings.study),
        {
            stream.name: replace(known[stream.name], digest=digest_reading(stream))
            for stream in settings.streams
        },
    )


def describe_unseen(run: DryRun, plan: SketchPlan) -> str:
    """Describe what a stream without a record to look at does once it has joined."""
    then = "it is read as the configuration says, once there is one"
    if _times_matter(plan) and not plan.hides_counts:
        then = "it begins with the first records whose times can be read"
    return f"nothing could be looked at: {run.unseen}; {then}"


def _times_matter(plan: SketchPlan) -> bool:
    return plan.window.kind == "time"


def _may_begin_unseen(plan: SketchPlan) -> bool:
    """Return whether an unseen stream can wait for readable times, or no time matters.

    Times are public under replace-one, and not elsewhere: a wait would show them.
    """
    return not (_times_matter(plan) and plan.hides_counts)


def _refuse_unseen(run: DryRun, plan: SketchPlan, where: str) -> ConfigError:
    why = "presence" if plan.releases_count else "the number of records"
    remedy = "write [check] unseen = true once you are sure of timestamp and timestamp_format"
    if run.unseen != CONSUMES:
        remedy = f"put a few records there first, or {remedy}"
    return ConfigError(
        f"cannot be looked at: {run.unseen}; and where the plan hides {why}, nothing that its "
        "records say may stop it later",
        field=f"{where}.source",
        fix=remedy,
    )


class FirstTimes:
    """Guard of a stream that joined unseen: it begins with records whose times can be read.

    Used under replace-one alone, with windows by time, where times are public. A wrong format would
    else put the records of weeks into one window. The first records may be few, so only a majority
    counts.
    """

    def __init__(self, device: Device, stream: StreamSettings) -> None:
        self._folder = key_folder(device.settings.state_dir, device.settings.study)
        self._stream = stream
        # A bounded plan leaves out what lies before it, such as all records of its pilot.
        self._origin = -math.inf if device.plan.is_bounded else device.plan.window.origin
        is_seen = require_joined(device.settings, stream).is_seen
        self.is_open = _times_matter(device.plan) and not device.plan.hides_counts and not is_seen
        """Whether the first records are still awaited."""

    def require_readable(self, timestamps: Floats, *, now: float) -> None:
        """Check the times of the first records, and note that they are readable.

        Raises
        ------
        RecordError
            Most of them are not; nothing was read.
        """
        outside = (timestamps < self._origin) | (timestamps > now + CLOCK_LEEWAY_S)
        for is_bad, what in (
            (np.isnan(timestamps), "cannot be read"),
            (outside, "lie before the study's first window or in the future, read"),
        ):
            if 2 * np.count_nonzero(is_bad) > len(timestamps):
                raise RecordError(
                    f"does not begin: most times of its first records {what} as "
                    f"{self._stream.source.timestamp_format}",
                    field=f"stream {self._stream.name}",
                    fix="correct timestamp or timestamp_format in [streams.source], then run "
                    "`sfumato-agent init`; a source that cannot be read again must repeat them",
                )
        joined = load_joined(self._folder)
        joined[self._stream.name] = replace(joined[self._stream.name], is_seen=True)
        save_joined(self._folder, joined)
        self.is_open = False
