"""A server with studies, and a browser that looks at it."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import httpx
import numpy as np

from deploy.demo.cluster import Aggregator
from sfumato.analyst import Client
from sfumato.shared.core import SketchAccumulator
from sfumato.shared.plan import Dimension, Label, SketchPlan
from sfumato.shared.privacy.testing import SeededSource
from tests.aggregator.fleet import BEAT, SKETCH, SLOT, Device, make_plan
from tests.aggregator.ui.browser import Page, running_first

HOSTILE = '<img src=x onerror="window.pwned=1">'
N_SKETCHES = 4
# Press every button of the downloads, and read the files instead of saving them.
_SAVE = """(async (wanted) => {
  const files = [];
  const blobs = new Map();
  const make = URL.createObjectURL.bind(URL);
  URL.createObjectURL = (blob) => {
    const url = make(blob);
    blobs.set(url, blob);
    return url;
  };
  HTMLAnchorElement.prototype.click = function () {
    files.push([this.download.split(".").pop(), blobs.get(this.href)]);
  };
  for (const button of document.querySelectorAll(".downloads button")) button.click();
  while (files.length < wanted) await new Promise(requestAnimationFrame);
  const found = {};
  for (const [kind, blob] of files) {
    if (kind !== "png") found[kind] = await blob.text();
    else {
      const image = await createImageBitmap(blob);
      const canvas = new OffscreenCanvas(image.width, image.height).getContext("2d");
      canvas.drawImage(image, 0, 0);
      const { data } = canvas.getImageData(0, 0, image.width, image.height);
      found.colours = new Set(new Uint32Array(data.buffer)).size;
      found.width = image.width;
      found.drawn = document.querySelector(".result .plot svg").clientWidth;
    }
  }
  return found;
})"""


@dataclass(frozen=True)
class Scene:
    """A server with one study of two devices, and whoever looks at it."""

    aggregator: Aggregator
    page: Page
    study: str

    @property
    def url(self) -> str:
        """The study's address on the page."""
        return f"{self.aggregator.url}/#studies/{self.study}"

    def enter(self, url: str | None = None) -> None:
        """Come with an empty tab, paste the key, and go to an address."""
        page = self.page
        page.requests.clear()
        page.complaints.clear()
        page.open("about:blank", until=None)
        with running_first(page, "sessionStorage.clear()"):
            page.open(url or self.aggregator.url + "/")
        page.type(self.aggregator.key)
        page.press("Enter")
        page.wait_for("#session button")
        page.wait_for("main[aria-busy]", absent=True)
        page.wait_for("main h1")

    def go(self, section: str, study: str | None = None) -> None:
        """Go to a section of a study without leaving the page."""
        address = f"#studies/{study or self.study}{'/' + section if section else ''}"
        # The heading of the view before gives way to the next.
        self.page.evaluate("document.querySelector('main h1').remove()")
        self.page.evaluate(f"location.hash = {json.dumps(address)}")
        self.page.wait_for("main h1")

    def show_answer(self, study: str | None = None) -> None:
        """Show the answer of a study of any statistic, by a click."""
        self.enter(f"{self.aggregator.url}/#studies/{study or self.study}")
        self.ask()
        self.page.wait_for(".result .plot svg")

    def ask(self) -> None:
        """Press the button of the section that is shown."""
        self.page.wait_for("button.main")
        self.page.evaluate("document.querySelector('button.main').click()")

    def call(self, module: str, call: str) -> Any:
        """Call a function of a module of the page that is open."""
        name = call.partition("(")[0]
        return self.page.evaluate(f"import('/ui/{module}').then(({{{name}}}) => {call})")

    def save_files(self, n_files: int) -> dict[str, Any]:
        """Press all buttons of the downloads; return texts by ending, and facts of the picture."""
        found: dict[str, Any] = self.page.evaluate(f"{_SAVE}({n_files})")
        return found


def publish(
    aggregator: Aggregator, name: str, plan: SketchPlan, first_slot: int, *devices: Device
) -> str:
    """Publish a study, in which each device has sent two sketches of 500 records."""
    with (
        Client(aggregator.url, key=aggregator.key) as client,
        httpx.Client(base_url=aggregator.url) as http,
    ):
        study = client.create_study(name, plan, allow_same_plan=True).study_id
        identity = bytes.fromhex(study)
        for device in devices:
            body = device.enrolment(client.create_token(study), identity)
            enrol(http, body)
            for i in range(2):
                slots = (first_slot + i, first_slot + i) if plan.window.kind == "time" else None
                sent = device.message(identity, plan, sequence=i, slots=slots)
                assert upload(http, study, *sent) == 201
    return study


def enrol(http: httpx.Client, body: object) -> None:
    """Enrol a device, as often as a server that limits enrolments asks for."""
    while (answer := http.post("/v1/enrolments", json=body)).status_code == 429:
        time.sleep(float(answer.headers["Retry-After"]))
    assert answer.status_code == 201, answer.text


def name_device(http: httpx.Client, device: Device, name: str) -> None:
    """Send a heartbeat with a name, as the agent does."""
    answer = http.put(BEAT, **device.beat(now=time.time(), name=name))
    assert answer.status_code == 200, answer.text


def upload(http: httpx.Client, study: str, sketch: str, message: bytes) -> int:
    """Send a sketch and return the status of the answer."""
    path = f"/v1/studies/{study}/sketches/{sketch}"
    return http.put(path, content=message, headers=SKETCH).status_code


def publish_records(
    aggregator: Aggregator,
    name: str,
    plan: SketchPlan,
    parts: Sequence[np.ndarray[Any, np.dtype[np.float64]]],
) -> str:
    """Publish a study, in which each device has sent one sketch of its own part of the records."""
    with (
        Client(aggregator.url, key=aggregator.key) as client,
        httpx.Client(base_url=aggregator.url) as http,
    ):
        study = client.create_study(name, plan, allow_same_plan=True).study_id
        identity = bytes.fromhex(study)
        for i, records in enumerate(parts):
            seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big") + i
            labels = {label.name: label.values[0] for label in plan.labels}
            device, source = Device(seed, labels), SeededSource(seed)
            body = device.enrolment(client.create_token(study), identity)
            enrol(http, body)
            accumulator = SketchAccumulator(plan.statistic_of(b""))
            accumulator.add(records)
            exact = plan.finish_sum(accumulator.sums, len(records))
            sums = plan.mechanism.add_noise(exact, source)
            sent = device.message(identity, plan, sums, n_records=len(records))
            assert upload(http, study, *sent) == 201
    return study


def make_study(aggregator: Aggregator) -> str:
    """Publish a study where whatever has a name is called markup; a fifth sketch is refused."""
    plan = make_plan(
        dimensions=tuple(
            Dimension(name=name, unit=HOSTILE, lower=-10.0, upper=10.0, scale=0.7)
            for name in (HOSTILE, "flow")
        ),
        labels=(Label(name="site", values=("north", HOSTILE)),),
    )
    devices = (Device(1), Device(2, {"site": HOSTILE}))
    study = publish(aggregator, HOSTILE, plan, SLOT, *devices)
    with httpx.Client(base_url=aggregator.url) as http:
        name_device(http, devices[1], HOSTILE)
        stranger = Device(3).message(bytes.fromhex(study), plan)
        assert upload(http, study, *stranger) == 401
    return study
