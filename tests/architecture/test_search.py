"""A reader who types a few words into the search of the site finds the page that answers first."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.clients.js.node import MISSING, NODE

SEARCH = Path(__file__).with_name("search.mjs")
FIRST = {
    "revoke a device": "how-to/operations",
    "epsilon": "explanation/privacy",
    "timeline": "how-to/timeline",
    "dashboard": "how-to/timeline",
    "port in use": "how-to/errors",
    "decimal comma": "how-to/sources",
    "replace a gateway": "how-to/replacing",
    "device name": "how-to/agent",
    "GDPR": "explanation/privacy",
    "weekend": "how-to/timeline",
    "stolen": "how-to/incidents",
    "rollout": "how-to/incidents",
    "OpenID Connect": "how-to/operations",
    "backup": "how-to/operations",
    "TLS certificate": "how-to/operations",
    "upgrade": "how-to/operations",
    "webhook": "how-to/timeline",
    "Home Assistant": "how-to/recipes",
    "Kubernetes": "how-to/containers",
    "Grafana": "how-to/containers",
    "Raspberry Pi": "how-to/agent",
    "error bars": "how-to/questions",
    "median": "how-to/questions",
    "synthetic records": "how-to/synthesis",
    "pilot": "how-to/planning",
    "MQTT": "how-to/sources",
    "microcontroller": "how-to/microcontrollers",
    "secure sum": "how-to/secure-sum",
}
"""The page that must come first, by what a reader types."""
NOT_SEARCHED = ("benchmarks/", "decisions/", "project/changelog", "explanation/proofs")


def search(site: Path, *queries: str) -> list[list[str]]:
    """Return the pages that the script of the site finds, the best first."""
    if NODE is None:
        pytest.skip(MISSING)
    (worker,) = site.glob("assets/javascripts/workers/search.*.min.js")
    index = site / "search" / "search_index.json"
    done = subprocess.run(
        [NODE, SEARCH, worker, index],
        input=json.dumps(queries),
        capture_output=True,
        text=True,
        check=True,
    )
    found: list[list[str]] = json.loads(done.stdout)
    return found


def test_the_page_that_answers_comes_first(site: Path) -> None:
    found = dict(zip(FIRST, search(site, *FIRST), strict=True))
    wrong = {
        query: pages[:3] for query, pages in found.items() if pages[:1] != [f"{FIRST[query]}.html"]
    }
    assert wrong == {}


def test_a_search_finds_no_page_that_is_not_for_readers_who_look_for_help(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    pages = {entry["location"].partition("#")[0] for entry in index["docs"]}
    assert "how-to/operations.html" in pages
    assert "reference/glossary.html" in pages
    assert "reference/rest.html" not in pages
    assert [page for page in sorted(pages) if page.startswith(NOT_SEARCHED)] == []
