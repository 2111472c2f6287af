"""The page that makes a browser a device, under a real server, in a real browser."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import pytest

from analyst import Client
from deploy.demo.trying import make_plan
from shared.plan import SketchPlan, plan_from_spec
from shared.wire import EnrolmentCode, encode_enrolment_code, make_page_address
from tests.aggregator.ui.browser import MISSING, PROGRAM, Page
from tests.aggregator.ui.scene import Scene

pytestmark = pytest.mark.skipif(PROGRAM is None, reason=MISSING)
WINDOW_S = 3
NAME = "tilt <b>of</b> phones"
_MOVE = """((x, y) => {
  const sliders = document.querySelectorAll("input[type=range]");
  [x, y].forEach((value, i) => {
    sliders[i].value = value;
    sliders[i].dispatchEvent(new Event("input"));
  });
})"""
_DROP = """((text) => {
  const data = new DataTransfer();
  data.items.add(new File([text], "held.csv"));
  document.querySelector(".drop").dispatchEvent(new DragEvent("drop", { dataTransfer: data }));
})"""


# As another tab does it.
_FORGET = """import('/ui/device/sfumato-device.js').then(
  (m) => new m.Device({ name: 'try', store: m.openIndexedDb() }).forget())"""
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
# The page sends at once when the network comes back.
_FLUSH = "void dispatchEvent(new Event('online'))"


def _find(text: str) -> str:
    return f"[...document.querySelectorAll('button')].find((b) => b.textContent === {text!r})"


def press(page: Page, text: str) -> None:
    """Press the button with a text, as soon as it is there."""
    page.wait(f"Boolean({_find(text)})", problem=True)
    page.evaluate(f"{_find(text)}.click()")


def _make_count_plan(*numbers: str, **other: int) -> SketchPlan:
    """Return the plan of a study of choices, or of numbers, of which five readings are a sketch."""
    choice = {"name": "colour", "unit": "1", "levels": ["red", "green"]}
    angle = {"unit": "°", "lower": -90.0, "upper": 90.0, "scale": 12.0}
    return plan_from_spec(
        {
            "dimensions": [{"name": name, **angle} for name in numbers] or [choice],
            **{"n_frequencies": 20, "seed": "choices", "epsilon": "1"},
            **{"mechanism": "discrete-knorm", "most_records": 1000},
            "window": {"kind": "count", "length": 5},
            **other,
        }
    )


def take_part(page: Page) -> None:
    """Take part, also after another study, whose releases this browser's ledger has noted."""
    press(page, "Take part")
    page.wait("document.querySelector('.leaving, .problem')", problem=True)
    if page.evaluate("document.querySelector('.problem') !== null"):
        assert "This browser was a device of another study" in page.text(".problem")
        page.evaluate("document.querySelector('.problem button').click()")


@dataclass(frozen=True)
class Visit:
    """A study that lets browsers in, and a browser at its page."""

    scene: Scene
    client: Client
    study: str
    code: EnrolmentCode

    @property
    def page(self) -> Page:
        return self.scene.page

    def publish(self, plan: SketchPlan) -> EnrolmentCode:
        """Publish a study of its own, and let one browser in."""
        made = self.client.create_study(f"other {time.time_ns()}", plan, allow_same_plan=True)
        return self.make_code(made.study_id, max_uses=1)

    def make_code(self, study: str, *, max_uses: int) -> EnrolmentCode:
        token = self.client.create_token(study, max_uses=max_uses)
        server = self.scene.aggregator.url
        return EnrolmentCode(server=server, study=bytes.fromhex(study), token=token)

    def sketches(self) -> list[int]:
        return [each.n_records or 0 for each in self.client.sketches(self.study)]


@pytest.fixture
def visit(scene: Scene) -> Iterator[Visit]:
    server = scene.aggregator
    with Client(server.url, key=server.key) as client:
        # Slots that began long ago: the clock of a device may differ from the server's.
        plan = make_plan(window_s=WINDOW_S, origin=int(time.time()) - 3600)
        made = client.create_study(f"{NAME} {time.time_ns()}", plan, allow_same_plan=True)
        study = made.study_id
        token = client.create_token(study, max_uses=3)
        code = EnrolmentCode(server=server.url, study=bytes.fromhex(study), token=token)
        # A page of another test would take the code without being loaded anew.
        scene.page.open("about:blank", until=None)
        scene.page.requests.clear()
        scene.page.open(make_page_address(code), until="h1")
        yield Visit(scene, client, study, code)
        scene.page.open(f"{server.url}/try/", until="h1")
        scene.page.evaluate(_FORGET)
        scene.page.open("about:blank", until=None)


