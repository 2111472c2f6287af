"""Events of scheduled jobs: new alarms and change points, and verdicts that fall.

A message holds the answer's words, times and identities, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sfumato.aggregator.resources.alarms.record import ScheduleRecord
from sfumato.aggregator.resources.jobs.record import JobRecord
from sfumato.aggregator.resources.studies.record import StudyRecord
from sfumato.learning.insight.sizes import describe_size
from sfumato.shared.wire.published import VERDICTS

NEAR_WINDOWS = 2
"""A change point so near to a known one is the same: its place is an estimate."""
_LEAST_P = 1e-4
_MOST_WORDS = 20
_LONGEST_WORD = 500


@dataclass(frozen=True, kw_only=True)
class Event:
    """An event.

    Parameters
    ----------
    name
        Tells it from all others; the same event has the same name on every server.
    kind
        The type of its message.
    data
        JSON values.
    """

    name: str
    kind: str
    data: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Findings:
    """State of a schedule after a job, with its new events."""

    known: Mapping[str, Any]
    verdict: str | None
    events: list[Event]


def find_events(
    schedule: ScheduleRecord, study: StudyRecord, job: JobRecord, *, now: float
) -> Findings:
    """Return the events of a job that has succeeded, compared with what its schedule knows.

    The first timeline of a schedule tells what is known; of its alarms only one in its last window
    is an event.
    """
    result = job.result or {}
    about = {
        "study_id": study.study_id.hex(),
        "study": study.name,
        "schedule_id": schedule.schedule_id.hex(),
        "job_id": job.job_id.hex(),
    }
    if schedule.kind == "decode":
        return _judge_decode(schedule, result, about)
    return _judge_timeline(schedule, result, about)


def _judge_decode(
    schedule: ScheduleRecord, result: Mapping[str, Any], about: Mapping[str, Any]
) -> Findings:
    verdict = result.get("verdict")
    if verdict is None:
        return Findings(known={}, verdict=schedule.last_verdict, events=[])
    word, before = verdict["word"], schedule.last_verdict
    events = []
    if before is not None and VERDICTS.index(word) > VERDICTS.index(before):
        data = {"verdict": word, "before": before, "words": _bound([verdict["sentence"]])}
        name = f"{about['schedule_id']}:verdict:{schedule.n_runs}"
        events.append(Event(name=name, kind="decode.verdict_fell", data={**about, **data}))
    return Findings(known={}, verdict=word, events=events)


def _judge_timeline(
    schedule: ScheduleRecord, result: Mapping[str, Any], about: Mapping[str, Any]
) -> Findings:
    windows = result["windows"]
    first = min((window["first_slot"] for window in windows), default=0)
    alarms = {slot for slot in schedule.known.get("alarms", ()) if slot >= first}
    # Windows that were there before: with every new window the references of old ones may move.
    seen = schedule.known.get("last", first - 1)
    changes = {slot for slot in schedule.known.get("changes", ()) if slot >= first}
    # The first job that succeeds: what lies in the past is no news.
    is_first = not schedule.known
    near = NEAR_WINDOWS * int(schedule.request.get("slots_per_window", 1))
    events = []
    for number, window in enumerate(windows):
        slot, is_last = window["first_slot"], number == len(windows) - 1
        if not window["is_alarm"] or slot in alarms:
            continue
        is_near = any(abs(slot - known) <= near for known in alarms | changes)
        alarms.add(slot)
        if slot <= seen and is_near:
            continue
        if is_last or not is_first:
            name = f"{about['schedule_id']}:alarm:{slot}"
            data = {**about, **describe_window(window, result)}
            events.append(Event(name=name, kind="timeline.alarm", data=data))
    for point in result["change_points"]:
        slot = windows[point["window"]]["first_slot"]
        if any(abs(slot - known) <= near for known in changes):
            continue
        changes.add(slot)
        if windows[point["window"]].get("is_accepted"):
            continue
        if not is_first:
            name = f"{about['schedule_id']}:change:{slot}"
            data = {**about, **_describe_point(point)}
            events.append(Event(name=name, kind="timeline.change_point", data=data))
    last = max((window["first_slot"] for window in windows), default=seen)
    known = {"alarms": sorted(alarms), "changes": sorted(changes), "last": last}
    return Findings(known=known, verdict=None, events=events)


def describe_window(window: Mapping[str, Any], result: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a message says about a window of a timeline that is an alarm."""
    size, error = window["size"], window["size_error"]
    # As in the words of a comparison: beyond these no figure is to be trusted.
    p = f"p = {window['p']:.2g}" if window["p"] >= _LEAST_P else f"p < {_LEAST_P:g}"
    words = (
        f"the records from {window['start']} to {window['end']} differ from those before: {p}, "
        f"{describe_size(size, error, is_certain=True)}"
    )
    return {
        "start": window["start"],
        "end": window["end"],
        "p": window["p"],
        "size": size,
        "size_error": error,
        "words": _bound([words, *result.get("words", ())]),
    }


def _describe_point(point: Mapping[str, Any]) -> dict[str, Any]:
    changes = [change["words"] for change in point["changes"] if change.get("is_named")]
    return {
        **{name: point[name] for name in ("start", "p", "size", "size_error")},
        "words": _bound([point["words"], *changes]),
    }


def _bound(words: Sequence[str]) -> list[str]:
    """Keep a message small, however much an answer says."""
    return list(_shorten(words[:_MOST_WORDS]))


def _shorten(words: Sequence[str]) -> Iterator[str]:
    for each in words:
        yield each if len(each) <= _LONGEST_WORD else f"{each[: _LONGEST_WORD - 3]}..."
