"""An enrolled device, opened: settings, key, state and plan, checked against each other."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from sfumato.device_agent.agent.campaign import narrow, reads
from sfumato.device_agent.agent.owners_ledger import SharedBudget
from sfumato.device_agent.agent.policy import require_plan_allowed, require_server_allowed
from sfumato.device_agent.server.connection import make_context
from sfumato.device_agent.server.transport import ServerClient
from sfumato.device_agent.settings.agent_settings import Settings
from sfumato.device_agent.sources.settings import StreamSettings
from sfumato.device_agent.store.database import (
    check_folder,
    find_near,
    find_same_people,
    open_database,
    sum_ledger,
)
from sfumato.device_agent.store.identity import Identity, require_identity
from sfumato.device_agent.store.key import DeviceKey, key_folder
from sfumato.device_agent.store.key_change import load_keys, load_retired
from sfumato.device_agent.store.outbox import OutboxCounts, count_sketches
from sfumato.shared import __version__
from sfumato.shared.errors import (
    BudgetExceededError,
    ConfigError,
    PlanMismatchError,
    PrivacyError,
    SketchError,
)
from sfumato.shared.plan import SketchPlan, decode_plan, make_event
from sfumato.shared.privacy import Origin, PrivacyEvent, Reader, require_within_budget
from sfumato.shared.wire.objects.devices import MOST_DETAIL, HeartbeatRequest, PlanRefusalRequest

Clock = Callable[[], float]
SHARE_SPENT = "most_sketches_per_device"
"""The field of the error that a device has released all that its plan accepts of it."""


@dataclass(frozen=True, kw_only=True)
class Device:
    """An open device.

    ``reads`` is false in a phase of a campaign that it reads no record for.
    ``next_key`` is set only while the server is asked to take it. ``retired`` holds the replaced
    keys with the last sketches that each has signed.
    """

    settings: Settings
    key: DeviceKey
    connection: sqlite3.Connection
    identity: Identity
    plan: SketchPlan
    shared: SharedBudget
    reads: bool = True
    next_key: DeviceKey | None = None
    retired: Sequence[tuple[DeviceKey, Mapping[str, int]]] = ()

    def connect(self, clock: Clock) -> ServerClient:
        """Return a client of the server; the caller closes it."""
        return connect(self.settings, self.identity.device, self.key, clock)

    def require_affordable(
        self, stream: str, sequence: int, origins: Iterable[Origin] = ()
    ) -> PrivacyEvent:
        """Return the event of a release, if the owner's budget allows it.

        Parameters
        ----------
        origins
            Files that its records were read from, besides those in the settings.

        Raises
        ------
        BudgetExceededError
            The budget or the plan does not allow it; nothing was changed.
        """
        event = self.make_event(stream, sequence)
        self._require_within_budget([], event, origins)
        return event

    def make_event(self, stream: str, sequence: int) -> PrivacyEvent:
        """Return the privacy event of one release."""
        study = self.identity.study
        return make_event(self.plan, stream=stream, sequence=sequence, study=study)

    def find_near(self, stream: str, origins: Iterable[Origin] = ()) -> set[Reader]:
        """Return the other streams, of all studies, that may have released the same records."""
        reader = (self.identity.study, stream)
        return find_near(self.connection, reader, self._find_origins(stream) | set(origins))

    def find_same_people(self, stream: str, origins: Iterable[Origin] = ()) -> set[Reader]:
        """Return the other streams that may have released records of the same people."""
        reader = (self.identity.study, stream)
        read = self._find_origins(stream) | set(origins)
        return find_same_people(self.connection, reader, read)

    def _find_origins(self, stream: str) -> set[Origin]:
        settings = [s for s in self.settings.streams if s.name == stream]
        return settings[0].find_origins(self.plan) if settings else set()

    def _require_within_budget(
        self, before: list[PrivacyEvent], event: PrivacyEvent, read: Iterable[Origin]
    ) -> None:
        events = [*sum_ledger(self.connection), *before]
        self._require_accepted(events)
        origins = self._find_origins(event.stream) | set(read)
        readers = self.find_near(event.stream, origins)
        people = self.find_same_people(event.stream, origins)
        limits = self.settings.limits
        require_within_budget(events, event, limits, readers=readers, people=people)
        self.shared.require_affordable(self.settings, event, origins)

    def _require_accepted(self, before: Iterable[PrivacyEvent]) -> None:
        """Check that the study accepts one more sketch; else its budget would be spent in vain."""
        study, most = self.identity.study, self.plan.most_sketches_per_device
        if sum(event.count for event in before if event.study == study) >= most:
            raise BudgetExceededError(
                f"allows {most} sketch(es) of a device, and all of them were released",
                field=SHARE_SPENT,
                fix="stop the stream; for more, ask the operator for another study",
            )

    def require_all_affordable(
        self, stream: str, sequences: range, origins: Iterable[Origin] = ()
    ) -> None:
        """Check that the owner's budget allows all of these releases, one after the other.

        Raises
        ------
        BudgetExceededError
            The budget or the plan does not allow them; nothing was changed.
        """
        if not sequences:
            return
        # Losses only grow, so the last release is the one that could be too much.
        last = self.make_event(stream, sequences[-1])
        others = [replace(last, count=len(sequences) - 1)] if len(sequences) > 1 else []
        self._require_within_budget(others, last, origins)


@contextmanager
def open_device(settings: Settings, *, report_clock: Clock | None = None) -> Iterator[Device]:
    """Open the device of a state folder.

    Parameters
    ----------
    report_clock
        Clock to sign with when a plan that the owner's policy refuses is reported to the server;
        None to report nothing.

    Raises
    ------
    ConfigError
        The device has not enrolled in this study, or the settings do not suit the plan.
    LedgerError
        Key and ledger belong to different devices.
    PrivacyError, PlanMismatchError
        The owner's policy does not allow the plan or the server.
    """
    require_server_allowed(settings)
    check_folder(settings.state_dir, create=False)
    with closing(open_database(settings.state_dir, settings.study)) as connection:
        identity = require_identity(connection, settings.state_dir)
        keys = key_folder(settings.state_dir, settings.study)
        key, next_key = load_keys(keys, identity)
        plan = decode_plan(identity.plan_bytes)
        try:
            require_plan_allowed(settings, plan)
        except (PrivacyError, PlanMismatchError) as error:
            if report_clock is not None:
                _report_refusal(
                    settings, key, identity, count_sketches(connection), error, report_clock
                )
            raise
        require_suitable(settings, plan)
        settings = narrow(settings, plan)
        yield Device(
            settings=settings,
            key=key,
            connection=connection,
            identity=identity,
            plan=plan,
            shared=SharedBudget(settings, identity, connection),
            reads=reads(settings, plan, connection),
            next_key=next_key,
            retired=load_retired(keys, identity.keys),
        )


def _report_refusal(
    settings: Settings,
    key: DeviceKey,
    identity: Identity,
    counts: OutboxCounts,
    error: SketchError,
    clock: Clock,
) -> None:
    """Report to the server why no sketch will come; a failure to send changes nothing."""
    refusal = PlanRefusalRequest(
        study=identity.study.hex(), rule=error.field or "policy", detail=error.rule[:MOST_DETAIL]
    )
    heartbeat = make_heartbeat(settings, waiting=counts.waiting, plan_refusals=[refusal])
    with suppress(SketchError), connect(settings, identity.device, key, clock) as client:
        client.put_heartbeat(heartbeat)


def make_heartbeat(settings: Settings, *, waiting: int, **more: Any) -> HeartbeatRequest:
    """Return a heartbeat of this agent."""
    return HeartbeatRequest(
        agent=__version__,
        engine=settings.engine.name,
        waiting_sketches=waiting,
        name=settings.name,
        **more,
    )


def connect(settings: Settings, device: bytes, key: DeviceKey, clock: Clock) -> ServerClient:
    """Return a client of the server for a device that signs with a key; the caller closes it."""
    return ServerClient(
        settings.server,
        device=device,
        sign=key.sign,
        clock=clock,
        context=make_context(settings.tls),
    )


def require_suitable(settings: Settings, plan: SketchPlan) -> None:
    """Check the settings that depend on a plan.

    Raises
    ------
    ConfigError
        A column is mapped to no dimension, a time is missing, or a label is not declared.
    """
    columns = plan.dimensions if plan.campaign is None else plan.campaign.columns
    dimensions = [each.name for each in columns]
    for i, stream in enumerate(settings.streams):
        for name in stream.columns:
            if name not in dimensions:
                raise ConfigError(
                    "must be a dimension of the plan",
                    field=f"streams[{i}].columns.{name}",
                    fix=f"use: {', '.join(dimensions)}",
                )
        _require_timestamp(stream, plan, f"streams[{i}].source.timestamp")
        _require_kept(stream, plan, f"streams[{i}].source.released")
        _require_joinable(stream, plan, f"streams[{i}].source.join")
        _require_repeatable(stream, plan, f"streams[{i}].source.kind")
    require_labels(settings.labels, plan)


def _require_joinable(stream: StreamSettings, plan: SketchPlan, field: str) -> None:
    if plan.releases_count and stream.source.join is not None:
        raise ConfigError(
            "cannot be combined with add-remove-one: a second message of a cell changes a record, "
            "and adds none",
            field=field,
            fix="join a study under replace-one, or give it whole records",
        )


def _require_repeatable(stream: StreamSettings, plan: SketchPlan, field: str) -> None:
    if plan.campaign is not None and stream.source.kind == "stdin":
        raise ConfigError(
            "cannot be standard input in a campaign, whose phases read the source in turn",
            field=field,
            fix="write the records to a file, and name that",
        )


def _require_kept(stream: StreamSettings, plan: SketchPlan, field: str) -> None:
    released = getattr(stream.source, "released", "keep")
    if plan.releases_count and released != "keep":
        raise ConfigError(
            'must be "keep" where the plan hides presence: which files go would show where there '
            "were records",
            field=field,
            fix='write released = "keep", and remove files at times that no record decides',
        )


def _require_timestamp(stream: StreamSettings, plan: SketchPlan, field: str) -> None:
    if plan.window.kind == "time" and stream.source.timestamp is None:
        raise ConfigError(
            "is missing, and the plan's windows are by time",
            field=field,
            fix="name the column that holds each record's time",
        )


def require_labels(given: Mapping[str, str], plan: SketchPlan) -> None:
    """Check that the labels of a device are those that the plan declares.

    Raises
    ------
    ConfigError
        One is missing, is not declared, or has another value.
    """
    declared = {label.name: label.values for label in plan.labels}
    for name in given:
        if name not in declared:
            raise ConfigError(
                "must be a label that the plan declares",
                field=f"labels.{name}",
                fix=f"use: {', '.join(declared)}" if declared else "remove it",
            )
    for name, values in declared.items():
        if given.get(name) not in values:
            what = "must be a declared value" if name in given else "is missing"
            raise ConfigError(what, field=f"labels.{name}", fix=f"use one of: {', '.join(values)}")
