"""An enrolled device, opened: its settings, key, state and plan, checked against each other."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace

from device_agent.agent.policy import require_plan_allowed, require_server_allowed
from device_agent.certificates import make_context
from device_agent.messages import Heartbeat, PlanRefusal
from device_agent.settings import Settings, StreamSettings
from device_agent.store import (
    DeviceKey,
    Identity,
    OutboxCounts,
    check_folder,
    count_sketches,
    load_keys,
    load_retired,
    open_database,
    require_identity,
    sum_ledger,
)
from device_agent.transport import ServerClient
from shared import __version__
from shared.errors import (
    ConfigError,
    PlanMismatchError,
    PrivacyError,
    SketchError,
)
from shared.plan import SketchPlan, compute_plan_digest, decode_plan
from shared.privacy import PrivacyEvent, require_within_budget

Clock = Callable[[], float]


@dataclass(frozen=True, kw_only=True)
class Device:
    """All that a use case needs; ``next_key`` only while the server is asked to take it.

    ``retired`` are the keys that it has replaced, with the last sketches that each has signed.
    """

    settings: Settings
    key: DeviceKey
    connection: sqlite3.Connection
    identity: Identity
    plan: SketchPlan
    next_key: DeviceKey | None = None
    retired: Sequence[tuple[DeviceKey, Mapping[str, int]]] = ()

    def connect(self, clock: Clock) -> ServerClient:
        """Return a client of the server; close it."""
        return connect(self.settings, self.identity.device, self.key, clock)

    def require_affordable(self, stream: str, sequence: int) -> PrivacyEvent:
        """Return the event of a release, if the owner's budget allows it.

        Raises
        ------
        BudgetExceededError
            It does not; nothing was changed.
        """
        event = make_event(self.plan, stream, sequence)
        require_within_budget(sum_ledger(self.connection), event, self.settings.budget)
        return event

    def require_all_affordable(self, stream: str, sequences: range) -> None:
        """Check that the owner's budget allows all of these releases, one after the other.

        Raises
        ------
        BudgetExceededError
            It does not; nothing was changed.
        """
        if not sequences:
            return
        # Losses only grow, so the last release is the one that could be too much.
        last = make_event(self.plan, stream, sequences[-1])
        others = [replace(last, count=len(sequences) - 1)] if len(sequences) > 1 else []
        before = sum_ledger(self.connection)
        require_within_budget([*before, *others], last, self.settings.budget)


@contextmanager
def open_device(settings: Settings, *, tell: Clock | None = None) -> Iterator[Device]:
    """Open the device of a state folder.

    Parameters
    ----------
    tell
        The clock to sign with when the server is told that the owner's policy refuses the plan;
        None to tell nobody.

    Raises
    ------
    ConfigError
        It was never enrolled, or in another study, or the settings do not suit the plan.
    LedgerError
        Key and ledger belong to different devices.
    PrivacyError, PlanMismatchError
        The owner's policy does not allow the plan or the server.
    """
    require_server_allowed(settings)
    check_folder(settings.state_dir, create=False)
    with closing(open_database(settings.state_dir)) as connection:
        identity = require_identity(connection, settings.state_dir)
        require_same_study(identity, settings)
        key, next_key = load_keys(settings.state_dir, identity)
        plan = decode_plan(identity.plan_bytes)
        try:
            require_plan_allowed(settings, plan)
        except (PrivacyError, PlanMismatchError) as error:
            if tell is not None:
                _tell_refusal(settings, key, identity, count_sketches(connection), error, tell)
            raise
        require_suitable(settings, plan)
        yield Device(
            settings=settings,
            key=key,
            connection=connection,
            identity=identity,
            plan=plan,
            next_key=next_key,
            retired=load_retired(settings.state_dir, identity.keys),
        )


def _tell_refusal(
    settings: Settings,
    key: DeviceKey,
    identity: Identity,
    counts: OutboxCounts,
    error: SketchError,
    clock: Clock,
) -> None:
    """Tell the server why nothing will come; that it does not hear it changes nothing."""
    refusal = PlanRefusal(study=identity.study, rule=error.field or "policy", detail=error.rule)
    heartbeat = Heartbeat(
        agent=__version__,
        engine=settings.engine.name,
        waiting_sketches=counts.waiting,
        plan_refusals=(refusal,),
    )
    with suppress(SketchError), connect(settings, identity.device, key, clock) as client:
        client.put_heartbeat(heartbeat)


def connect(settings: Settings, device: bytes, key: DeviceKey, clock: Clock) -> ServerClient:
    """Return a client of the server for a device that signs with a key; close it.

    Raises
    ------
    ConfigError
        The files that the connection needs cannot be used.
    """
    return ServerClient(
        settings.server,
        device=device,
        sign=key.sign,
        clock=clock,
        context=make_context(settings.house.tls),
    )


def make_event(plan: SketchPlan, stream: str, sequence: int) -> PrivacyEvent:
    """Return what one release costs."""
    return PrivacyEvent(
        stream=stream,
        plan_digest=compute_plan_digest(plan),
        sequence=sequence,
        epsilon=plan.release.epsilon,
        delta=plan.release.delta,
        rho=plan.mechanism.guarantee.rho,
    )


def require_same_study(identity: Identity, settings: Settings) -> None:
    """Refuse settings of another study than the ledger's, with a ``ConfigError``."""
    if identity.study != settings.study:
        raise ConfigError(
            f"{settings.state_dir} belongs to study {identity.study.hex()}",
            field="study",
            fix="use one state_dir for each study",
        )


def require_suitable(settings: Settings, plan: SketchPlan) -> None:
    """Check the settings that only make sense with a plan.

    Raises
    ------
    ConfigError
        A column is mapped to no dimension, a time is missing, or a label is not declared.
    """
    dimensions = [dimension.name for dimension in plan.dimensions]
    for i, stream in enumerate(settings.streams):
        for name in stream.columns:
            if name not in dimensions:
                raise ConfigError(
                    "is not a dimension of the plan",
                    field=f"streams[{i}].columns.{name}",
                    fix=f"use: {', '.join(dimensions)}",
                )
        _require_timestamp(stream, plan, f"streams[{i}].source.timestamp")
    _require_labels(settings, plan)


def _require_timestamp(stream: StreamSettings, plan: SketchPlan, field: str) -> None:
    if plan.window.kind == "time" and stream.source.timestamp is None:
        raise ConfigError(
            "is missing, and the plan's windows are by time",
            field=field,
            fix="name the column that holds each record's time",
        )


def _require_labels(settings: Settings, plan: SketchPlan) -> None:
    declared = {label.name: label.values for label in plan.labels}
    for name in settings.labels:
        if name not in declared:
            raise ConfigError(
                "is not a label that the plan declares",
                field=f"labels.{name}",
                fix=f"use: {', '.join(declared)}" if declared else "remove it",
            )
    for name, values in declared.items():
        if settings.labels.get(name) not in values:
            what = "is not a declared value" if name in settings.labels else "is missing"
            raise ConfigError(what, field=f"labels.{name}", fix=f"use one of: {', '.join(values)}")
