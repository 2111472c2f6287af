"""Steps on the page that makes a browser a device, and studies for it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from deploy.demo.trial import make_plan
from sfumato.analyst import Client
from sfumato.shared.plan import SketchPlan, plan_from_spec
from sfumato.shared.wire import EnrolmentCode, make_page_address
from tests.aggregator.ui.browser import Page
from tests.aggregator.ui.scene import Scene

WINDOW_S = 3
NAME = "tilt <b>of</b> phones"
MOVE = """((x, y) => {
  const sliders = document.querySelectorAll("input[type=range]");
  [x, y].forEach((value, i) => {
    sliders[i].value = value;
    sliders[i].dispatchEvent(new Event("input"));
  });
})"""
DROP = """((text) => {
  const data = new DataTransfer();
  data.items.add(new File([text], "held.csv"));
  document.querySelector(".drop").dispatchEvent(new DragEvent("drop", { dataTransfer: data }));
})"""
# As another tab does it.
FORGET = """import('/ui/device/sfumato-device.js').then(
  (m) => new m.Device({ name: 'try', store: m.openIndexedDb() }).forget())"""
# The page sends at once when the network comes back.
FLUSH = "void dispatchEvent(new Event('online'))"


def find(text: str) -> str:
    return f"[...document.querySelectorAll('button')].find((b) => b.textContent === {text!r})"


def press(page: Page, text: str) -> None:
    """Press the button with a text, as soon as it is there."""
    page.wait(f"Boolean({find(text)})", problem=True)
    page.evaluate(f"{find(text)}.click()")


def make_count_plan(*numbers: str, **other: int) -> SketchPlan:
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


@contextmanager
def visiting(scene: Scene, plan: SketchPlan | None = None) -> Iterator[Visit]:
    """Open the page of a study of its own; leave the study at the end."""
    server = scene.aggregator
    with Client(server.url, key=server.key) as client:
        # Slots that began long ago: the clock of a device may differ from the server's.
        plan = plan or make_plan(window_s=WINDOW_S, origin=int(time.time()) - 3600)
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
        scene.page.evaluate(FORGET)
        scene.page.open("about:blank", until=None)
