"""How a device stands: its streams and sketches, and what it has spent. Changes nothing."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from device_agent.settings import Settings
from device_agent.store import (
    Identity,
    LedgerEntry,
    OutboxCounts,
    OutboxSketch,
    StreamState,
    StudyNotice,
    check_folder,
    count_sketches,
    list_sketches,
    list_streams,
    load_entries,
    load_notice,
    load_stream,
    open_database,
    require_identity,
    sum_ledger,
)
from shared.plan import decode_plan
from shared.privacy import PrivacyLoss, compute_lifetime_loss, compute_per_record_loss


@dataclass(frozen=True, kw_only=True)
class StatusReport:
    """Streams and outbox; ``sketches`` are those that wait or were set aside.

    Where ``is_secret``, the number of records is shown nowhere.
    """

    identity: Identity
    server: str
    streams: tuple[StreamState, ...]
    counts: OutboxCounts
    sketches: tuple[OutboxSketch, ...]
    is_secret: bool
    notice: StudyNotice

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values, without any sum."""
        return {
            "device_id": self.identity.device.hex(),
            "study_id": self.identity.study.hex(),
            "server": self.server,
            "study_state": self.notice.state,
            "key_change_open": self.identity.keys.following is not None,
            "streams": [_stream_to_json(stream, self.is_secret) for stream in self.streams],
            **asdict(self.counts),
            "sketches": [_sketch_to_json(sketch) for sketch in self.sketches],
        }


@dataclass(frozen=True, kw_only=True)
class StreamBudget:
    """What one stream has spent, exact, and what the owner allows; None is no limit."""

    stream: str
    n_releases: int
    per_record_loss: PrivacyLoss
    per_record_limit: Fraction | None
    lifetime_loss: PrivacyLoss
    lifetime_limit: Fraction | None

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values; exact numbers are text."""
        return {
            "stream": self.stream,
            "n_releases": self.n_releases,
            "epsilon_spent_per_record": str(self.per_record_loss.epsilon),
            "delta_spent_per_record": str(self.per_record_loss.delta),
            "per_record_limit": _show_limit(self.per_record_limit),
            "epsilon_spent_lifetime": str(self.lifetime_loss.epsilon),
            "delta_spent_lifetime": str(self.lifetime_loss.delta),
            "lifetime_limit": _show_limit(self.lifetime_limit),
        }


@dataclass(frozen=True, kw_only=True)
class BudgetReport:
    """The ledger, and the losses computed from it."""

    streams: tuple[StreamBudget, ...]
    entries: tuple[LedgerEntry, ...]

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "streams": [stream.to_json() for stream in self.streams],
            "events": [_entry_to_json(entry) for entry in self.entries],
        }


def report_status(settings: Settings) -> StatusReport:
    """Report streams and outbox.

    Raises
    ------
    ConfigError, StoreError
        There is no enrolled device, or its state cannot be read.
    """
    check_folder(settings.state_dir, create=False)
    with closing(open_database(settings.state_dir)) as connection:
        identity = require_identity(connection, settings.state_dir)
        return StatusReport(
            identity=identity,
            server=settings.server,
            streams=tuple(load_stream(connection, name) for name in list_streams(connection)),
            counts=count_sketches(connection),
            sketches=tuple(list_sketches(connection, "waiting", "shelved")),
            is_secret=decode_plan(identity.plan_bytes).releases_count,
            notice=load_notice(connection),
        )


def report_budget(settings: Settings) -> BudgetReport:
    """Report the ledger and what it amounts to; raises as :func:`report_status`."""
    check_folder(settings.state_dir, create=False)
    with closing(open_database(settings.state_dir)) as connection:
        entries = tuple(load_entries(connection))
        events = sum_ledger(connection)
        names = {*list_streams(connection), *(stream.name for stream in settings.streams)}
    streams = tuple(
        StreamBudget(
            stream=name,
            n_releases=sum(event.count for event in events if event.stream == name),
            per_record_loss=compute_per_record_loss(events, name),
            per_record_limit=settings.budget.per_record,
            lifetime_loss=compute_lifetime_loss(events, name),
            lifetime_limit=settings.budget.lifetime,
        )
        for name in sorted(names)
    )
    return BudgetReport(streams=streams, entries=entries)


def format_time(seconds: float) -> str:
    """Write a time as RFC 3339 UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _show_limit(limit: Fraction | None) -> str | None:
    return None if limit is None else str(limit)


def _stream_to_json(stream: StreamState, is_secret: bool) -> dict[str, Any]:
    window = stream.window
    by_time = window.first_slot is not None
    return {
        "name": stream.name,
        "next_sequence": stream.next_sequence,
        "suspended": stream.suspended,
        "open_window": {
            "n_records": None if is_secret else window.n_records,
            "unsketchable": None if is_secret else stream.n_unsketchable,
            "slots": [window.first_slot, window.last_slot] if by_time else None,
        },
    }


def _sketch_to_json(sketch: OutboxSketch) -> dict[str, Any]:
    return {
        "sketch_id": sketch.sketch_id.hex(),
        "stream": sketch.stream,
        "sequence": sketch.sequence,
        "n_records": sketch.n_records,
        "slots": None if sketch.slots is None else list(sketch.slots),
        "released": format_time(sketch.released_at),
        "n_bytes": sketch.n_bytes,
        "state": sketch.state,
        "problem": sketch.problem,
        "attempts": sketch.attempts,
    }


def _entry_to_json(entry: LedgerEntry) -> dict[str, Any]:
    event = entry.event
    return {
        "stream": event.stream,
        "plan_digest": event.plan_digest.hex(),
        "sequence": event.sequence,
        "epsilon": str(event.epsilon),
        "delta": str(event.delta),
        "released": format_time(entry.released_at),
    }