def test_a_browser_takes_part_and_sees_what_leaves_it_and_what_comes_back(visit: Visit) -> None:
    page = visit.page
    assert NAME in page.text("h1"), "a name is text, never markup"
    asked = page.text()
    assert "left-right (°), -90 to 90" in asked
    assert "1 a sketch, by K-norm noise" in asked
    # The secret is in no address, and nothing was sent.
    assert page.evaluate("location.hash") == ""
    secret = encode_enrolment_code(visit.code)
    assert not any(secret in each["url"] + str(each["headers"]) for each in page.requests)
    assert {each["method"] for each in page.requests} == {"GET"}
    take_part(page)
    page.wait_for(".leaving", problem=True)
    press(page, "Start recording")
    for x, y in ((-40.0, -30.0), (40.0, 45.0)) * 8:
        page.evaluate(f"{_MOVE}({x}, {y})")
        time.sleep(0.25)
    page.wait_for(".leaving .sent")
    press(page, "Stop recording")
    stored = {each.sketch_id for each in visit.client.sketches(visit.study)}
    page.evaluate("0")
    sent = [each for each in page.requests if each["method"] != "GET"]
    assert {each["method"] for each in sent} == {"POST", "PUT"}
    kept = {urlsplit(each["url"]).path.split("/")[-1] for each in sent if each["method"] == "PUT"}
    assert stored
    assert stored <= kept
    page.wait("document.querySelector('.leaving').innerText.includes('Epsilon spent')")
    leaving = page.text(".leaving")
    assert "(sent as they are: none)" in leaving
    assert "enrolment: a public key, and your choices" in leaving, "it was sent before the list"
    assert "1 for a reading, which is in one sketch" in leaving
    decode = visit.client.decode(visit.study, n_clusters=2)
    decode.wait(allow_unusable=True)
    visit.client.publish(decode.decode_id, allow_unusable=True)
    press(page, "Look for a new result")
    page.wait_for(".back-comes .swatch")
    assert page.evaluate("document.querySelectorAll('.plane .cluster').length") == 2
    # A second visit goes on with the same device, and shows the result at once.
    page.open(f"{visit.scene.aggregator.url}/try/", until=".back-comes .swatch")
    assert len(list(visit.client.devices(visit.study))) == 1
    press(page, "Leave the study and erase its data here")
    page.wait_for("#code")


def test_a_table_that_is_dropped_is_added_here_and_one_without_the_columns_is_refused(
    visit: Visit,
) -> None:
    page = visit.page
    take_part(page)
    page.wait_for(".drop", problem=True)
    page.evaluate(f"{_DROP}({json.dumps('left-right,other' + chr(10) + '1,2')})")
    told = "document.querySelector('.drop [role=status]').textContent"
    page.wait(told)
    assert "no column front-back" in page.evaluate(told)
    rows = "".join(f"{i % 40}.5;-{i % 30}\n" for i in range(300))
    page.evaluate(f"{_DROP}({json.dumps('left-right;front-back' + chr(10) + rows)})")
    page.wait(f"{told}.includes('300 rows of held.csv')")
    page.wait_for(".leaving .sent")
    assert sum(visit.sketches()) == 300
    press(page, "Leave the study and erase its data here")
    page.wait_for("#code")


@pytest.mark.parametrize("text", ["SFUMATO:NOTACODE", "%E0%A4"])
def test_a_wrong_code_is_refused_with_the_fix(scene: Scene, text: str) -> None:
    page, url = scene.page, scene.aggregator.url
    page.open("about:blank", until=None)
    page.open(f"{url}/try/#{text}", until=None)
    page.wait_for(".problem", problem=True)
    assert "Copy or scan the whole code again" in page.text(".problem")
    page.open(f"{url}/try/", until="#code")
    assert page.text(".door h1") == "Make this browser a device"


