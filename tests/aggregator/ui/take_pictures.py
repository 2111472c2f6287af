"""Pictures of the dashboard for the documents: ``python -m tests.aggregator.ui.take_pictures``.

A real server answers from real sketches of the demo's weather records, with seeded noise; so the
pictures change only with the page. ``--phone`` and ``--dark`` show how it looks elsewhere, and
``--all --folder DIRECTORY`` shows every section of a study for somebody to look at.
"""

from __future__ import annotations

import argparse
import struct
import tempfile
import zlib
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.image import imread

from deploy.demo.cluster import Aggregator
from deploy.demo.year import WINDOW_DAYS, read_plan
from sfumato.analyst.planning.pilots import parse_columns
from sfumato.learning.planning.pilots import PilotOutline, plan_pilot
from sfumato.shared.plan import Dimension, SketchPlan, WindowRule
from tests.aggregator.fleet import make_plan
from tests.aggregator.ui.browser import Page, open_browser
from tests.aggregator.ui.scene import Scene, publish_records
from tests.aggregator.ui.year import publish_year

_ROOT = Path(__file__).parents[3]
PICTURES = _ROOT / "docs" / "pictures"
# On the server's own port, the command on the page needs no address.
DEFAULT_PORT = 8750
_AIRPORTS = ("ewr", "jfk", "lga")
_BOUNDS = {
    "temperature": ("degF", 0.0, 110.0),
    "dew point": ("degF", -20.0, 90.0),
    "wind speed": ("mph", 0.0, 50.0),
    "visibility": ("mi", 0.0, 12.0),
}


def read_airports() -> list[np.ndarray[Any, np.dtype[np.float64]]]:
    """Read the weather of each airport, a record an hour."""
    return [
        np.genfromtxt(
            _ROOT / "deploy" / "demo" / "data" / f"{name}.csv",
            delimiter=",",
            skip_header=1,
            usecols=(1, 2, 3, 4),
        )
        for name in _AIRPORTS
    ]


def plan_weather_pilot(n_records: int) -> SketchPlan:
    """Plan a pilot that knows the columns' names and units alone."""
    outline = PilotOutline(
        dimensions=parse_columns([f"{name}:{unit}" for name, (unit, _, _) in _BOUNDS.items()]),
        n_records=n_records,
        n_sketches=len(_AIRPORTS),
        epsilon=Fraction(1),
        delta=Fraction(0),
        shares_records=False,
        window=WindowRule(kind="time", origin=0, length_s=86_400),
    )
    return plan_pilot(outline).plan


def plan_weather_moments() -> SketchPlan:
    """Plan the moments of the same columns, with public bounds."""
    dimensions = tuple(
        Dimension(name=name, unit=unit, lower=lower, upper=upper)
        for name, (unit, lower, upper) in _BOUNDS.items()
    )
    return make_plan(
        dimensions=dimensions,
        statistic="moments",
        norm_steps=2600,
        n_frequencies=None,
        seed=None,
        epsilon=Fraction(1),
        delta=Fraction(1, 10**6),
        most_records=10_000,
        labels=(),
    )


@dataclass(frozen=True, kw_only=True)
class View:
    """A section of the year's study."""

    section: str | None = None
    ready: str
    asks: bool = True
    then: str = ""

    def open(self, scene: Scene, study: str, *, asks: bool = True) -> None:
        """Open the section and wait until it is drawn."""
        page = scene.page
        place = "" if self.section is None else f"/{study}/{self.section}".rstrip("/")
        scene.enter(f"{scene.aggregator.url}/#studies{place}")
        if self.asks and asks:
            page.wait_for("form button.main")
            page.evaluate("document.querySelector('form button.main').click()")
        if self.then:
            page.wait_for(self.then)
            page.evaluate(f"document.querySelector('{self.then}').closest('details').open = true")
            page.evaluate(f"document.querySelector('{self.then}').click()")
        page.wait_for(self.ready)
        # Other cards of the section load on their own.
        page.evaluate("new Promise(done => setTimeout(done, 500))")


