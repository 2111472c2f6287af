import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser

import pytest

from sfumato.aggregator.ui.reference import render_reference
from tests.aggregator.fleet import Desk

pytestmark = pytest.mark.anyio

VOID = ("meta", "br", "link", "img")


class Page(HTMLParser):
    """Contents of a page; a tag that is closed wrongly is an error."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.links: list[str] = []
        self.ids: list[str] = []
        self.words = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            assert name in ("lang", "charset", "name", "content", "id", "href", "class")
            if name == "href":
                self.links.append(value or "")
            if name == "id":
                self.ids.append(value or "")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data


async def test_the_page_shows_every_call_with_its_example_and_problems(desk: Desk) -> None:
    document = (await desk.http.get("/openapi.json")).json()
    answer = await desk.http.get("/docs")
    assert answer.headers["content-type"].startswith("text/html")
    page = Page(answer.text)
    for path, calls in document["paths"].items():
        assert path in page.words
        for call in calls.values():
            assert call["operationId"] in page.ids
    assert len(page.ids) == len(set(page.ids))
    assert '"n_clusters": 5' in page.words
    assert "event: progress" in page.words
    assert "/problems/study-withdrawn" in page.links
    for link in {link for link in page.links if link.startswith("/")}:
        assert (await desk.http.get(link)).status_code == 200, link
    assert {link[1:] for link in page.links if link.startswith("#")} <= set(page.ids)


async def test_the_page_runs_no_script_and_loads_nothing(desk: Desk) -> None:
    answer = await desk.http.get("/docs")
    assert not Page(answer.text).tags & {"script", "link", "img", "iframe", "object", "form"}
    assert "http://" not in answer.text
    # An example of an address is text, not a link.
    hosts = ("sketches.example.org/try/", "login.example.org/authorize")
    examples = ("https://example.org/hook", *(f"https://{host}" for host in hosts))
    text = answer.text
    for example in examples:
        text = text.replace(example, "")
    assert "https://" not in text
    style = re.search("<style>(.*)</style>", answer.text, re.DOTALL)
    assert style is not None
    assert "url(" not in style.group(1)
    assert "@import" not in style.group(1)
    digest = b64encode(sha256(style.group(1).encode()).digest()).decode()
    assert answer.headers["content-security-policy"] == (
        f"default-src 'none'; style-src 'sha256-{digest}'; "
        "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    )


def test_what_a_description_says_is_text_and_never_a_tag() -> None:
    hostile = "<script>alert(1)</script> `<b>` [here](javascript:alert) [there](/problems)"
    call = {
        "summary": hostile,
        "description": hostile,
        "operationId": '"><script>',
        "parameters": [{"name": "<i>", "in": "query", "description": hostile}],
        "responses": {"200": {"content": {"text/plain": {"example": hostile}}}},
    }
    page = Page(
        render_reference(
            {
                "info": {"title": hostile, "version": "<1>", "description": hostile},
                "paths": {"/<path>": {"get": call}},
                "components": {"schemas": {}},
            }
        )
    )
    assert not page.tags & {"script", "b>", "i"}
    assert set(page.links) == {"/problems", "/openapi.json", "#others"}