def test_a_code_of_another_server_leads_there_and_nothing_is_asked_of_it(scene: Scene) -> None:
    page, url = scene.page, scene.aggregator.url
    elsewhere = "https://elsewhere.example"
    code = EnrolmentCode(server=elsewhere, study=bytes(32), token="secret")
    page.open("about:blank", until=None)
    page.requests.clear()
    page.open(f"{url}/try/#{encode_enrolment_code(code)}", until="main a")
    assert page.text("h1") == "This code is of another server"
    link = page.evaluate("document.querySelector('main a').href")
    assert link.startswith(f"{elsewhere}/try/#SFUMATO")
    assert not any(each["url"].startswith(elsewhere) for each in page.requests)


@contextmanager
def running_first(page: Page, script: str) -> Iterator[None]:
    """Run a script in each document before its own."""
    made = page.call("Page.addScriptToEvaluateOnNewDocument", source=script)
    try:
        yield
    finally:
        page.call("Page.removeScriptToEvaluateOnNewDocument", identifier=made["identifier"])


def test_a_page_that_may_store_nothing_says_so_however_often_it_is_asked(visit: Visit) -> None:
    page = visit.page
    refuse = "IDBFactory.prototype.open = () => { throw new DOMException('no', 'SecurityError') }"
    with running_first(page, refuse):
        page.open("about:blank", until=None)
        page.open(make_page_address(visit.code), until=None)
        for _ in range(2):
            page.wait_for(".problem", problem=True)
            assert "allow this site to store data" in page.text(".problem")
            page.evaluate("document.querySelector('.problem').remove()")
            page.evaluate(f"document.querySelector('#code').value = {str(visit.code.token)!r}")
            press(page, "Look at the study")


def test_a_page_that_came_by_plain_http_says_what_it_needs(visit: Visit) -> None:
    page = visit.page
    with running_first(page, "Object.defineProperty(window, 'isSecureContext', {value: false})"):
        page.open("about:blank", until=None)
        page.open(make_page_address(visit.code), until="h1")
        assert page.text("h1") == "This page needs https"
        assert page.evaluate("location.hash") == ""


def test_a_study_of_choices_alone_has_a_device_without_a_plane(visit: Visit) -> None:
    page = visit.page
    code = visit.publish(_make_count_plan())
    page.open("about:blank", until=None)
    page.open(make_page_address(code), until="h1")
    assert "colour (red, green)" in page.text()
    take_part(page)
    page.wait_for(".leaving", problem=True)
    assert page.evaluate("document.querySelector('.back-comes svg')") is None
    press(page, "Leave the study and erase its data here")
    page.wait_for("#code")


def test_a_page_whose_device_was_erased_in_another_tab_goes_back_to_its_door(visit: Visit) -> None:
    page = visit.page
    take_part(page)
    page.wait_for(".leaving", problem=True)
    press(page, "Start recording")
    page.evaluate(_FORGET)
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
    page.evaluate(_FLUSH)
    page.wait_for("#code", problem=True)
    assert "The browser has erased this site's data" in page.text(".problem")
    assert "another tab" not in page.text(".problem")


def test_who_leaves_while_something_is_sent_is_shown_no_error(visit: Visit) -> None:
    page = visit.page
    take_part(page)
    page.wait_for(".leaving dl", problem=True)
    # The answer to what is under way comes once the device is gone.
    leave = _find("Leave the study and erase its data here")
    page.evaluate(f"{_FLUSH}; {leave}.click()")
    page.wait_for("#code", problem=True)
    page.evaluate("new Promise((done) => setTimeout(done, 500))")
    assert page.evaluate("document.querySelector('.problem')") is None


def test_a_notice_stays_and_a_scanned_code_is_compared_with_the_study(visit: Visit) -> None:
    page = visit.page
    take_part(page)
    page.wait_for(".leaving dl", problem=True)
    page.evaluate(_FLUSH)
    page.wait("document.querySelector('.leaving').innerText.includes('Questions asked\\n8')")
    assert page.text("h1").startswith(NAME)
    assert "does not promise to keep this site's data" in page.text(".noticed")
    page.open("about:blank", until=None)
    page.open(make_page_address(visit.code), until=".leaving dl")
    assert "takes part in it already" in page.text(".noticed")
    other = visit.publish(_make_count_plan())
    page.open("about:blank", until=None)
    page.requests.clear()
    page.open(make_page_address(other), until=".leaving dl")
    assert "is of another study. Leave this one first" in page.text(".noticed")
    asked = [each["url"] for each in page.requests]
    assert not any(other.study.hex() in url for url in asked), "nobody learns of the code"


