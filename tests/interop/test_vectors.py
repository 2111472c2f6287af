"""The device in TypeScript reproduces every family of vectors, wherever it runs."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.aggregator.ui.browser import MISSING as NO_BROWSER, PROGRAM
from tests.clients.js.node import ENVIRONMENT, MISSING, NO_TOOLS, NODE, TOOLS
from tests.clients.js.tabs import Browser
from tests.interop.matrix import FAMILIES_OF_JAVASCRIPT

HERE = Path(__file__).parent
pytestmark = pytest.mark.skipif(NODE is None, reason=MISSING)

Outcomes = list[dict[str, str]]
"""By family how it differs, or an empty text: of the vectors as they are, and changed."""

_IN_A_PAGE = """
(async () => {
  const { reproduce } = await import("./interop/families.ts");
  const { makeWebTools } = await import("./interop/web_tools.ts");
  const read = async (name) => (await fetch(`vectors/${name}.json`)).json();
  return [await reproduce(read, makeWebTools()), await reproduce(read, makeWebTools(), true)];
})()
"""


def run_in_node(program: str) -> Outcomes:
    assert NODE is not None
    done = subprocess.run(
        [NODE, HERE / program], env=ENVIRONMENT, capture_output=True, text=True, check=True
    )
    outcomes: Outcomes = json.loads(done.stdout)
    return outcomes


def run_in_chromium(request: pytest.FixtureRequest) -> Outcomes:
    if PROGRAM is None:
        pytest.skip(NO_BROWSER)
    browser: Browser = request.getfixturevalue("browser")
    outcomes: Outcomes = browser.open_tab().evaluate(_IN_A_PAGE)
    return outcomes


@pytest.mark.parametrize("runtime", ["in_node", "in_chromium", "in_bare"])
def test_javascript_reproduces_the_vectors(runtime: str, request: pytest.FixtureRequest) -> None:
    if runtime == "in_bare" and not TOOLS.is_dir():  # without what React Native lacks
        pytest.skip(NO_TOOLS)
    is_page = runtime == "in_chromium"
    as_it_is, changed = run_in_chromium(request) if is_page else run_in_node(f"{runtime}.ts")
    assert as_it_is == dict.fromkeys(FAMILIES_OF_JAVASCRIPT, "")
    # One changed digit of each is noticed.
    assert all(changed.values())
