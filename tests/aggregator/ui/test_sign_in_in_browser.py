"""Sign-in in a real browser, at a real server and a provider that is no part of this project."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from deploy.demo.cluster import Aggregator, find_port
from tests.aggregator.provider import AS_IT_IS, Provider
from tests.aggregator.ui.browser import MISSING, PROGRAM, Page
from tests.aggregator.ui.scene import Scene
from tests.system.servers import start_server

pytestmark = [
    pytest.mark.skipif(PROGRAM is None, reason=MISSING),
    pytest.mark.filterwarnings(AS_IT_IS),
]


@pytest.fixture
def door(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Aggregator, Provider]]:
    port = find_port()
    with Provider().running() as provider:
        for name, value in provider.register(f"http://127.0.0.1:{port}/").items():
            monkeypatch.setenv(f"SFUMATO_{name.upper()}", value)
        aggregator = start_server(tmp_path, port=port)
        try:
            yield aggregator, provider
        finally:
            aggregator.stop()


def come(page: Page, address: str) -> None:
    """Open an address of the page with an empty tab."""
    page.complaints.clear()
    page.requests.clear()
    page.open("about:blank", until=None)
    page.open(address)


def sign_in(page: Page, person: str) -> None:
    """Press the button, which has the focus, and choose a person at the provider."""
    page.press("Enter")
    page.wait_for("input[name=sub]")
    page.evaluate(f"document.querySelector('input[name=sub]').value = '{person}'")
    page.evaluate("document.querySelector('input[name=sub]').form.requestSubmit()")
    page.wait_for("#main > *", problem=True)


def test_a_person_signs_in_works_and_signs_out(
    scene: Scene, door: tuple[Aggregator, Provider]
) -> None:
    page, (aggregator, provider) = scene.page, door
    # The provider leads back to page_url alone, and a tab keeps nothing for another address.
    come(page, f"{aggregator.url.replace('127.0.0.1', 'localhost')}/#studies")
    page.press("Enter")
    page.wait(f"location.host === '{aggregator.url[7:]}'")
    page.wait_for("button.main")
    page.requests.clear()
    assert f"Sign in with {provider.issuer.removeprefix('http://')}" in page.text()
    sign_in(page, "vi")
    page.wait_for(".person")
    assert page.text(".person") == "vi@example.org"
    assert page.evaluate("document.documentElement.dataset.scope") == "viewer"
    assert page.evaluate("location.pathname + location.search + location.hash") == "/#studies"
    (secret,) = page.evaluate("Object.values(sessionStorage)")
    assert secret.startswith("sfk_")
    assert page.evaluate("document.cookie") == ""
    # Beside the way there and back, the browser speaks to this server alone.
    hosts = {each["url"].split("/")[2] for each in page.requests if "://" in each["url"]}
    assert hosts == {aggregator.url[7:], provider.issuer[7:]}
    abroad = [each for each in page.requests if provider.issuer in each["url"]]
    assert not [each for each in abroad if secret in str(each) or "/v1/" in each["url"]]
    page.tab_to("#session button:last-child")
    page.press("Enter")
    page.wait_for("#key")
    assert page.evaluate("Object.values(sessionStorage)") == []
    headers = {"Authorization": f"Bearer {secret}"}
    assert httpx.get(f"{aggregator.url}/v1/studies", headers=headers).status_code == 401
    log = aggregator.log.read_text()
    assert "redirect URI" in log
    assert not [each for each in (secret, "code=", "verifier") if each in log]
    assert not page.complaints


def test_a_refusal_says_what_to_do_and_leaves_no_key(
    scene: Scene, door: tuple[Aggregator, Provider]
) -> None:
    page, (aggregator, _) = scene.page, door
    come(page, f"{aggregator.url}/")
    sign_in(page, "eve")
    page.wait_for(".problem", problem=True)
    text = page.text(".problem")
    assert "You may not sign in here" in text
    assert "ops, research, lab, guests" in text
    assert "it@example.org" in text
    # An answer that this tab did not ask for, and one that it has used already.
    come(page, f"{aggregator.url}/?code=stolen&state=other")
    page.wait_for(".problem", problem=True)
    assert "began in this tab" in page.text(".problem")
    assert page.evaluate("location.search + sessionStorage.length") == "0"
    # What the provider says itself, for a sign-in that was broken off there.
    page.evaluate("document.querySelector('button.main').click()")
    page.wait_for("input[name=sub]", problem=True)
    pending = "JSON.parse(sessionStorage['sfumato.sign-in']).state"
    page.open(f"{aggregator.url}/robots.txt", until=None)
    page.wait(f"location.host === '{aggregator.url[7:]}'", problem=True)
    state = page.evaluate(pending)
    page.open(f"{aggregator.url}/?error=access_denied&error_description=no&state={state}")
    page.wait_for(".problem", problem=True)
    assert "access_denied: no" in page.text(".problem")
    assert not page.complaints