def test_a_closed_study_is_not_offered_and_says_so_before_anybody_tries(visit: Visit) -> None:
    page = visit.page
    visit.client.set_state(visit.study, "closed")
    press(page, "Take part")
    page.wait_for("p.ended")
    for _ in range(2):
        assert "closed: it takes no more devices" in page.text("p.ended")
        assert "network" not in page.text()
        assert not page.evaluate(f"Boolean({_find('Take part')})")
        page.open("about:blank", until=None)
        page.open(make_page_address(visit.code), until="p.ended")


def test_a_recording_ends_with_its_study_and_may_go_on_where_it_opens_again(visit: Visit) -> None:
    page = visit.page
    take_part(page)
    page.wait_for(".leaving dl", problem=True)
    press(page, "Start recording")
    visit.client.set_state(visit.study, "closed")
    page.evaluate(_FLUSH)
    page.wait_for(".ended")
    assert page.text(".ended h2") == "The study is closed"
    assert "used only if the study opens again" in page.text(".ended")
    assert page.evaluate("document.querySelector('fieldset button').matches(':disabled')")
    assert not page.evaluate(f"Boolean({_find('Stop recording')})")
    visit.client.set_state(visit.study, "open")
    page.evaluate(_FLUSH)
    page.wait_for(".ended", absent=True)
    press(page, "Start recording")
    assert page.evaluate(f"Boolean({_find('Stop recording')})")


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
    visit: Visit, end: str, title: str, said: str
) -> None:
    page = visit.page
    numbers = {"spent": {"most_sketches_per_device": 1}, "full": {"most_sketches": 1}}
    code = visit.publish(_make_count_plan(**numbers.get(end, {})))
    study = code.study.hex()
    page.open("about:blank", until=None)
    page.open(make_page_address(code), until="h1")
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
    page.evaluate(f"{_DROP}({json.dumps('colour' + chr(10) + 5 * ('red' + chr(10)))})")
    # Where the device hears of the end first, the page says so as a problem, and then for good.
    told = "document.querySelector('.drop [role=status]').textContent"
    page.wait(f"{told}.includes('read here')", problem=True)
    page.evaluate(_FLUSH)
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


def test_a_sensor_is_recorded_from_its_first_reading_and_one_that_gives_none_never(
    visit: Visit,
) -> None:
    page = visit.page
    permissions: dict[str, Any] = {"origin": visit.scene.aggregator.url, "permissions": ["sensors"]}
    page.call("Browser.grantPermissions", **permissions)
    with running_first(page, "Object.defineProperty(navigator, 'maxTouchPoints', { value: 5 })"):
        page.open("about:blank", until=None)
        page.open(make_page_address(visit.code), until="h1")
    take_part(page)
    page.wait_for(".leaving dl", problem=True)
    told = "document.querySelector('fieldset [role=status]').textContent"
    readings = "Number(document.querySelector('.leaving dd').textContent.split(' ')[0])"
    press(page, "Use the tilt of this device")
    page.wait(f"{told}.includes('nothing came from the tilt')")
    assert not page.evaluate(f"Boolean({_find('Stop recording')})")
    page.evaluate(_FLUSH)
    assert page.evaluate(readings) == 0
    press(page, "Use the tilt of this device")
    page.wait(f"{told}.startsWith('Waiting for')")
    turned = "new DeviceOrientationEvent('deviceorientation', { alpha: 1, beta: 30, gamma: -20 })"
    page.evaluate(f"dispatchEvent({turned})")
    assert page.evaluate(told) == "The pad follows the tilt of this device."
    assert "left-right (°): -20" in page.text("fieldset")
    assert page.evaluate(f"Boolean({_find('Stop recording')})")


