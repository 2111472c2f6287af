"""Pages with a device in a real Chromium: several tabs, which may be killed at any place."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.aggregator.ui.browser import Page, PageError, open_browser
from tests.clients.js.node import ENVIRONMENT, NODE

HERE = Path(__file__).parent
SOURCE = HERE.parents[2] / "clients/js/src"
PAGE = "<!doctype html><title>device</title><script type=module src=page.ts></script>"


class _Files(SimpleHTTPRequestHandler):
    def guess_type(self, path: str | os.PathLike[str]) -> str:
        return "text/javascript" if os.fspath(path).endswith(".ts") else super().guess_type(path)

    def end_headers(self) -> None:
        if self.path.startswith("/sandboxed"):
            # An origin of its own, which may store nothing, as where a browser blocks all data.
            self.send_header("Content-Security-Policy", "sandbox allow-scripts")
        self.send_header("Access-Control-Allow-Origin", "*")
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def serve_pages(folder: Path) -> Iterator[str]:
    """Serve the page and the modules of the device; yield the address."""
    assert NODE is not None
    subprocess.run(
        [NODE, str(HERE / "strip.ts"), str(SOURCE), str(folder / "src")],
        check=True,
        env=ENVIRONMENT,
    )
    (folder / "page.ts").write_text((HERE / "page.js").read_text())
    for name in ("device.html", "sandboxed.html"):
        (folder / name).write_text(PAGE)
    with serve_files(folder) as address:
        yield address


@contextmanager
def serve_files(folder: Path) -> Iterator[str]:
    """Serve a folder; yield the address."""
    handler = partial(_Files, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


class KilledError(Exception):
    """The tab was killed at the place that it was told to end at."""


@dataclass
class Tab:
    """A tab with the page of a device."""

    browser: Browser
    target: str
    session: str

    def evaluate(self, expression: str) -> Any:
        """Evaluate JavaScript in the page, waiting for a promise."""
        return self.finish(self._send(expression))

    def _send(self, expression: str) -> int:
        return self.browser.send(
            "Runtime.evaluate",
            self.session,
            expression=expression,
            awaitPromise=True,
            returnByValue=True,
        )

    def start(self, *calls: Sequence[Any], **order: Any) -> int:
        """Begin to make calls of the device."""
        told = json.dumps({"calls": calls} | order)
        return self._send(f"window.ready.then(() => window.obey({told}))")

    def finish(self, number: int) -> Any:
        """Wait for the answers; raises ``KilledError`` where the tab was killed first."""
        found = self.browser.wait(number)
        if "exceptionDetails" in found:
            raise PageError(str(found["exceptionDetails"]))
        return found["result"].get("value")

    def run(self, *calls: Sequence[Any], **order: Any) -> list[Any]:
        """Make calls of the device, and return their answers; an error is an answer too."""
        answers: list[Any] = self.finish(self.start(*calls, **order))["answers"]
        return answers

    def close(self) -> None:
        """Close the tab as its reader does."""
        self.browser.call("Target.closeTarget", targetId=self.target)


class Browser:
    """A Chromium with tabs; one thread uses it."""

    def __init__(self, page: Page, address: str) -> None:
        self.address = address
        self.places: list[str] = []
        self._answers: dict[int, Any] = {}
        self._page = page
        page._session = None

    def call(self, method: str, session: str | None = None, **parameters: Any) -> Any:
        """Call a method of the protocol and return its result."""
        return self.wait(self.send(method, session, **parameters))

    def send(self, method: str, session: str | None = None, **parameters: Any) -> int:
        """Call a method of the protocol; return the number of the call."""
        page = self._page
        page._count += 1
        message = {"id": page._count, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(page._out, json.dumps(message).encode() + b"\0")
        return page._count

    def wait(self, number: int) -> Any:
        """Wait for the result of a call; kill the tab if it has reached its last place."""
        # Calls that have begun may be answered in any order.
        while number not in self._answers:
            answer = self._page._read()
            told = answer.get("params", {})
            if answer.get("method") == "Runtime.bindingCalled":
                name, is_last = json.loads(told["payload"])
                self.places.append(name)
                if is_last:
                    self._kill()
                    raise KilledError(name)
            if "id" in answer:
                self._answers[answer["id"]] = answer
        answer = self._answers.pop(number)
        if "error" in answer:
            raise PageError(str(answer["error"]))
        return answer["result"]

    def open_tab(self, page: str = "device.html", context: str | None = None) -> Tab:
        """Open a tab with a page."""
        chosen = {"browserContextId": context} if context else {}
        created = self.call("Target.createTarget", url="about:blank", **chosen)
        target = created["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        session: str = attached["sessionId"]
        self.call("Runtime.enable", session)
        self.call("Runtime.addBinding", session, name="reportPlace")
        self.call("Page.enable", session)
        self.send("Page.navigate", session, url=f"{self.address}/{page}")
        while self._page._read().get("method") != "Page.loadEventFired":
            pass
        return Tab(self, target, session)

    def _kill(self) -> None:
        """Kill all processes of pages, as where the system needs their memory."""
        processes = self.call("SystemInfo.getProcessInfo")["processInfo"]
        for process in processes:
            if process["type"] == "renderer":
                os.kill(process["id"], signal.SIGKILL)


@contextmanager
def open_tabs(folder: Path) -> Iterator[Browser]:
    """Start a browser with an empty profile, and the server of its pages."""
    pages = folder / "pages"
    pages.mkdir()
    with serve_pages(pages) as address, open_browser(folder) as page:
        yield Browser(page, address)
