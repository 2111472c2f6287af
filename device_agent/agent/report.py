"""State of a device, without changing it: its streams and sketches, and what it has spent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from sfumato.device_agent.agent.campaign import reads
from sfumato.device_agent.agent.membership import find_unjoined
from sfumato.device_agent.agent.owners_ledger import locate_ledger, sum_up_streams
from sfumato.device_agent.agent.policy import describe_spent
from sfumato.device_agent.agent.trusted import TrustedResult, load_trusted
from sfumato.device_agent.settings.agent_settings import Settings
from sfumato.device_agent.store.database import (
    check_folder,
    find_near,
    find_same_people,
    open_database,
    sum_ledger,
)
from sfumato.device_agent.store.identity import (
    Identity,
    list_plans,
    load_identity,
    require_identity,
)
from sfumato.device_agent.store.ledger import LedgerEntry, load_entries
from sfumato.device_agent.store.outbox import (
    OutboxCounts,
    OutboxSketch,
    count_sketches,
    list_sketches,
)
from sfumato.device_agent.store.server_state import StudyNotice, load_notice
from sfumato.device_agent.store.streams import StreamState, list_streams, load_stream
from sfumato.shared.errors import SketchError
from sfumato.shared.plan import (
    PHASE_NAMES,
    SketchPlan,
    compute_plan_digest,
    decode_plan,
    describe_release,
    describe_trust,
)
from sfumato.shared.privacy import (
    Budget,
    PrivacyEvent,
    PrivacyLoss,
    Reader,
    compose,
    compute_lifetime_loss,
    compute_per_record_loss,
)
from sfumato.shared.privacy.accounting import (
    explain_relations,
    scale_to_group,
    select_lifetime,
    select_per_record,
    sum_losses,
)
from sfumato.shared.privacy.group import USUAL_GROUPS, compute_group_loss, format_upper
from sfumato.shared.spending import Spent
from sfumato.shared.wire import format_time


@dataclass(frozen=True, kw_only=True)
class StatusReport:
    """Plan, streams and outbox; ``sketches`` are those that wait or were set aside.

    ``unjoined`` names the configured streams that are not read before their owner lets them join;
    ``reads`` is false in a phase of a campaign that it leaves out;
    ``published`` is the result that was pulled last, or why it is not used.

    Where the plan hides the number of records, it is shown nowhere.
    """

    identity: Identity
    name: str | None
    plan: SketchPlan
    server: str
    streams: tuple[StreamState, ...]
    counts: OutboxCounts
    sketches: tuple[OutboxSketch, ...]
    notice: StudyNotice
    unjoined: tuple[str, ...]
    published: TrustedResult | SketchError | None
    reads: bool

    def to_json(self, *, value_counts: bool) -> dict[str, Any]:
        """Return JSON values, without any sum; figures that depend on values only on request."""
        return {
            "device_id": self.identity.device.hex(),
            "name": self.name,
            "study_id": self.identity.study.hex(),
            "server": self.server,
            "study_state": self.notice.state,
            "releases": describe_release(self.plan),
            "phase": self._describe_phase(),
            "ordinal": self.identity.ordinal,
            "unjoined": list(self.unjoined),
            "published_result": self._describe_published(),
            "key_change_open": self.identity.keys.following is not None,
            "streams": [
                _stream_to_json(stream, self.plan.hides_counts, value_counts)
                for stream in self.streams
            ],
            **asdict(self.counts),
            "sketches": [_sketch_to_json(sketch) for sketch in self.sketches],
        }

    def _describe_phase(self) -> dict[str, Any] | None:
        terms = self.plan.campaign
        if terms is None:
            return None
        return {
            "number": terms.number + 1,
            "of": len(terms.phases),
            "name": PHASE_NAMES[self.plan.kind],
            "takes_part": self.reads,
            "next_study": self.notice.next_study.hex() if self.notice.next_study else None,
        }

    def _describe_published(self) -> dict[str, Any] | None:
        if isinstance(self.published, TrustedResult):
            return self.published.to_json()
        return None if self.published is None else {"problem": str(self.published)}


@dataclass(frozen=True, kw_only=True)
class GroupSpent:
    """Loss of a person with several records in one window, and in every window so far."""

    n_records: int
    window: PrivacyLoss
    lifetime: PrivacyLoss


@dataclass(frozen=True, kw_only=True)
class StreamBudget:
    """Exact bounds on what was spent on the records of one stream; a limit of None is none.

    All are under one relation; ``explanation`` says why they are above the sum of what the releases
    state, where they are. ``shared_with`` names the streams that may have released the same
    records, as STREAM or as STREAM of STUDY; their releases are counted too.
    """

    study: bytes
    stream: str
    shared_with: tuple[str, ...]
    n_releases: int
    per_record_loss: PrivacyLoss
    per_record_limit: Fraction | None
    lifetime_loss: PrivacyLoss
    lifetime_limit: Fraction | None
    people: tuple[GroupSpent, ...]
    explanation: str | None

    def to_json(self) -> dict[str, Any]:
        """Return JSON values; exact numbers are text."""
        return {
            "study": self.study.hex(),
            "stream": self.stream,
            "shared_with": list(self.shared_with),
            "n_releases": self.n_releases,
            **describe_spent(self.per_record_loss, "per_record"),
            "per_record_limit": _show_limit(self.per_record_limit),
            **describe_spent(self.lifetime_loss, "lifetime"),
            "lifetime_limit": _show_limit(self.lifetime_limit),
            "explanation": self.explanation,
            "people": [
                {
                    "n_records": group.n_records,
                    "neighbouring": group.window.neighbouring,
                    "window_epsilon": format_upper(group.window.epsilon),
                    "lifetime_epsilon": format_upper(group.lifetime.epsilon),
                    "delta": format_upper(group.window.delta),
                }
                for group in self.people
            ],
        }


@dataclass(frozen=True, kw_only=True)
class BudgetReport:
    """The ledger of the device's owner, over all studies, and the losses computed from it."""

    streams: tuple[StreamBudget, ...]
    entries: tuple[LedgerEntry, ...]
    limits: Budget
    ledger: Path
    """The owner's ledger."""
    counted: Mapping[str, Spent]
    """By configured stream, what the ledger counts of its records, whoever released them."""
    plans: Mapping[bytes, SketchPlan] = field(default_factory=dict)
    """By digest, those that this folder's devices are enrolled for."""

    @property
    def summed(self) -> tuple[SketchPlan, ...]:
        """The plans under which two servers add the noise."""
        return tuple(plan for plan in self.plans.values() if plan.sum_release is not None)

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "limits": {
                "per_record": _show_limit(self.limits.per_record),
                "lifetime": _show_limit(self.limits.lifetime),
                "delta": str(self.limits.delta),
                "defaults": sorted(self.limits.defaults),
            },
            "ledger": {
                "path": str(self.ledger),
                "streams": {
                    name: {
                        "n_releases": spent.n_releases,
                        "epsilon": None if spent.loss is None else str(spent.loss.epsilon),
                    }
                    for name, spent in self.counted.items()
                },
            },
            "streams": [stream.to_json() for stream in self.streams],
            "events": [
                _entry_to_json(entry) | self._describe_noise(entry.event) for entry in self.entries
            ],
            "secure_sums": [
                {
                    "plan_digest": compute_plan_digest(plan).hex(),
                    "helper": plan.helper.name,
                    "identity": plan.helper.fingerprint.hex(),
                    "statement": describe_trust(plan),
                }
                for plan in self.summed
            ],
        }

    def _describe_noise(self, event: PrivacyEvent) -> dict[str, str | None]:
        """Return the kind of a release and its helper; None of plans that are not here."""
        plan = self.plans.get(event.plan_digest)
        is_summed = plan is not None and plan.sum_release is not None
        return {
            "release": None if plan is None else plan.release.kind,
            "helper": plan.helper.name if plan is not None and is_summed else None,
        }


