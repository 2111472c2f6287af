"""Promises of privacy of results on this machine, for all that was spent on their records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sfumato.shared.plan import SketchPlan
from sfumato.shared.privacy import PrivacyEvent
from sfumato.shared.privacy.accounting import join_events
from sfumato.shared.privacy.group import GroupLoss, bound_group_loss, format_upper
from sfumato.shared.wire.objects.answers import PersonBody, PromiseBody, describe_promise

NOT_PRIVATE = (
    "NOT PRIVATE. This is the exact sum, without noise: it reveals single records. It is for the "
    "holder of the records alone; do not pass it on, and do not publish results made from it."
)


def describe_spending(
    plan: SketchPlan, events: Sequence[PrivacyEvent], *, statement: str
) -> PromiseBody:
    """Return what a sketch and all that was spent beside it promise together.

    Parameters
    ----------
    plan
        Plan of the sketch, whose noise is named.
    events
        All that one record in one window loses by, at least one.
    statement
        The promise in words.
    """
    promise, joint = replace(describe_promise(plan), statement=statement), join_events(events)
    level = str(joint.epsilon), str(joint.delta), joint.neighbouring
    if level == (promise.epsilon, promise.delta, promise.neighbouring):
        return promise
    return replace(
        promise,
        epsilon=level[0],
        delta=level[1],
        neighbouring=level[2],
        people=[
            _write_person(
                bound_group_loss(events, n_records=each.n_records, n_windows=each.n_windows)
            )
            for each in promise.people
        ],
    )


def describe_exact(plan: SketchPlan) -> PromiseBody:
    """Return the promise of a sum without noise, which protects nobody."""
    return replace(
        describe_promise(plan),
        epsilon="inf",
        delta="0",
        mechanism="none",
        scale="0",
        statement=NOT_PRIVATE,
        people=[],
    )


def _write_person(loss: GroupLoss) -> PersonBody:
    return PersonBody(
        n_records=loss.n_records,
        n_windows=loss.n_windows,
        epsilon=format_upper(loss.epsilon),
        delta=format_upper(loss.delta),
        multiple_epsilon=format_upper(loss.multiple_epsilon),
        multiple_delta=format_upper(loss.multiple_delta),
    )
