"""Dossiers: what a server shows of a study, names of others as text, and marked blanks."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from sfumato.analyst import Client
from sfumato.analyst.client.connection import Connection
from sfumato.analyst.report import Dossier, collect_dossier, render_dossier
from sfumato.analyst.report.dossier import QUESTIONS
from sfumato.shared.plan import WindowRule, plan_to_json
from sfumato.shared.wire.objects.alarms import AlarmBody
from sfumato.shared.wire.objects.answers import PrivacyBody
from sfumato.shared.wire.objects.declaration import SAMPLE_ID, make_sample
from sfumato.shared.wire.objects.devices import PlanBody
from sfumato.shared.wire.objects.studies import (
    AuditBody,
    DeviceBody,
    DeviceDetailsBody,
    KeyBody,
    StudyBody,
)
from tests.aggregator.fleet import make_plan

HOSTILE = '</style><script>alert("x")</script>'
DAILY = replace(make_plan(), window=WindowRule(kind="time", length_s=86_400))
STUDY = f"/v1/studies/{SAMPLE_ID}"
OPERATOR = "11" * 8


def sample(kind: type[Any], **changes: Any) -> dict[str, Any]:
    return (make_sample(kind) or {}) | changes


def list_answers() -> dict[str, Any]:
    """Return what a server with three devices answers, one of them excluded."""
    devices = [
        sample(DeviceBody, device_id=f"{i}b" * 32, labels={"site": site}, state=state)
        for i, (site, state) in enumerate(
            [("north", "enrolled"), ("south", "revoked"), ("north", "excluded"), ("x", "excluded")]
        )
    ]
    gone = {"state": "excluded", "reason": HOSTILE, "excluded": "2026-03-02T12:00:00Z"}
    return {
        STUDY: sample(StudyBody, n_sketches=120, n_records=120 * 288),
        f"{STUDY}/plan": sample(PlanBody, plan=plan_to_json(DAILY)),
        f"{STUDY}/privacy": sample(PrivacyBody),
        f"{STUDY}/devices": devices,
        f"{STUDY}/alarms": [sample(AlarmBody, url="https://hooks.example.org/T00/secret-path")],
        **{
            f"/v1/devices/{device_id}": sample(DeviceDetailsBody, device_id=device_id, **gone)
            for device_id in ("1b" * 32, "2b" * 32, "3b" * 32)
        },
        "/v1/keys": [sample(KeyBody), sample(KeyBody, key_id=OPERATOR, name="op")],
        "/v1/audit": [
            sample(AuditBody, actor=OPERATOR, details={"reason": HOSTILE}),
            sample(AuditBody, target="ff" * 32, action="study.of-others"),
        ],
    }


@contextmanager
def connect(answers: dict[str, Any]) -> Iterator[Client]:
    """Open a client of a server that answers so."""

    def handle(request: httpx.Request) -> httpx.Response:
        answer = answers[request.url.path]
        whole = {"items": answer, "next_page": None} if isinstance(answer, list) else answer
        return httpx.Response(200, json=whole)

    with Client("https://sketches.example.org") as client:
        client._calls._server = Connection(
            client.url, blocks=True, transport=httpx.MockTransport(handle)
        )
        yield client


def make(stated: dict[str, str | None] | None = None, **changes: Any) -> Dossier:
    """Collect a dossier; ``changes`` are of the study, or of the privacy statement."""
    answers = list_answers()
    for path in (STUDY, f"{STUDY}/privacy"):
        answers[path] |= {name: each for name, each in changes.items() if name in answers[path]}
    with connect(answers) as client:
        return collect_dossier(
            client,
            SAMPLE_ID,
            made="2026-03-08 09:00 UTC",
            stated={"controller": f"City {HOSTILE}"} if stated is None else stated,
        )


def test_a_page_has_no_script_and_names_of_others_are_text() -> None:
    page = render_dossier(make(name=HOSTILE))
    assert "<script" not in page
    assert page.count("</style>") == 1
    assert page.count("&lt;script&gt;") >= 4
    if folder := os.environ.get("SFUMATO_TEST_PAGES"):
        Path(folder, "dossier.html").write_text(render_dossier(make()), encoding="utf-8")


def test_a_person_is_judged_at_the_records_that_devices_have_made() -> None:
    found = make()
    assert "makes about 288 a day is protected" in found.doubts[-1]
    assert "one every five minutes" not in render_dossier(found)
    said = found.statement
    assert "makes about 288 a day is protected in the 14 windows of two weeks at epsilon" in said
    assert "makes 288 a day, one every five minutes," in make(n_records=None).statement


def test_what_nobody_stated_stays_a_marked_blank() -> None:
    found = make()
    assert render_dossier(found).count('class="blank"') == len(QUESTIONS) - 1
    assert found.open_questions == list(QUESTIONS)[1:]
    every = make(dict.fromkeys(QUESTIONS, "known"))
    assert 'class="blank"' not in render_dossier(every)
    assert every.open_questions == []


def test_a_label_that_one_device_alone_has_is_named() -> None:
    # The other device in the north was excluded; a revoked one stays in the sums.
    assert make().singled_out == ["site=north", "site=south"]
    assert "an answer about its device: site=north, site=south" in render_dossier(make())


def test_a_combination_that_only_one_device_has_is_listed_by_its_shortest_part() -> None:
    answers = list_answers()
    sites, models, floors = ["north"] * 3 + ["south"] * 2, "aabbb", "11122"
    held = zip(sites, models, floors, strict=True)
    names = ("site", "model", "floor")
    answers[f"{STUDY}/devices"] = [
        sample(
            DeviceBody,
            device_id=f"{i}c" * 32,
            state="enrolled",
            labels=dict(zip(names, values, strict=True)),
        )
        for i, values in enumerate(held)
    ]
    with connect(answers) as client:
        found = collect_dossier(client, SAMPLE_ID, made="now", stated={})
    # The third device; all three of its labels single it out too, but say no more.
    assert found.singled_out == ["floor=1 with model=b", "model=b with site=north"]
    assert "model=b with site=north" in render_dossier(found)


def test_a_webhook_is_shown_by_its_host_and_an_actor_by_its_name() -> None:
    page = render_dossier(make())
    assert "hooks.example.org" in page
    assert "secret-path" not in page + json.dumps(asdict(make()))
    assert "<td>op</td>" in page


def test_the_log_is_of_this_study_and_devices_that_left_are_listed_with_the_reason() -> None:
    found = make()
    assert [each.target for each in found.audit] == [SAMPLE_ID]
    assert [each.device_id for each in found.left] == ["1b" * 32, "2b" * 32, "3b" * 32]
    assert "2b2b2b2b2b2b</th><td>excluded</td><td>2026-03-02" in render_dossier(found)


@pytest.mark.parametrize(
    ("days", "words"), [(30.0, "30 days; then no sum can lose it"), (None, "long as the study")]
)
def test_the_retention_of_the_server_is_stated(days: float | None, words: str) -> None:
    assert words in render_dossier(make(payload_days=days))


def test_of_masked_sums_no_single_device_can_be_taken_out() -> None:
    assert "an operator excludes it" in render_dossier(make())
    masked = render_dossier(replace(make(), plan={"release": {"kind": "sum.v1"}}))
    assert "an operator excludes it" not in masked
    assert "impossible alone" in masked
