"""Violations of accessibility rules, which axe-core finds on a page of the browser."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.aggregator.ui.browser import MISSING, PROGRAM, Page
from tests.walking import Walk

AXE = Path(__file__).parents[1] / "clients/js/node_modules/axe-core/axe.min.js"
WIDTHS = (1280, 390)
SCHEMES = ("light", "dark")
needs_axe = pytest.mark.skipif(
    PROGRAM is None or not AXE.is_file(),
    reason=MISSING if PROGRAM is None else "axe-core is not installed; run `make setup`",
)
# What is folded is checked too, once charts have taken the width.
_CHECK = """(async () => {
  for (const each of document.querySelectorAll("details")) each.open = true;
  const frame = () => new Promise(requestAnimationFrame);
  await frame();
  await frame();
  await Promise.allSettled(document.getAnimations().map(({ finished }) => finished));
  const rules = Object.fromEntries(%s.map((each) => [each, { enabled: false }]));
  const { violations } = await axe.run({ resultTypes: ["violations"], rules });
  return violations.flatMap(({ id, nodes }) => nodes.map(({ target, failureSummary }) =>
    `${id} at ${target.join(" ")}: ${failureSummary.split("\\n")[1].trim()}`));
})()"""


def check_page(
    page: Page,
    walk: Walk,
    name: str,
    *,
    schemes: Sequence[str] = SCHEMES,
    without: Sequence[str] = (),
) -> None:
    """Check what the page shows at each width, light and dark, without some rules."""
    if page.evaluate("typeof axe") == "undefined":
        page.evaluate(f"{AXE.read_text(encoding='utf-8')}; null")
    try:
        for width in WIDTHS:
            page.resize(width)
            for scheme in schemes:
                page.prefer(scheme)
                with walk.cell(name, width, scheme):
                    found = sorted(set(page.evaluate(_CHECK % json.dumps(without))))
                    assert not found, "\n  ".join([f"{len(found)} violations", *found[:8]])
    finally:
        page.resize(1200)
        page.prefer("light")
