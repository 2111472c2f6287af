import json
import posixpath
import re
import shutil
import subprocess
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path

import pytest

from sfumato.aggregator.ui import dashboard
from tests.aggregator.fleet import Desk, assert_problem
from tests.walking import Walk

pytestmark = pytest.mark.anyio

NODE = shutil.which("node")
FOLDER = Path(str(resources.files("sfumato.aggregator.ui"))) / "assets"
FILES = {
    file.relative_to(FOLDER).as_posix(): file.read_text(encoding="utf-8")
    for file in FOLDER.rglob("*.*")
}
SCRIPTS = {name: text for name, text in FILES.items() if name.endswith(".js")}
PAGES = {"/": dashboard.PAGE, "/try/": dashboard.DEVICE_PAGE}
ADDRESSES = [*PAGES, *(f"/ui/{name}" for name in FILES if name not in PAGES.values())]
# Built from clients/js, where it is tested.
OWN = {name: text for name, text in FILES.items() if not name.startswith("device/")}


class Markup(HTMLParser):
    """Every tag with its attributes, and the text inside scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.inline = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] in ("script", "style"):
            self.inline += data


async def test_the_page_and_its_files_need_no_key_and_are_sent_once(desk: Desk) -> None:
    for address in ADDRESSES:
        answer = await desk.http.get(address)
        name = PAGES.get(address, address.removeprefix("/ui/"))
        assert (answer.status_code, answer.text) == (200, FILES[name])
        assert answer.headers["cache-control"] == "no-cache"
        again = await desk.http.get(address, headers={"If-None-Match": answer.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        changed = await desk.http.get(address, headers={"If-None-Match": '"other"'})
        assert changed.status_code == 200


async def test_a_file_has_its_media_type(desk: Desk) -> None:
    # Browsers are told not to guess, and run no script of another type.
    for name, media_type in (
        ("main.js", "text/javascript; charset=utf-8"),
        ("dashboard.css", "text/css; charset=utf-8"),
        ("icon.svg", "image/svg+xml"),
    ):
        assert (await desk.http.get(f"/ui/{name}")).headers["content-type"] == media_type


async def test_the_dashboard_may_load_and_ask_this_server_alone(desk: Desk) -> None:
    policies = {(await desk.http.get(to)).headers["content-security-policy"] for to in ADDRESSES}
    (policy,) = policies
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == "'none'"
    asked = ("script-src", "style-src", "img-src", "connect-src")
    assert [rules[name] for name in asked] == ["'self'"] * 4
    denied = ("frame-ancestors", "base-uri", "form-action", "trusted-types")
    assert [rules[name] for name in denied] == ["'none'"] * 4
    assert rules["require-trusted-types-for"] == "'script'"
    assert "unsafe" not in policy


def test_no_file_of_the_dashboard_names_another_server() -> None:
    with Walk() as walk:
        for name in OWN:
            with walk.cell(name):
                text = FILES[name].replace("http://www.w3.org/2000/svg", "")
                assert "//" not in re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE)
                assert not re.search(r"@import|url\((?!#)", text)


SINKS = r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|Function\(|DOMParser|srcdoc"


def test_no_script_of_the_dashboard_makes_markup_of_text() -> None:
    with Walk() as walk:
        for name, text in SCRIPTS.items():
            with walk.cell(name):
                assert not re.search(SINKS, text)
                assert not re.search(r"document\.cookie|console\.", text)
                # The choice of colours alone outlives the tab.
                assert ("localStorage" in text) == (name == "base/theme.js")


async def test_the_page_holds_no_inline_script_and_names_files_that_there_are(desk: Desk) -> None:
    for page in PAGES.values():
        markup = Markup(FILES[page])
        assert not markup.inline.strip()
        for _, attributes in markup.tags:
            assert not [name for name in attributes if name.startswith("on") or name == "style"]
            for name in ("src", "href"):
                target = attributes.get(name) or ""
                if target.startswith("/"):
                    assert (await desk.http.get(target)).status_code == 200, target
    for name, text in SCRIPTS.items():
        for imported in re.findall(r'from "(\.[^"]+)"', text):
            path = posixpath.normpath(posixpath.join(posixpath.dirname(name), imported))
            assert path in SCRIPTS, (name, imported)


async def test_no_other_file_is_handed_out(desk: Desk) -> None:
    for name in (
        "index.html",
        "try/page.html",
        "other.js",
        "..%2fdashboard.py",
        "%2e%2e%2freference.css",
        "answers",
        "",
    ):
        assert_problem(await desk.http.get(f"/ui/{name}"), "not-found", 404, "path")


async def test_a_server_that_nobody_looks_at_reads_no_file_of_the_page(desk: Desk) -> None:
    dashboard._read.cache_clear()
    dashboard.list_assets.cache_clear()
    await desk.read("/v1/studies")
    assert (dashboard._read.cache_info().currsize, dashboard.list_assets.cache_info().currsize) == (
        0,
        0,
    )
    await desk.http.get("/")
    assert dashboard._read.cache_info().currsize == 1


@pytest.mark.skipif(NODE is None, reason="node is not here to parse scripts")
def test_every_script_is_a_module_that_parses() -> None:
    program = """
        const vm = require("node:vm");
        const { scripts } = JSON.parse(require("node:fs").readFileSync(0));
        for (const [name, text] of Object.entries(scripts)) {
            try {
                new vm.SourceTextModule(text);
            } catch (error) {
                console.log(name, error.message);
            }
        }
    """
    command = [str(NODE), "--experimental-vm-modules", "--no-warnings", "-e", program]
    given = json.dumps({"scripts": {**SCRIPTS, "wrong.js": "import"}})
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=True)
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["wrong.js"], done.stdout
