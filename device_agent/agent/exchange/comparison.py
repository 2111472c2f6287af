"""Compare what the server holds of this device with what this ledger has offered to it.

The ledger notes, on the disk, that a sketch is offered before a byte of it leaves the device. So
the server holds offered sketches alone, or another copy of the state has sent some: a backup of the
state folder was put back, or the device was cloned. That copy may have released the same records,
so nothing more is sent, and its cost is counted too. Conversely, a server that lacks what it has
acknowledged was put back to an earlier day, and gets the same bytes again.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from sfumato.device_agent.agent.device import Device
from sfumato.device_agent.server.messages import DeviceAnswer
from sfumato.device_agent.settings.agent_settings import Settings
from sfumato.device_agent.store.database import transaction
from sfumato.device_agent.store.identity import load_generation, save_generation
from sfumato.device_agent.store.ledger import append_event, load_copied, study_of
from sfumato.device_agent.store.outbox import (
    list_acknowledged,
    list_unoffered,
    send_again,
    shelve_waiting,
)
from sfumato.device_agent.store.streams import list_streams, load_stream, suspend_stream
from sfumato.shared.errors import LedgerError, StoreError
from sfumato.shared.plan import SketchPlan, make_event

Range = tuple[int, int]
"""The first and the last of some sequence numbers."""

COPIED = "released-by-a-copy"
"""The problem of a sketch that is set aside because another copy of the state was at work."""

_MOST_NAMED = 10


@dataclass(frozen=True, kw_only=True)
class Offers:
    """Sketches of this ledger that may be outside the device.

    Parameters
    ----------
    next_sequences
        The next number of each stream; a stream that is missing stands at its beginning.
    unoffered
        Lower numbers of which no byte has left the device.
    copied
        Numbers that another copy of the state is known to have used.
    """

    next_sequences: Mapping[str, int] = field(default_factory=dict)
    unoffered: Mapping[str, set[int]] = field(default_factory=dict)
    copied: Mapping[str, Sequence[Range]] = field(default_factory=dict)


def load_offers(connection: sqlite3.Connection) -> Offers:
    """Load the sketches of this ledger that may be outside the device."""
    names = list_streams(connection)
    return Offers(
        next_sequences={name: load_stream(connection, name).next_sequence for name in names},
        unoffered=list_unoffered(connection),
        copied=load_copied(connection),
    )


def known_streams(connection: sqlite3.Connection, settings: Settings) -> list[str]:
    """Return the streams that were ever read or are configured."""
    return sorted({*list_streams(connection), *(stream.name for stream in settings.streams)})


def find_copied(offers: Offers, answer: DeviceAnswer) -> dict[str, list[Range]]:
    """Return, by stream, the sketches at the server that this ledger neither offered nor counted.

    The server may not say of a number whether it holds it. Such a number counts as held if this
    ledger has not come so far, because it may have been released; otherwise as not held.
    """
    found: dict[str, list[Range]] = {}
    for stream, last in answer.last_sequences.items():
        known = offers.copied.get(stream, ())
        own = sorted(offers.unoffered.get(stream, ()))
        held = [(n, n) for n in own if answer.holds(stream, n)]
        beyond = (offers.next_sequences.get(stream, 0), last)
        held += _subtract(beyond, answer.missing.get(stream, ()))
        new = [part for one in held for part in _subtract(one, known)]
        if new:
            found[stream] = _join(new)
    return found


def describe_copied(copied: Mapping[str, Sequence[Range]]) -> LedgerError:
    """Return the error that names the sketches of another copy of the state."""
    named = "; ".join(f"{name} {_show(ranges)}" for name, ranges in sorted(copied.items()))
    return LedgerError(
        f"the server holds sketches that this ledger never sent ({named}): it was restored from a "
        "backup, or this device was cloned; nothing was sent, and what the other copy released is "
        "counted as spent",
        field=f"stream {', '.join(sorted(copied))}",
        fix="use the state_dir that released them, or enrol a new device with another state_dir",
    )


def require_no_copy(
    connection: sqlite3.Connection,
    settings: Settings,
    plan: SketchPlan,
    answer: DeviceAnswer,
    *,
    now: float,
) -> None:
    """Stop if another copy of this state has sent sketches, before a second noise leaves.

    The copied streams are suspended, their waiting sketches are set aside for good, and the cost of
    the copy's releases is added to the ledger. The other streams are suspended too, because they
    are of the same copy; their waiting sketches are kept until the owner has looked.

    Raises
    ------
    LedgerError
        There is such a copy.
    """
    copied = find_copied(load_offers(connection), answer)
    if not copied:
        return
    error = describe_copied(copied)
    # On a full disk it cannot be kept; then nothing can be offered either.
    with suppress(StoreError), transaction(connection):
        for name, ranges in copied.items():
            note_copied(connection, plan, name, ranges, now=now)
            suspend_stream(connection, name, error.rule)
        for name in known_streams(connection, settings):
            if name not in copied and load_stream(connection, name).suspended is None:
                suspend_stream(connection, name, f"{error.field}: {error.rule}")
    raise error


def note_copied(
    connection: sqlite3.Connection,
    plan: SketchPlan,
    stream: str,
    ranges: Iterable[Range],
    *,
    now: float,
) -> None:
    """Count a copy's releases and set waiting sketches aside; to be called in a transaction."""
    for first, last in ranges:
        study = study_of(connection)
        event = make_event(plan, stream=stream, sequence=last, study=study)
        append_event(connection, replace(event, count=last - first + 1, copy=1), now)
    shelve_waiting(connection, stream, now=now, problem=COPIED)


