"""Every view of the pages, held to the rules of axe-core: light and dark, wide and narrow."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from sfumato.analyst import Client
from tests.accessibility import check_page, needs_axe
from tests.aggregator.fleet import SLOT
from tests.aggregator.ui.scene import Scene, publish_records
from tests.aggregator.ui.test_answers_in_browser import AXES, draw_axes, draw_columns, make_pilot
from tests.aggregator.ui.test_campaigns_in_browser import begin
from tests.aggregator.ui.test_sections_in_browser import publish_changing
from tests.aggregator.ui.trying import take_part, visiting
from tests.walking import Walk

pytestmark = needs_axe

COMPARED = f"compare?a={SLOT}..{SLOT + 3}&b={SLOT + 5}..{SLOT + 7}&k=3"


def show_studies(scene: Scene) -> Iterator[str]:
    """Show each view of studies of every statistic, with an answer where it has one."""
    url = scene.aggregator.url
    with Client(url, key=scene.aggregator.key) as client:
        study = publish_changing(scene.aggregator, "accessible to all", 720)
        client.decode(study, n_clusters=3).wait()
        client.timeline(study, n_clusters=3).wait()
        client.groups(study, "site", n_clusters=3).wait()
        client.device_health(study, n_clusters=3).wait()
        campaign = begin(client, "accessible", epsilon=Fraction(3), n_devices=3, is_automatic=False)
    pilot = publish_records(scene.aggregator, "all columns", make_pilot(), [draw_columns(1)] * 2)
    axes = make_pilot(dimensions=AXES, statistic="moments", norm_steps=2600)
    moments = publish_records(scene.aggregator, "all axes", axes, [draw_axes(1)] * 2)
    page = scene.page
    for section, ready in (
        ("", ".result .plot svg"),
        ("time", ".strip .plot svg"),
        ("groups", ".matrix"),
        ("devices", ".result table"),
        ("plan", "blockquote"),
        ("manage", "form button.main"),
        (COMPARED, ".result .moved"),
    ):
        scene.enter(f"{url}/#studies/{study}/{section}".rstrip("/"))
        if section == "manage":
            scene.ask()
            page.wait_for(".qr")
        page.wait_for(ready)
        yield section.partition("?")[0] or "patterns"
        if section == "devices":
            page.evaluate("document.querySelector('[aria-label^=Exclude]').click()")
            page.wait_for("dialog[open]")
            yield "dialog"
    for name, each in (("histogram", pilot), ("moments", moments)):
        scene.show_answer(each)
        yield name
    scene.enter(f"{url}/#studies/{campaign}")
    yield "campaign"


def show_others(scene: Scene) -> Iterator[str]:
    """Show the views without a study, and the pages beside them."""
    page, url = scene.page, scene.aggregator.url
    page.open("about:blank", until=None)
    page.open(f"{url}/")
    yield "door"
    scene.enter()
    page.evaluate("document.querySelector('.planner').open = true")
    page.evaluate("document.querySelector('.planner input').focus()")
    for text in ("flow", "l/s", "0", "50"):
        page.type(text)
        page.press("Tab")
    page.evaluate("document.querySelector('.planner form').requestSubmit()")
    page.wait_for(".planner .verdict.good")
    yield "studies"
    page.open(f"{url}/docs", until="main")
    yield "reference"
    page.open(f"{url}/problems", until="body")
    yield "problems"
    with visiting(scene):
        yield "try"
        take_part(page)
        page.wait_for(".leaving")
        yield "taking part"


def test_every_view_is_accessible(scene: Scene) -> None:
    with Walk() as walk:
        for show in (show_others, show_studies):
            for name in show(scene):
                check_page(scene.page, walk, name)