VIEWS = {
    "patterns": View(section="", ready=".result .plot svg"),
    "synthetic": View(section="", then=".synthetic button", ready=".synthetic .downloads"),
    "time": View(section="time", ready=".strip .plot svg"),
    "compare": View(section="compare?a=5..7&b=10..12&k=5", ready=".moved", asks=False),
    "groups": View(section="groups", ready=".matrix"),
    "devices": View(section="devices", ready=".result table"),
    "plan": View(section="plan", ready="blockquote", asks=False),
    "manage": View(section="manage", ready=".qr"),
    "studies": View(ready="tbody a[href*='/decodes/']", asks=False),
}
WIDTHS = {"desktop": 1280, "phone": 390}
SCHEMES = ("light", "dark")
ILLUSTRATIONS = {
    "page-strip": ("time", ".strip"),
    "page-changes": ("time", ".changes-part"),
    "page-clusters": ("time", ".multiples"),
    "page-groups": ("groups", ".pair"),
}


def look_at_year(aggregator: Aggregator, page: Page, folder: Path) -> None:
    """Take a picture of every section and the list of studies, at every width, light and dark."""
    study = publish_year(aggregator, "weather of three airports", read_plan(days=WINDOW_DAYS))
    publish_records(aggregator, "weather: pilot", plan_weather_pilot(26_115), read_airports())
    scene = Scene(aggregator, page, study)
    for name, view in VIEWS.items():
        for device, width in WIDTHS.items():
            page.resize(width)
            # An answer that there is opens with its section.
            view.open(scene, study, asks=device == "desktop" or name == "manage")
            for scheme in SCHEMES:
                page.prefer(scheme)
                page.evaluate("new Promise(done => setTimeout(done, 200))")
                page.take_picture(folder / f"{name}-{device}-{scheme}.png")


def illustrate(aggregator: Aggregator, page: Page, folder: Path) -> None:
    """Take the pictures of the documents."""
    records = read_airports()
    plans = {
        "distributions": plan_weather_pilot(sum(map(len, records))),
        "directions": plan_weather_moments(),
    }
    for name, plan in plans.items():
        study = publish_records(aggregator, f"weather: {name}", plan, records)
        scene = Scene(aggregator, page, study)
        scene.show_answer()
        page.take_picture(folder / f"{name}.png", of="section.card")
    year = publish_year(aggregator, "weather of three airports", read_plan(days=WINDOW_DAYS))
    scene = Scene(aggregator, page, year)
    for name, (view, of) in ILLUSTRATIONS.items():
        VIEWS[view].open(scene, year)
        page.take_picture(folder / f"{name}.png", of=of)
        reduce_colours(folder / f"{name}.png")


def reduce_colours(path: Path) -> None:
    """Write a picture again with its 256 most frequent colours: a third of the bytes."""
    pixels = np.round(255 * imread(path)[..., :3]).astype(np.uint8)
    packed = pixels.astype(np.uint32) @ np.array([1 << 16, 1 << 8, 1], dtype=np.uint32)
    found: Any = np.unique(packed, return_inverse=True, return_counts=True)
    colours, index, counts = found
    parts = np.stack([colours >> 16, colours >> 8 & 255, colours & 255], axis=1).astype(np.int64)
    palette = parts[np.argsort(-counts)[:256]]
    nearest = np.array([((palette - one) ** 2).sum(axis=1).argmin() for one in parts])
    lines = nearest[index].reshape(packed.shape).astype(np.uint8)
    height, width = packed.shape[0], packed.shape[1]
    # A line begins with its filter; indices do best without one.
    raw = np.concatenate([np.zeros((height, 1), np.uint8), lines], axis=1).tobytes()
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
        (b"PLTE", palette.astype(np.uint8).tobytes()),
        (b"IDAT", zlib.compress(raw, 9)),
        (b"IEND", b""),
    )
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n"
        + b"".join(
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
            for kind, data in chunks
        )
    )


def main() -> None:
    """Take the pictures of the documents, or of everything."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folder", type=Path, default=PICTURES, help="default: docs/pictures")
    parser.add_argument(
        "--all",
        action="store_true",
        help="every section of a study, 1280 and 390 pixels wide, light and dark",
    )
    parser.add_argument("--phone", action="store_true", help="390 pixels wide")
    parser.add_argument("--dark", action="store_true", help="the dark colours")
    options = parser.parse_args()
    options.folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        aggregator = Aggregator.start(Path(folder), port=None if options.all else DEFAULT_PORT)
        try:
            with open_browser(Path(folder)) as page:
                page.resize(390 if options.phone else 1100)
                page.prefer("dark" if options.dark else "light")
                take = look_at_year if options.all else illustrate
                take(aggregator, page, options.folder)
        finally:
            aggregator.stop()


if __name__ == "__main__":
    main()