def note_answer(device: Device, answer: DeviceAnswer, messages: list[str], *, now: float) -> None:
    """Stop if another copy of this state was at work, and send again what the server has lost.

    Raises
    ------
    LedgerError
        The server holds sketches that this ledger never offered.
    StoreError
        The answer cannot be noted; the next poll gets the same one.
    """
    require_no_copy(device.connection, device.settings, device.plan, answer, now=now)
    _send_lost(device, answer, messages)


def _send_lost(device: Device, answer: DeviceAnswer, messages: list[str]) -> None:
    is_restored = answer.generation != load_generation(device.connection)
    lost = [
        (stream, number, kept)
        for stream, number, kept in list_acknowledged(device.connection)
        if answer.holds(stream, number) in ((False, None) if is_restored else (False,))
    ]
    again = [(stream, number) for stream, number, kept in lost if kept]
    gone = [(stream, number) for stream, number, kept in lost if not kept]
    if is_restored or again:
        with transaction(device.connection):
            send_again(device.connection, again)
            if is_restored:
                save_generation(device.connection, answer.generation)
    why = (
        "was restored from a backup"
        if is_restored
        else (
            "lacks sketches that it had acknowledged, as where an older database was put back "
            "without `sfumato restore`"
        )
    )
    if is_restored or again:
        named = f": {_show_sketches(again)}" if again else ""
        messages.append(
            f"the server {why}; {len(again)} sketch(es) are sent again as they were{named}"
        )
    if gone:
        messages.append(
            f"the server {why}; {len(gone)} sketch(es) cannot be sent again, because their bytes "
            f"are kept 30 days: {_show_sketches(gone)}"
        )


def _subtract(whole: Range, parts: Iterable[Range]) -> Iterator[Range]:
    first, last = whole
    for low, high in sorted(parts):
        if low > first:
            yield from [(first, min(last, low - 1))] if first <= last else []
        first = max(first, high + 1)
    if first <= last:
        yield first, last


def _join(ranges: Iterable[Range]) -> list[Range]:
    joined: list[Range] = []
    for first, last in sorted(ranges):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = joined[-1][0], max(last, joined[-1][1])
        else:
            joined.append((first, last))
    return joined


def _show(ranges: Sequence[Range]) -> str:
    shown = [str(a) if a == b else f"{a}-{b}" for a, b in ranges[:_MOST_NAMED]]
    more = ["..."] if len(ranges) > _MOST_NAMED else []
    return ", ".join(shown + more)


def _show_sketches(sketches: Iterable[tuple[str, int]]) -> str:
    by_stream: dict[str, list[Range]] = {}
    for stream, number in sketches:
        by_stream.setdefault(stream, []).append((number, number))
    return "; ".join(f"stream {name} {_show(_join(by_stream[name]))}" for name in sorted(by_stream))
