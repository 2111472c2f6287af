"""The page that makes a browser a device, under a real server, in a real browser."""

from __future__ import annotations

import json
import time
from typing import Any
from urllib.parse import urlsplit

import pytest

from sfumato.shared.wire import EnrolmentCode, encode_enrolment_code, make_page_address
from tests.aggregator.ui.browser import MISSING, PROGRAM, running_first
from tests.aggregator.ui.scene import Scene
from tests.aggregator.ui.trying import (
    DROP,
    FLUSH,
    MOVE,
    NAME,
    Visit,
    find,
    make_count_plan,
    press,
    take_part,
)
from tests.walking import Walk

pytestmark = pytest.mark.skipif(PROGRAM is None, reason=MISSING)


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
        page.evaluate(f"{MOVE}({x}, {y})")
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
    page.evaluate(f"{DROP}({json.dumps('left-right,other' + chr(10) + '1,2')})")
    told = "document.querySelector('.drop [role=status]').textContent"
    page.wait(told)
    assert "no column front-back" in page.evaluate(told)
    rows = "".join(f"{i % 40}.5;-{i % 30}\n" for i in range(300))
    page.evaluate(f"{DROP}({json.dumps('left-right;front-back' + chr(10) + rows)})")
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
    code = visit.publish(make_count_plan())
    page.open("about:blank", until=None)
    page.open(make_page_address(code), until="h1")
    assert "colour (red, green)" in page.text()
    take_part(page)
    page.wait_for(".leaving", problem=True)
    assert page.evaluate("document.querySelector('.back-comes svg')") is None
    press(page, "Leave the study and erase its data here")
    page.wait_for("#code")


def test_a_notice_stays_and_a_scanned_code_is_compared_with_the_study(visit: Visit) -> None:
    page = visit.page
    take_part(page)
    page.wait_for(".leaving dl", problem=True)
    page.evaluate(FLUSH)
    page.wait("document.querySelector('.leaving').innerText.includes('Questions asked\\n8')")
    assert page.text("h1").startswith(NAME)
    assert "does not promise to keep this site's data" in page.text(".noticed")
    page.open("about:blank", until=None)
    page.open(make_page_address(visit.code), until=".leaving dl")
    assert "takes part in it already" in page.text(".noticed")
    other = visit.publish(make_count_plan())
    page.open("about:blank", until=None)
    page.requests.clear()
    page.open(make_page_address(other), until=".leaving dl")
    assert "is of another study. Leave this one first" in page.text(".noticed")
    asked = [each["url"] for each in page.requests]
    assert not any(other.study.hex() in url for url in asked), "nobody learns of the code"


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
    assert not page.evaluate(f"Boolean({find('Stop recording')})")
    page.evaluate(FLUSH)
    assert page.evaluate(readings) == 0
    press(page, "Use the tilt of this device")
    page.wait(f"{told}.startsWith('Waiting for')")
    turned = "new DeviceOrientationEvent('deviceorientation', { alpha: 1, beta: 30, gamma: -20 })"
    page.evaluate(f"dispatchEvent({turned})")
    assert page.evaluate(told) == "The pad follows the tilt of this device."
    assert "left-right (°): -20" in page.text("fieldset")
    assert page.evaluate(f"Boolean({find('Stop recording')})")


def test_a_row_that_cannot_be_read_is_counted_aloud_and_keeps_its_place(visit: Visit) -> None:
    page = visit.page
    code = visit.publish(make_count_plan("x", "y"))
    page.open("about:blank", until=None)
    page.open(make_page_address(code), until="h1")
    take_part(page)
    page.wait_for(".leaving dl", problem=True)
    told = "document.querySelector('.drop [role=status]').textContent"
    rows = "x;y\n1,5;-2\nn/a;3\n4;oops\n1;2\n3;4\n"
    page.evaluate(f"{DROP}({json.dumps(rows)})")
    page.wait(f"{told}.includes('read here')")
    said = page.evaluate(told)
    assert said.startswith("5 rows of held.csv added")
    assert "2 rows have a value that cannot be read" in said
    assert "as 1,5 where semicolons separate" in said
    page.evaluate(FLUSH)
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


def test_tables_are_read_as_people_write_them(scene: Scene) -> None:
    scene.page.open(f"{scene.aggregator.url}/try/", until="h1")
    dimensions = json.dumps([{"name": "a"}, {"name": "b"}])
    read: list[tuple[str, list[list[float | None]]]] = [
        ("a,b\n1,2\n3,\n", [[1, 2], [3, None]]),
        ("\ufeffb;a\r\n2;1\r\n", [[1, 2]]),
        ('a\tb\n"1"\t"2"\n', [[1, 2]]),
        ('"a",b,c\n1,2,"x, ""y"""\n', [[1, 2]]),
        ("a,b\nx,2\n", [[None, 2]]),
        ("a;b\n1,5;-,25\n1.5;1.234,5\n", [[1.5, -0.25], [1.5, None]]),
        ('a,b\n"1,5",2\n', [[None, 2]]),
    ]
    with Walk() as walk:
        for text, found in read:
            with walk.cell(text):
                # A number that is none is null in JSON alone.
                call = f"readTable({json.dumps(text)}, {dimensions})"
                assert scene.call("try/sources.js", f"{call}.map(JSON.stringify)") == [
                    json.dumps(row, separators=(",", ":")) for row in found
                ]


def test_clusters_keep_their_numbers_where_their_order_changes(scene: Scene) -> None:
    scene.page.open(f"{scene.aggregator.url}/try/", until="h1")
    call = "matchClusters([[0, 0], [5, 5]], [[5.1, 5], [9, 0], [0.2, 0]])"
    assert scene.call("try/plane.js", call) == [1, 2, 0]
