"""Pictures of the dashboard for the documents: ``python -m tests.aggregator.ui.take_pictures``.

A real server answers from real sketches of the demo's weather records, with seeded noise; so the
pictures change only with the page. ``--phone`` and ``--dark`` show how it looks elsewhere.
"""

from __future__ import annotations

import argparse
import tempfile
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from analyst.planning.pilot_columns import parse_columns
from analyst.planning.pilots import PilotOutline, plan_pilot
from deploy.demo.cluster import Aggregator
from shared.plan import Dimension, SketchPlan, WindowRule
from tests.aggregator.fleet import make_plan
from tests.aggregator.ui.browser import open_browser
from tests.aggregator.ui.scene import Scene, publish_records

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


def main() -> None:
    """Take a picture of a histogram's and of a moments study's page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folder", type=Path, default=PICTURES, help="default: docs/pictures")
    parser.add_argument("--phone", action="store_true", help="390 pixels wide")
    parser.add_argument("--dark", action="store_true", help="the dark colours")
    options = parser.parse_args()
    options.folder.mkdir(exist_ok=True)
    records = read_airports()
    plans = {
        "distributions": plan_weather_pilot(sum(map(len, records))),
        "directions": plan_weather_moments(),
    }
    with tempfile.TemporaryDirectory() as folder:
        aggregator = Aggregator.start(Path(folder), port=DEFAULT_PORT)
        try:
            with open_browser(Path(folder)) as page:
                page.resize(390 if options.phone else 1100)
                page.prefer("dark" if options.dark else "light")
                for name, plan in plans.items():
                    study = publish_records(aggregator, f"weather: {name}", plan, records)
                    scene = Scene(aggregator, page, study)
                    scene.show_answer()
                    page.take_picture(options.folder / f"{name}.png", of="section.card")
        finally:
            aggregator.stop()


if __name__ == "__main__":
    main()
