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


@pytest.fixture(scope="session")
def in_node() -> Outcomes:
    return run_in_node("in_node.ts")


@pytest.fixture(scope="session")
def in_bare() -> Outcomes:
    """Without what React Native lacks."""
    if not TOOLS.is_dir():
        pytest.skip(NO_TOOLS)
    return run_in_node("in_bare.ts")


@pytest.fixture(scope="session")
def in_chromium(request: pytest.FixtureRequest) -> Outcomes:
    if PROGRAM is None:
        pytest.skip(NO_BROWSER)
    browser: Browser = request.getfixturevalue("browser")
    outcomes: Outcomes = browser.open_tab().evaluate(_IN_A_PAGE)
    return outcomes


@pytest.mark.parametrize("family", FAMILIES_OF_JAVASCRIPT)
@pytest.mark.parametrize("runtime", ["in_node", "in_chromium", "in_bare"])
def test_javascript_reproduces_the_vectors(
    runtime: str, family: str, request: pytest.FixtureRequest
) -> None:
    as_it_is, changed = request.getfixturevalue(runtime)
    assert as_it_is[family] == ""
    # One changed digit is noticed.
    assert changed[family] != ""
