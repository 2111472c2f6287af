"""The dossier of a study, for an assessment of data protection: what an operator's key shows."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from html import escape
from itertools import combinations
from typing import Any
from urllib.parse import urlsplit

from sfumato.analyst.client import Client
from sfumato.analyst.planning.explanation import describe_plan
from sfumato.analyst.report.layout import capitalise, render_page, tabulate
from sfumato.shared.plan import SketchPlan, make_statement, plan_to_json
from sfumato.shared.plan.people import find_person_doubt
from sfumato.shared.plan.rules import MAX_LABEL_SETS
from sfumato.shared.plan.statement import EXACTLY, describe_helper, describe_release
from sfumato.shared.wire.access import list_readers
from sfumato.shared.wire.objects import studies
from sfumato.shared.wire.objects.answers import PrivacyBody

QUESTIONS = {
    "controller": "Controller: who decides why and how, and answers to people",
    "purpose": "Purpose, and legal basis",
    "contact": "Contact for people, and of the data protection officer",
    "people": "People whose records these are, and how they are informed",
    "processors": "Processors: who runs the server, the helper and the webhooks for the controller",
    "backups": "Backups of the server, and how long they are kept",
    "end": "When the study ends, and who deletes it",
}
"""What no program knows; the operator states it."""
_MOST_VARIED = MAX_LABEL_SETS.bit_length() - 1
"""Labels of a plan that can have several values: it declares so many sets of them."""
_ELSEWHERE = {"protects", "not covered", "public", "warning", "expect"}


@dataclass(frozen=True, kw_only=True)
class Dossier:
    """What an operator's key shows of a study, and what the operator states.

    Parameters
    ----------
    made
        When it was made.
    stated, open_questions
        Answers to some of :data:`QUESTIONS`, and the names of the others.
    statement
        The statement of privacy, for a person at as many records a day as were seen.
    plan, words
        The plan, as JSON and in words.
    readers
        Who may read each kind of data.
    left
        Devices that were revoked or excluded.
    agents
        Devices by the version of their agent.
    singled_out
        Labels, and combinations of them, that only one device has, beside those that were excluded.
    receivers
        Hosts of the webhooks that get alarms.
    audit
        Actions on the study, its devices and webhooks, and on API keys.
    """

    made: str
    server: str
    stated: dict[str, str]
    open_questions: list[str]
    study: studies.StudyBody
    statement: str
    privacy: PrivacyBody
    doubts: list[str]
    plan: dict[str, Any]
    words: dict[str, str]
    readers: dict[str, str]
    keys: list[studies.KeyBody]
    left: list[studies.DeviceDetailsBody]
    agents: dict[str, int]
    singled_out: list[str]
    receivers: list[str]
    audit: list[studies.AuditBody]


def collect_dossier(
    client: Client, study: str, *, made: str, stated: Mapping[str, str | None]
) -> Dossier:
    """Ask a server for a dossier, with an operator's key."""
    found = client.study(study)
    study_id, plan, privacy = found.study_id, client.plan(study), client.privacy(study)
    devices, keys = list(client.devices(study_id)), list(client.keys())
    alarms = list(client.alarms(study_id))
    targets = {study_id, *(key.key_id for key in keys), *(each.alarm_id for each in alarms)}
    targets |= {each.device_id for each in devices}
    said = (each.heartbeat for each in devices)
    seen = _count_records(plan, found)
    doubt = find_person_doubt(plan, records_a_day=seen)
    return Dossier(
        made=made,
        server=client.url,
        stated={name: text for name, text in stated.items() if text},
        open_questions=[name for name in QUESTIONS if not stated.get(name)],
        study=found,
        statement=make_statement(plan, records_a_day=seen).describe(),
        privacy=privacy,
        doubts=[*privacy.warnings, *([] if doubt is None else [doubt])],
        plan=plan_to_json(plan),
        words=_describe_words(plan),
        readers=_list_readers(plan),
        keys=keys,
        left=[client.device(each.device_id) for each in devices if each.state != "enrolled"],
        agents=dict(Counter(each.agent if each else "of unknown version" for each in said)),
        singled_out=_find_singled_out(each.labels for each in devices if each.state != "excluded"),
        # A webhook's path may be a secret.
        receivers=sorted({urlsplit(each.url).hostname or "" for each in alarms}),
        audit=[each for each in client.audit() if each.target in targets],
    )