def report_status(settings: Settings) -> StatusReport:
    """Report streams and outbox.

    Raises
    ------
    ConfigError, StoreError
        There is no enrolled device, or its state cannot be read.
    """
    check_folder(settings.state_dir, create=False)
    with closing(open_database(settings.state_dir, settings.study)) as connection:
        identity = require_identity(connection, settings.state_dir)
        plan = decode_plan(identity.plan_bytes)
        return StatusReport(
            identity=identity,
            name=settings.name,
            plan=plan,
            reads=reads(settings, plan, connection),
            server=settings.server,
            streams=tuple(load_stream(connection, name) for name in list_streams(connection)),
            counts=count_sketches(connection),
            sketches=tuple(list_sketches(connection, "waiting", "shelved")),
            notice=load_notice(connection),
            unjoined=tuple(stream.name for stream in find_unjoined(settings)),
            published=_find_published(settings, identity),
        )


def _find_published(settings: Settings, identity: Identity) -> TrustedResult | SketchError | None:
    try:
        return load_trusted(settings, identity)
    except SketchError as error:
        return error


def report_budget(settings: Settings) -> BudgetReport:
    """Report the ledger and the losses that follow from it; raises as :func:`report_status`."""
    check_folder(settings.state_dir, create=False)
    with closing(open_database(settings.state_dir, settings.study)) as connection:
        entries = tuple(load_entries(connection))
        events = sum_ledger(connection)
        identity = load_identity(connection)
        plan = None if identity is None else decode_plan(identity.plan_bytes)
        origins = {(settings.study, s.name): s.find_origins(plan) for s in settings.streams}
        readers = {event.reader for event in events} | origins.keys()
        readers |= {(settings.study, name) for name in list_streams(connection)}
        near = {r: find_near(connection, r, origins.get(r, ())) for r in readers}
        people = {r: find_same_people(connection, r, origins.get(r, ())) for r in readers}
        plans = [decode_plan(data) for data in list_plans(connection)]
        counted = {} if plan is None else sum_up_streams(settings, connection, plan)
    streams = [
        _report_stream(events, r, near[r], people[r], settings.limits, plan)
        for r in sorted(readers)
    ]
    return BudgetReport(
        streams=tuple(streams),
        entries=entries,
        limits=settings.limits,
        ledger=locate_ledger(settings),
        counted=counted,
        plans={compute_plan_digest(each): each for each in plans},
    )