def test_a_row_that_cannot_be_read_is_counted_aloud_and_keeps_its_place(visit: Visit) -> None:
    page = visit.page
    code = visit.publish(_make_count_plan("x", "y"))
    page.open("about:blank", until=None)
    page.open(make_page_address(code), until="h1")
    take_part(page)
    page.wait_for(".leaving dl", problem=True)
    told = "document.querySelector('.drop [role=status]').textContent"
    rows = "x;y\n1,5;-2\nn/a;3\n4;oops\n1;2\n3;4\n"
    page.evaluate(f"{_DROP}({json.dumps(rows)})")
    page.wait(f"{told}.includes('read here')")
    said = page.evaluate(told)
    assert said.startswith("5 rows of held.csv added")
    assert "2 rows have a value that cannot be read" in said
    assert "as 1,5 where semicolons separate" in said
    page.evaluate(_FLUSH)
    page.wait_for(".leaving .sent")
    (sketch,) = visit.client.sketches(code.study.hex())
    assert sketch.n_records == 5, "the number of records is public, whatever they hold"


def test_a_file_larger_than_what_a_device_holds_unstored_is_taken_whole(scene: Scene) -> None:
    page = scene.page
    page.open(f"{scene.aggregator.url}/try/", until="h1")
    rows = json.dumps("a\n" + "1\n" * 12_000)
    # What the device takes at once, and that a device that has ended takes nothing more.
    call = f"""import('/ui/try/sources.js').then(async (m) => {{
      const portions = [];
      const run = async (most) => {{
        const add = async ({{ length }}) => portions.push(length) <= most;
        const area = m.fileDrop([{{ name: 'a' }}], add);
        const data = new DataTransfer();
        data.items.add(new File([{rows}], 'held.csv'));
        area.dispatchEvent(new DragEvent('drop', {{ dataTransfer: data }}));
        const told = area.querySelector('[role=status]');
        while (!told.textContent.includes('read here')) await new Promise(requestAnimationFrame);
        return told.textContent;
      }};
      return [await run(9), portions.splice(0), await run(1)];
    }})"""
    whole, portions, part = page.evaluate(call)
    assert (whole[:11], portions) == ("12,000 rows", [5000, 5000, 2000])
    assert part.startswith("5,000 of 12,000 rows of held.csv added")
    assert part.endswith("The other 7,000 rows were not taken.")


def test_a_secret_number_of_readings_is_no_wave(scene: Scene) -> None:
    page = scene.page
    page.open(f"{scene.aggregator.url}/try/", until="h1")
    call = """import('/ui/try/leaving.js').then((m) => ['replace-one', 'add-remove-one'].map(
      (neighbouring) => m.readPayload(Uint8Array.of(9, 9, 1, 0, 255, 255, 7, 0), {
        payload_width: 2,
        statistic: { kind: 'fourier', frequencies_per_sketch: 1 },
        release: { kind: 'local.v1', neighbouring },
      })))"""
    assert page.evaluate(call) == [[-1, 7], [1, -1]]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a,b\n1,2\n3,\n", [[1, 2], [3, None]]),
        ("\ufeffb;a\r\n2;1\r\n", [[1, 2]]),
        ('a\tb\n"1"\t"2"\n', [[1, 2]]),
        ('"a",b,c\n1,2,"x, ""y"""\n', [[1, 2]]),
        ("a,b\nx,2\n", [[None, 2]]),
        ("a;b\n1,5;-,25\n1.5;1.234,5\n", [[1.5, -0.25], [1.5, None]]),
        ('a,b\n"1,5",2\n', [[None, 2]]),
    ],
)
def test_tables_are_read_as_people_write_them(
    scene: Scene, text: str, found: list[list[float | None]]
) -> None:
    page = scene.page
    page.open(f"{scene.aggregator.url}/try/", until="h1")
    dimensions = json.dumps([{"name": "a"}, {"name": "b"}])
    call = f"readTable({json.dumps(text)}, {dimensions})"
    read = page.evaluate(f"import('/ui/try/sources.js').then((m) => JSON.stringify(m.{call}))")
    assert json.loads(read) == found


def test_clusters_keep_their_numbers_where_their_order_changes(scene: Scene) -> None:
    page = scene.page
    page.open(f"{scene.aggregator.url}/try/", until="h1")
    call = "matchClusters([[0, 0], [5, 5]], [[5.1, 5], [9, 0], [0.2, 0]])"
    places = page.evaluate(f"import('/ui/try/plane.js').then((m) => m.{call})")
    assert places == [1, 2, 0]