def _find_singled_out(labels: Iterable[Mapping[str, str]]) -> list[str]:
    """Find the labels that only one device has, and combinations that no part of singles out."""
    counts: Counter[tuple[tuple[str, str], ...]] = Counter()
    for held, n_devices in Counter(tuple(sorted(each.items())) for each in labels).items():
        for size in range(1, min(len(held), _MOST_VARIED) + 1):
            counts.update(dict.fromkeys(combinations(held, size), n_devices))
    single = [each for each, n in counts.items() if n == 1]
    known = set(single)
    found = (
        each
        for each in sorted(single, key=len)
        if known.isdisjoint(combinations(each, len(each) - 1))
    )
    return [" with ".join(f"{name}={value}" for name, value in each) for each in found]


def _count_records(plan: SketchPlan, study: studies.StudyBody) -> int | None:
    """Return about how many records a stream makes a day; None if nobody can know."""
    if plan.window.kind == "count" or not study.n_records:
        return None
    return math.ceil(study.n_records * 86_400 / (study.n_sketches * plan.window.length_s))


def _describe_words(plan: SketchPlan) -> dict[str, str]:
    rows = {name: text for name, text in describe_plan(plan, None) if name not in _ELSEWHERE}
    return {"a device sends": describe_release(plan)} | rows


def _list_readers(plan: SketchPlan) -> dict[str, str]:
    release, database = plan.sum_release, "whoever reads the server's database or its backups"
    readers = {"raw records, and exact sums of open windows": "the device alone"}
    if release is None:
        readers["stored sketches, with their noise"] = database
    else:
        readers |= {"masked sums": database, "what unmasks them": describe_helper(release)}
    return readers | dict(list_readers())


def render_dossier(dossier: Dossier) -> str:
    """Return a dossier as one HTML page without scripts or anything from elsewhere."""
    title = f"Privacy dossier: {dossier.study.name}"
    note = (
        f"As the server {dossier.server} (Sfumato {dossier.privacy.version}) shows it to an "
        f"operator on {dossier.made}. Facts for an assessment of data protection, not legal advice."
    )
    sections = {
        "To be stated by the operator": _list_stated(dossier),
        "What is promised": _describe_promise(dossier),
        "What is collected": _describe_collection(dossier),
        "Who can see what": _describe_access(dossier),
        "Where it lies, how long, and what erases it": _list_retention(dossier),
        "Devices": _describe_devices(dossier),
        "What operators did": _list_audit(dossier),
    }
    body = "".join(
        f"<section><h2>{name}</h2>{''.join(parts)}</section>" for name, parts in sections.items()
    )
    return render_page(f'<p class="note">{escape(note)}</p>{body}', title=title, heading=title)


def _list_stated(dossier: Dossier) -> Iterator[str]:
    blank = '<span class="blank">to be filled in</span>'
    stated = {name: escape(text) for name, text in dossier.stated.items()}
    yield _define((text, stated.get(name, blank)) for name, text in QUESTIONS.items())


def _describe_promise(dossier: Dossier) -> Iterator[str]:
    plain, _, exact = dossier.statement.partition(EXACTLY)
    yield f"<p>{escape(plain)}</p><p>{EXACTLY}{escape(exact)}</p>"
    yield from (f"<p>Caution: {escape(doubt)}.</p>" for doubt in dossier.doubts)
    items = "".join(f"<li>{escape(text)}</li>" for text in dossier.privacy.unprotected)
    yield f"<h3>What the promise does not cover</h3><ul>{items}</ul>"