def _report_stream(
    events: list[PrivacyEvent],
    reader: Reader,
    near: set[Reader],
    people: set[Reader],
    budget: Budget,
    plan: SketchPlan | None,
) -> StreamBudget:
    study, stream = reader
    readers, ever = {reader, *near}, {reader, *near, *people}
    return StreamBudget(
        study=study,
        stream=stream,
        shared_with=tuple(
            name if of == study else f"{name} of {of.hex()}" for of, name in sorted(near)
        ),
        n_releases=sum(event.count for event in events if event.reader == reader),
        per_record_loss=compute_per_record_loss(events, readers),
        per_record_limit=budget.per_record,
        lifetime_loss=compute_lifetime_loss(events, ever),
        lifetime_limit=budget.lifetime,
        people=_find_people(events, readers, ever, plan),
        explanation=explain_relations(event for event in events if event.reader in readers),
    )


def _find_people(
    events: Sequence[PrivacyEvent],
    readers: set[Reader],
    people: set[Reader],
    plan: SketchPlan | None,
) -> tuple[GroupSpent, ...]:
    """Bound what was spent on people with several records, at the largest delta of a release."""
    most = None if plan is None else plan.max_records_per_person
    if plan is not None and plan.protects_devices:
        most = 1  # all records of a window count as one
    once, ever = select_per_record(events, readers), select_lifetime(events, people)
    if not ever:
        return ()
    return tuple(
        GroupSpent(
            n_records=q,
            window=_bound_group(once, q, plan),
            lifetime=_bound_group(ever, q, plan),
        )
        for q in (USUAL_GROUPS if most is None else sorted({1, most}))
    )


def _bound_group(events: Sequence[PrivacyEvent], q: int, plan: SketchPlan | None) -> PrivacyLoss:
    if plan is not None and {event.plan_digest for event in events} == {compute_plan_digest(plan)}:
        n_windows = sum(event.count for event in events)
        loss = compute_group_loss(plan.mechanism, n_records=q, n_windows=n_windows)
        relation = plan.release.neighbouring
        return PrivacyLoss(epsilon=loss.epsilon, delta=loss.delta, neighbouring=relation)
    delta = max(event.delta for event in events)
    scaled = [scale_to_group(event, q) for event in events]
    # Every event has a rho or no delta, unless it was put there by hand: then the sum is all.
    return compose(scaled, delta=delta) or sum_losses(scaled)


def _show_limit(limit: Fraction | None) -> str | None:
    return None if limit is None else str(limit)


def _stream_to_json(stream: StreamState, is_secret: bool, value_counts: bool) -> dict[str, Any]:
    window = stream.window
    by_time = window.first_slot is not None
    counted = {"unsketchable": None if is_secret else stream.n_unsketchable}
    return {
        "name": stream.name,
        "next_sequence": stream.next_sequence,
        "suspended": stream.suspended,
        "open_window": {
            "n_records": None if is_secret else window.n_records,
            **(counted if value_counts else {}),
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
        "study": event.study.hex(),
        "stream": event.stream,
        "plan_digest": event.plan_digest.hex(),
        "sequence": event.sequence,
        "count": event.count,
        "by_a_copy": event.copy > 0,
        "neighbouring": event.neighbouring,
        "epsilon": str(event.epsilon),
        "delta": str(event.delta),
        "released": format_time(entry.released_at),
    }
