"""How a browser's part in a study ends, under a real server, in a real browser."""

from __future__ import annotations

import json

import pytest

from sfumato.shared.wire import EnrolmentCode, encode_enrolment_code, make_page_address
from tests.aggregator.ui.browser import MISSING, PROGRAM
from tests.aggregator.ui.scene import Scene
from tests.aggregator.ui.trying import (
    DROP,
    FLUSH,
    FORGET,
    Visit,
    find,
    make_count_plan,
    press,
    take_part,
    visiting,
)

pytestmark = pytest.mark.skipif(PROGRAM is None, reason=MISSING)
# As a browser that is short of space does it; where a ledger goes too.
_ERASE = """new Promise((done) => {
  indexedDB.deleteDatabase("sfumato").onsuccess = () => done();
})"""
# Another device of this browser fills the study.
_FILL = """import('/ui/device/sfumato-device.js').then(async (m) => {
  const device = new m.Device({ name: 'other', store: m.openIndexedDb('other') });
  await device.enrol(%s);
  for (let i = 0; i < 5; i++) device.add(['red']);
  await device.flush();
  await device.forget();
})"""
# Another page of this site gives the same readings to another study.
_SPEND = """import('/ui/device/sfumato-device.js').then((m) =>
  m.openIndexedDb().update(['ledger'], ({ ledger = [] }) => ({ ledger: [...ledger, {
    study: 'f'.repeat(64), stream: 'other/main', source: 'default', plan: 'e'.repeat(64),
    epsilon: '1', neighbouring: 'replace-one', count: 1, copy: 0,
  }] })))"""
# A copy of this browser's data, as in a backup, goes on as the same device.
_COPY = """import('/ui/device/sfumato-device.js').then(async (m) => {
  const store = m.openIndexedDb();
  await store.update(['device/try'], (values) => ({ 'device/copy': values['device/try'] }));
  const device = new m.Device({ name: 'copy', source: 'copy', store });
  for (let i = 0; i < 5; i++) device.add(['red']);
  await device.flush();
  await device.forget();
})"""
# As where the server was put back to a day before this device enrolled.
_UNKNOWN = """import('/ui/device/sfumato-device.js').then((m) =>
  m.openIndexedDb().update(['device/try'], (values) => ({
    'device/try': { ...values['device/try'], device: new Uint8Array(32) },
  })))"""


def test_a_page_whose_device_was_erased_in_another_tab_goes_back_to_its_door(visit: Visit) -> None:
    page = visit.page
    take_part(page)
    page.wait_for(".leaving", problem=True)
    press(page, "Start recording")
    page.evaluate(FORGET)
    page.wait_for("#code", problem=True)
    assert "left in another tab" in page.text(".problem")
    assert "Paste a code" in page.text(".problem")


def test_a_page_whose_browser_has_erased_its_data_says_that_and_not_that_somebody_left(
    visit: Visit,
) -> None:
    page = visit.page
    take_part(page)
    page.wait_for(".leaving dl", problem=True)
    page.evaluate(_ERASE)
    page.evaluate(FLUSH)
    page.wait_for("#code", problem=True)
    assert "The browser has erased this site's data" in page.text(".problem")
    assert "another tab" not in page.text(".problem")


def test_who_leaves_while_something_is_sent_is_shown_no_error(visit: Visit) -> None:
    page = visit.page
    take_part(page)
    page.wait_for(".leaving dl", problem=True)
    # The answer to what is under way comes once the device is gone.
    leave = find("Leave the study and erase its data here")
    page.evaluate(f"{FLUSH}; {leave}.click()")
    page.wait_for("#code", problem=True)
    page.evaluate("new Promise((done) => setTimeout(done, 500))")
    assert page.evaluate("document.querySelector('.problem')") is None


def test_a_closed_study_is_not_offered_and_says_so_before_anybody_tries(visit: Visit) -> None:
    page = visit.page
    visit.client.set_state(visit.study, "closed")
    press(page, "Take part")
    page.wait_for("p.ended")
    for _ in range(2):
        assert "closed: it takes no more devices" in page.text("p.ended")
        assert "network" not in page.text()
        assert not page.evaluate(f"Boolean({find('Take part')})")
        page.open("about:blank", until=None)
        page.open(make_page_address(visit.code), until="p.ended")


def test_a_recording_ends_with_its_study_and_may_go_on_where_it_opens_again(visit: Visit) -> None:
    page = visit.page
    take_part(page)
    page.wait_for(".leaving dl", problem=True)
    press(page, "Start recording")
    visit.client.set_state(visit.study, "closed")
    page.evaluate(FLUSH)
    page.wait_for(".ended")
    assert page.text(".ended h2") == "The study is closed"
    assert "used only if the study opens again" in page.text(".ended")
    assert page.evaluate("document.querySelector('fieldset button').matches(':disabled')")
    assert not page.evaluate(f"Boolean({find('Stop recording')})")
    visit.client.set_state(visit.study, "open")
    page.evaluate(FLUSH)
    page.wait_for(".ended", absent=True)
    press(page, "Start recording")
    assert page.evaluate(f"Boolean({find('Stop recording')})")


