"""A campaign on the page: its phases, what they wait for and have shown, and an operator's yes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import httpx
import numpy as np
import pytest

from sfumato.analyst import Client
from sfumato.analyst.planning.campaigns import CampaignOutline, plan_campaign
from sfumato.analyst.planning.pilots import parse_columns
from sfumato.shared.core import SketchAccumulator
from sfumato.shared.privacy.testing import SeededSource
from tests.aggregator.fleet import Device
from tests.aggregator.ui.browser import MISSING, PROGRAM
from tests.aggregator.ui.scene import Scene, enrol, upload
from tests.device_agent.daemons import wait_until

pytestmark = pytest.mark.skipif(PROGRAM is None, reason=MISSING)

FORM = "[aria-label=Campaign] form"
START, DAY = 1_767_225_600, 86_400  # 2026-01-01 in UTC
N_RECORDS = 4000


@pytest.fixture(scope="module")
def client(scene: Scene) -> Iterator[Client]:
    with Client(scene.aggregator.url, key=scene.aggregator.key) as client:
        yield client


@pytest.fixture(scope="module", autouse=True)
def halting(client: Client) -> str:
    """A campaign from whose pilot nothing follows, which the server finds out in a while."""
    return begin(client, "faint", epsilon=Fraction(1, 500))


def begin(client: Client, name: str, *, epsilon: Fraction, **how: Any) -> str:
    """Publish a campaign of past days; return the study of its pilot, with its sketch."""
    outline = CampaignOutline(
        dimensions=parse_columns(["room:degC:-10..40"]),
        n_records=N_RECORDS,
        n_devices=1,
        most_clusters=2,
        epsilon=epsilon,
        origin=START,
        length_s=DAY,
        n_windows=(1, 1, 1),
    )
    study: str = client.create_study(name, plan_campaign(outline)[1]).study_id
    send(client, study, 0)
    client.begin_campaign(study, **how)
    return study


def send(client: Client, study: str, number: int) -> None:
    """Let a device send all windows of a phase."""
    identity, plan = bytes.fromhex(study), client.plan(study)
    device, rng = Device(int(study[:6], 16), labels={}), np.random.default_rng(number)
    accumulator = SketchAccumulator(plan.statistic_of(device.device_id + b"main"))
    accumulator.add(rng.choice([15.0, 20.0], (N_RECORDS, 1)) + rng.normal(0.0, 0.5, (N_RECORDS, 1)))
    exact = plan.finish_sum(accumulator.sums, N_RECORDS)
    sums = plan.mechanism.add_noise(exact, SeededSource(number))
    with httpx.Client(base_url=client.url) as http:
        enrol(http, device.enrolment(client.create_token(study), identity))
        sent = device.message(identity, plan, sums, n_records=N_RECORDS, slots=(0, 0))
        assert upload(http, study, *sent) == 201


def read_phases(scene: Scene) -> list[str]:
    shown = "[...document.querySelectorAll('.phases li')].map(li => li.innerText)"
    return [" | ".join(text.split("\n\n")) for text in scene.page.evaluate(shown)]


def press(scene: Scene, until: str) -> None:
    """Press the button until something is shown, behind a decode where one is needed."""
    scene.page.tab_to(f"{FORM} button")
    scene.page.press("Enter")
    scene.page.wait(until, problem=True)


def test_an_operator_leads_a_campaign_from_its_pilot_to_its_answer_on_the_page(
    scene: Scene, client: Client
) -> None:
    pilot = begin(client, "warmth", epsilon=Fraction(4), n_devices=3, is_automatic=False)
    scene.enter(f"{scene.aggregator.url}/#studies/{pilot}")
    page = scene.page
    first, *rest = read_phases(scene)
    assert first.startswith(
        "Pilot | Jan 1, 2026 | 1 of 3 devices done | Waits: 2 of 3 devices have"
    )
    assert rest == ["Sketch | Jan 2, 2026 | To come", "Look | Jan 3, 2026 | To come"]
    press(scene, "document.querySelectorAll('.phases .coming').length === 1")
    for number, until in (
        (1, "!document.querySelector('.phases .coming')"),
        (2, f"!document.querySelector('{FORM}')"),
    ):
        study = client.campaign(pilot).phases[number].study_id
        assert study is not None
        send(client, study, number)
        scene.go("", study)
        press(scene, until)
    assert page.evaluate("document.querySelector('[aria-current=page]').innerText") == "Look"
    shown = read_phases(scene)
    assert shown[0].endswith("1 of 3 devices done | Distributions and calibration")
    assert "2 clusters" in shown[1]
    assert "Measured shares: " in shown[2]
    # The devices of a look are compared by the sketch.
    scene.go("devices", study)
    page.wait("document.querySelector('main').innerText.includes('Devices are compared by')")
    page.evaluate("[...document.links].find(a => a.text === 'the sketch of this campaign').click()")
    page.wait("document.querySelector('h1')?.textContent === 'warmth sketch'")
    page.evaluate("location.hash = ''")
    page.wait("document.querySelector('main h1')?.textContent === 'Studies'")
    rows = [line.split("\t")[0] for line in page.text("tbody").splitlines() if "warmth" in line]
    assert rows == ["warmth", "then warmth sketch", "then warmth look"]
    assert not page.complaints


def test_a_campaign_that_halts_says_why_and_an_operator_alone_goes_on(
    scene: Scene, client: Client, halting: str
) -> None:
    wait_until(lambda: client.campaign(halting).phases[0].problem is not None)
    key = client.create_key("reader", scope="analyst").key
    page, aggregator = scene.page, scene.aggregator
    reader = replace(scene, aggregator=replace(aggregator, key=key))
    for who, buttons in ((reader, 0), (scene, 1)):
        who.enter(f"{aggregator.url}/#studies/{halting}")
        assert "| halted |" in read_phases(scene)[0]
        problem = page.text("[aria-label=Campaign] .problem")
        assert "Do not run this" in problem
        assert "run a stronger pilot" in problem.partition("fix")[2]
        assert page.evaluate(f"document.querySelectorAll('{FORM}').length") == buttons
    try:
        page.resize(390)
        assert page.evaluate("document.documentElement.scrollWidth") == 390
    finally:
        page.resize(1200)
    page.tab_to(f"{FORM} input")
    page.press(" ")
    page.tab_to(f"{FORM} button")
    page.press("Enter")
    page.wait("document.querySelectorAll('.phases .coming').length === 1", problem=True)
    assert page.evaluate("document.activeElement.textContent") == "Campaign faint"
    assert not page.evaluate("document.querySelector('.problem')")
    assert not page.complaints