def _describe_collection(dossier: Dossier) -> Iterator[str]:
    study = dossier.study
    records = "a secret number of" if study.n_records is None else f"{study.n_records:,}"
    yield (
        f"<p>{study.n_sketches:,} sketches of {study.n_devices:,} device(s), of {records} records, "
        f"since {_show_day(study.created)}; the study is {escape(study.state)}. Records themselves "
        "never leave a device.</p>"
    )
    yield _define((name, escape(text)) for name, text in dossier.words.items())
    facts = ((each.what, each.detail, each.seen_by) for each in dossier.privacy.public)
    yield "<h3>What no noise hides</h3>"
    yield _tabulate(["fact", "what it shows", "seen by the server, and by"], facts)


def _describe_access(dossier: Dossier) -> Iterator[str]:
    alarms = "alarms and verdicts, by webhook", ", ".join(dossier.receivers) or "nobody"
    yield _tabulate(["what", "who"], [*dossier.readers.items(), alarms])
    yield "<h3>Keys of the server; each device holds its own</h3>"
    days = [map(_show_day, (key.created, key.last_used, key.revoked)) for key in dossier.keys]
    rows = ((key.name, key.scope, *day) for key, day in zip(dossier.keys, days, strict=True))
    yield _tabulate(["holder", "scope", "created", "last used", "revoked"], rows)


def _list_retention(dossier: Dossier) -> Iterator[str]:
    days = dossier.privacy.payload_days
    kept, left = "as long as the study", "an operator excludes it: all leave later answers"
    if days is not None:
        kept = f"{days:g} days; then no sum can lose it"
        left = f"an operator excludes it: those of the last {days:g} days leave later answers"
    if dossier.plan["release"]["kind"] == "sum.v1":
        left = "impossible alone: an operator can set aside a whole batch"
    yield _define(
        [
            ("a single sketch", kept),
            ("sums, identities, digests, times, answers", "as long as the study"),
            ("plan, name and device keys", "also after the study was deleted"),
            ("messages to webhooks", "90 days"),
            ("audit log", "as long as the database; nobody can change or remove an entry"),
            ("a sketch on its device", "until the server has it, and 30 days more"),
            ("what each record has lost", "in the owner's ledger on the device, for good"),
            ("a device withdraws", "its owner stops it, or erases key and sketches on it: forget"),
            ("... and its sketches leave", left),
            ("all of the study", "an operator deletes it; backups keep what they had"),
        ]
    )


def _describe_devices(dossier: Dossier) -> Iterator[str]:
    agents = ", ".join(f"{n:,} with agent {name}" for name, n in sorted(dossier.agents.items()))
    yield f"<p>{escape(capitalise(agents))}</p>"
    if dossier.singled_out:
        yield (
            "<p>Caution: only one device has each of these labels, or all labels of a "
            "combination, so an answer for them is an answer about its device: "
            f"{escape(', '.join(dossier.singled_out))}.</p>"
        )
    rows = (
        (each.device_id[:12], each.state, _show_day(each.excluded or each.revoked), each.reason)
        for each in dossier.left
    )
    yield _tabulate(["revoked or excluded device", "state", "since", "reason"], rows)


def _list_audit(dossier: Dossier) -> Iterator[str]:
    holders = {key.key_id: key.name for key in dossier.keys}
    rows = []
    for each in dossier.audit:
        details = json.dumps(each.details, ensure_ascii=False) if each.details else ""
        who = holders.get(each.actor, each.actor)
        rows.append((each.time[:19], who, each.action, each.target[:12], details))
    yield _tabulate(["time", "who", "action", "on", "details"], rows)


def _tabulate(heads: list[str], rows: Iterable[Iterable[str | None]]) -> str:
    cells = [[escape(cell or "") for cell in row] for row in rows]
    return tabulate(heads, cells, kind="words")


def _define(rows: Iterable[tuple[str, str]]) -> str:
    return f"<dl>{''.join(f'<dt>{escape(name)}</dt><dd>{text}</dd>' for name, text in rows)}</dl>"


def _show_day(time: str | None) -> str:
    return (time or "never")[:10]