@pytest.mark.parametrize(
    ("end", "title", "said"),
    [
        ("closed", "The study is closed", "1 wait until the study opens again"),
        ("revoked", "The operator has revoked this device", "1 are not taken any more"),
        ("excluded", "The operator has excluded this device", "1 refused by the server"),
        ("withdrawn", "The study was withdrawn", "1 are not taken any more"),
        ("spent", "This browser has sent all that it may", "Sketches sent\n1\n"),
        ("full", "The study is full", "1 refused by the server"),
        (
            "budget",
            "The limit of this browser is reached",
            "at most over all studies, and one more sketch",
        ),
        ("copied", "This device has stopped itself", "copied or put back from a backup"),
    ],
)
def test_a_device_whose_part_has_ended_says_why_and_records_no_more(
    scene: Scene, end: str, title: str, said: str
) -> None:
    numbers = {"spent": {"most_sketches_per_device": 1}, "full": {"most_sketches": 1}}
    with visiting(scene, make_count_plan(**numbers.get(end, {}))) as visit:
        check_end(visit, end, title, said)


def check_end(visit: Visit, end: str, title: str, said: str) -> None:
    page, study = visit.page, visit.study
    take_part(page)
    page.wait_for(".leaving dl", problem=True)
    (device,) = visit.client.devices(study)
    if end == "closed":
        # Five readings are a sketch, which is made by what the server said before.
        visit.client.set_state(study, "closed")
    elif end == "revoked":
        visit.client.revoke_device(device.device_id, reason="lost")
    elif end == "excluded":
        visit.client.exclude_device(device.device_id, reason="lies")
    elif end == "withdrawn":
        visit.client.withdraw_study(study, name=visit.client.study(study).name)
    elif end == "full":
        other = visit.make_code(study, max_uses=1)
        page.evaluate(_FILL % json.dumps(encode_enrolment_code(other)))
    elif end == "budget":
        page.evaluate(_SPEND)
    elif end == "copied":
        page.evaluate(_COPY)
    page.evaluate(f"{DROP}({json.dumps('colour' + chr(10) + 5 * ('red' + chr(10)))})")
    # Where the device hears of the end first, the page says so as a problem, and then for good.
    told = "document.querySelector('.drop [role=status]').textContent"
    page.wait(f"{told}.includes('read here')", problem=True)
    page.evaluate(FLUSH)
    page.wait_for(".ended", problem=True)
    assert page.text(".ended h2") == title
    assert page.evaluate("document.querySelector('fieldset').disabled")
    shown = "document.querySelector('main').innerText"
    page.wait(f"{shown}.includes({json.dumps(said)})", problem=True)
    assert page.evaluate("document.querySelector('.problem')") is None


def test_a_device_that_its_server_has_lost_says_so_at_its_next_visit(visit: Visit) -> None:
    page = visit.page
    take_part(page)
    page.wait_for(".leaving dl", problem=True)
    page.evaluate(_UNKNOWN)
    page.open(f"{visit.scene.aggregator.url}/try/", until=".ended")
    assert page.text(".ended h2") == "The server does not know this device"
    assert "Another code lets this browser take part again" in page.text(".ended")
    assert page.evaluate("document.querySelector('fieldset').disabled")
    press(page, "Leave the study and erase its data here")
    page.wait_for("#code")


def test_a_code_of_a_study_that_its_server_lacks_asks_for_another_code(scene: Scene) -> None:
    page, url = scene.page, scene.aggregator.url
    page.open("about:blank", until=None)
    code = EnrolmentCode(server=url, study=bytes(32), token="secret")
    page.open(make_page_address(code), until=None)
    page.wait_for(".problem", problem=True)
    said = "The server has no such study. Ask the study's operator for another code."
    assert said in page.text(".problem")
    assert page.text(".door h1") == "Make this browser a device"


def test_a_code_that_was_revoked_asks_for_another_code_in_a_sentence(visit: Visit) -> None:
    page = visit.page
    # Without a ledger of other studies.
    page.evaluate(_ERASE)
    (token,) = visit.client.tokens(visit.study)
    visit.client.revoke_token(token.token_id)
    press(page, "Take part")
    page.wait_for(".problem", problem=True)
    said = "The code was revoked. Ask the study's operator for another code."
    assert page.text(".problem p") == said
    assert page.evaluate("document.querySelector('.problem dl')") is None
