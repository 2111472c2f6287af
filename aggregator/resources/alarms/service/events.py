"""Events of scheduled jobs: new alarms and change points, returns, and verdicts that fall.

A message holds the answer's words, times and identities, and nothing else. A lasting change is one
event, and so is a return to what was before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sfumato.aggregator.base.clock import show_utc
from sfumato.aggregator.resources.alarms.record import ScheduleRecord
from sfumato.aggregator.resources.jobs.record import JobRecord
from sfumato.aggregator.resources.studies.record import StudyRecord
from sfumato.learning.insight.sizes import describe_size, show_figures
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
    schedule: ScheduleRecord, study: StudyRecord, job: JobRecord, *, page_url: str = ""
) -> Findings:
    """Return the events of a job that has succeeded, compared with what its schedule knows.

    The first timeline of a schedule tells what is known; of its alarms only one in its last window
    is an event.

    Parameters
    ----------
    page_url
        Address of the server's page, without the last slash.
    """
    result = job.result or {}
    section = "decodes" if schedule.kind == "decode" else "time"
    about = {
        "page": f"{page_url}/#studies/{study.study_id.hex()}/{section}/{job.job_id.hex()}",
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
        data = {"verdict": word, "before": before, "words": [verdict["sentence"]]}
        events.append(_make_event("decode.verdict_fell", schedule.n_runs, about, data))
    return Findings(known={}, verdict=word, events=events)


def _judge_timeline(
    schedule: ScheduleRecord, result: Mapping[str, Any], about: Mapping[str, Any]
) -> Findings:
    windows = result["windows"]
    slots = [window["first_slot"] for window in windows]
    first, known = min(slots, default=0), schedule.known
    alarms, changes = (
        {slot for slot in known.get(name, ()) if slot >= first} for name in ("alarms", "changes")
    )
    # Windows that were there before: with every new window the references of old ones may move.
    seen = known.get("last", first - 1)
    # The first job that succeeds: what lies in the past is no news.
    is_first, running = not known, known.get("running")
    near = NEAR_WINDOWS * int(schedule.request.get("slots_per_window", 1))
    by_slot, events = dict(zip(slots, windows, strict=True)), []
    for number, window in enumerate(windows):
        slot, is_last = slots[number], number == len(windows) - 1
        begin = slots[window["reference"]] if window.get("reference") is not None else None
        if not window["is_alarm"]:
            if running is not None and begin is not None and slot > running:
                # Compared with what was before the change, or with what came with it.
                if begin < running and slot > seen and not window.get("is_accepted"):
                    data = describe_return(window, by_slot.get(running, {}))
                    events.append(_make_event("timeline.return", slot, about, data))
                running = None
        elif slot not in alarms:
            is_near = any(abs(slot - each) <= near for each in alarms | changes)
            alarms.add(slot)
            is_same = slot <= seen and is_near
            if running is not None and begin is not None and slot > running:
                told = by_slot.get(running, {})
                is_same |= begin < running or (is_near and not _is_opposite(told, window))
            if not is_same and (is_last or not is_first):
                data = describe_window(window, result)
                events.append(_make_event("timeline.alarm", slot, about, data))
                running = slot
    for point in result["change_points"]:
        slot = slots[point["window"]]
        if any(abs(slot - each) <= near for each in changes):
            continue
        # An alarm has told it already, when it was not known whether it lasts.
        is_told = any(abs(slot - each) <= near for each in alarms)
        changes.add(slot)
        if not (is_told or is_first or windows[point["window"]].get("is_accepted")):
            data = _describe_point(point)
            events.append(_make_event("timeline.change_point", slot, about, data))
    kept = {"alarms": sorted(alarms), "changes": sorted(changes), "running": running}
    return Findings(known=kept | {"last": max(slots, default=seen)}, verdict=None, events=events)


def _make_event(kind: str, number: int, about: Mapping[str, Any], data: Mapping[str, Any]) -> Event:
    first, *others = data["words"]
    words = _bound([f"{about['study']}: {first}", *others])
    name = f"{about['schedule_id']}:{kind}:{number}"
    return Event(name=name, kind=kind, data={**about, **data, "words": words})


def _is_opposite(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    """Return whether a column moves back in the second of two windows."""
    moves = [
        {each["name"]: each["after"] - each["before"] for each in _list_named(window)}
        for window in (first, second)
    ]
    return any(moves[0][name] * moves[1][name] < 0.0 for name in moves[0].keys() & moves[1].keys())


def _list_named(window: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [each for each in window.get("columns", ()) if each["is_named"]]


def describe_return(window: Mapping[str, Any], told: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a message says of the first window after an alarm that is like those before."""
    wanted = {each["name"] for each in _list_named(told)}
    levels = []
    for each in window.get("columns", ()):
        if each["name"] in wanted:
            unit = "" if each["unit"] == "1" else f" {each['unit']}"
            after, error = show_figures(each["after"], error=each["error"])
            levels.append(f"{each['name']} {after}{unit} (error {error})")
    when = show_utc(datetime.fromisoformat(window["start"]).timestamp())
    finding = ", ".join([f"as before the alarm since {when}", *levels])
    return {
        **{name: window[name] for name in ("start", "end", "p", "size", "size_error")},
        "words": [finding],
    }


def describe_window(window: Mapping[str, Any], result: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a message says about a window of a timeline that is an alarm."""
    size, error = window["size"], window["size_error"]
    # As in the words of a comparison: beyond these no figure is to be trusted.
    p = f"p = {window['p']:.2g}" if window["p"] >= _LEAST_P else f"p < {_LEAST_P:g}"
    words = f"the records differ {describe_size(size, error, is_certain=True)}, {p}"
    rest = [each for each in result.get("words", ()) if each != window["finding"]]
    return {
        "start": window["start"],
        "end": window["end"],
        "p": window["p"],
        "size": size,
        "size_error": error,
        "devices": window.get("devices"),
        "words": [window["finding"], words, *rest],
    }


def _describe_point(point: Mapping[str, Any]) -> dict[str, Any]:
    changes = [change["words"] for change in point["changes"] if change.get("is_named")]
    return {
        **{name: point[name] for name in ("start", "p", "size", "size_error")},
        "devices": point.get("devices"),
        "words": [point["finding"], point["words"], *changes],
    }


def _bound(words: Sequence[str]) -> list[str]:
    """Keep a message small, however much an answer says."""
    return list(_shorten(words[:_MOST_WORDS]))


def _shorten(words: Sequence[str]) -> Iterator[str]:
    for each in words:
        yield each if len(each) <= _LONGEST_WORD else f"{each[: _LONGEST_WORD - 3]}..."
