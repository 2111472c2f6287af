"""Campaigns on the device: enrolled once, it takes part in each later phase that keeps the terms.

A phase is a study with a key, positions and windows of its own. The device follows from one to the
next when the server has named the next study, the phase is over by the clock, and all that the
sources hold of it is read and released. What it joined is written down with its identity there, in
one step, and never changed: no server can lead it into two studies of one phase.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace

from sfumato.device_agent.settings.agent_settings import Settings
from sfumato.device_agent.store.database import DATABASE_NAME, open_database
from sfumato.device_agent.store.identity import (
    list_studies,
    load_first_device,
    load_identity,
    load_next,
    load_previous,
)
from sfumato.device_agent.store.outbox import count_sketches
from sfumato.device_agent.store.server_state import load_notice
from sfumato.shared.errors import PlanMismatchError, SketchError
from sfumato.shared.plan import PHASE_NAMES, SketchPlan, decode_plan


def list_phases(settings: Settings) -> list[Settings]:
    """Return the settings of each phase that the device has joined, the present one last.

    Those of a study by itself, or that was not joined yet, are returned alone as they are.
    """
    found = [settings]
    with closing(open_database(settings.state_dir, settings.study)) as connection:
        study: bytes | None = settings.study
        while study is not None and (study := load_next(connection, study)) is not None:
            following = replace(settings, study=study)
            with closing(open_database(settings.state_dir, study)) as opened:
                if load_identity(opened) is None:
                    break
            found.append(following)
    return found


def find_present(settings: Settings) -> Settings:
    """Return the settings of the present phase, with its columns; as they are before enrolment."""
    if not (settings.state_dir / DATABASE_NAME).exists():
        return settings
    try:
        present = list_phases(settings)[-1]
        with closing(open_database(present.state_dir, present.study)) as connection:
            identity = load_identity(connection)
        return present if identity is None else narrow(present, decode_plan(identity.plan_bytes))
    except SketchError:
        return settings  # the command itself says what is wrong


def list_active(settings: Settings) -> list[Settings]:
    """Return the phases with something to do: the present one, and those with unsent sketches."""
    *earlier, present = list_phases(settings)
    waiting = []
    for each in earlier:
        with closing(open_database(each.state_dir, each.study)) as connection:
            if count_sketches(connection).waiting:
                waiting.append(each)
    return [*waiting, present]


def narrow(settings: Settings, plan: SketchPlan) -> Settings:
    """Return the settings without the columns that only other phases of the campaign read."""
    if plan.campaign is None:
        return settings
    own = {each.name for each in plan.dimensions}
    others = {each.name for each in plan.campaign.columns} - own
    streams = tuple(
        replace(
            stream,
            columns={name: each for name, each in stream.columns.items() if name not in others},
        )
        for stream in settings.streams
    )
    return replace(settings, streams=streams)


def reads(settings: Settings, plan: SketchPlan, connection: sqlite3.Connection) -> bool:
    """Return whether the device reads records for a phase.

    Not once it has joined the next one, which ends a phase with its open window; nor where the
    owner's policy leaves the phase out, or the public draw has drawn another. No value of a record
    decides it.
    """
    if plan.campaign is None:
        return True
    if load_next(connection, settings.study) is not None:
        return False
    allowed = settings.policy.phases
    if allowed and PHASE_NAMES[plan.kind] not in allowed:
        return False
    if plan.campaign.devices == "all":
        return True
    return plan.campaign.draw(load_first_device(connection, settings.study)) == plan.campaign.number


def find_next(connection: sqlite3.Connection, study: bytes, plan: SketchPlan) -> bytes | None:
    """Return the study that the device may follow to; None without one."""
    if plan.campaign is None or plan.campaign.is_last:
        return None
    return load_next(connection, study) or load_notice(connection).next_study


def require_first_choice(connection: sqlite3.Connection, study: bytes, following: bytes) -> None:
    """Refuse another study of a phase that was joined, and one that was joined in another way.

    Raises
    ------
    PlanMismatchError
        It would take part twice.
    """
    is_enrolled = following in list_studies(connection)
    if load_next(connection, study) not in (None, following) or (
        is_enrolled and load_previous(connection, following) != study
    ):
        raise PlanMismatchError(
            "must be the one study of its phase that this device joins, once and from here",
            field="next_study",
            fix="ask the study's operator; records of a phase are released once",
        )
