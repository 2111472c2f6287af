"""A headless Chromium, driven through a pipe over its DevTools protocol; it needs no library."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
PROGRAM = next((found for name in NAMES if (found := shutil.which(name))), None)
MISSING = f"no Chromium here: none of {', '.join(NAMES)} (Debian: chromium-headless-shell)"
# The pipe has to be at descriptors 3 and 4 of the browser.
_START = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); "
    "os.execv(sys.argv[3], sys.argv[3:])"
)
_SETTLED = """new Promise((resolve, reject) => {
  const look = () => {
    const problem = document.querySelector(".problem");
    if (%(condition)s) resolve(true);
    else if (problem && %(strict)s) reject(new Error(problem.textContent));
    else return false;
    return true;
  };
  if (look()) return;
  const watch = new MutationObserver(() => { if (look()) watch.disconnect(); });
  const all = { subtree: true, childList: true, attributes: true, characterData: true };
  watch.observe(document, all);
})"""


class PageError(Exception):
    """The page failed, or shows a problem that was not expected."""


class Page:
    """One tab, with all that it asked for and complained about.

    Parameters
    ----------
    to_browser, from_browser
        Descriptors of the two pipes.
    """

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self.requests: list[dict[str, Any]] = []
        self.complaints: list[str] = []
        self._out = to_browser
        self._in = open(from_browser, "rb", closefd=False)  # noqa: SIM115 - lives as long as this
        self._waiting = b""
        self._count = 0
        self._is_waiting = False
        self._session: str | None = None
        (target,) = (
            one for one in self.call("Target.getTargets")["targetInfos"] if one["type"] == "page"
        )
        attached = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> Any:
        """Call a method of the protocol and return its result."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while (answer := self._read()).get("id") != self._count:
            self._note(answer)
        if "error" in answer:
            raise PageError(f"{method}: {answer['error']}")
        return answer["result"]

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._waiting:
            more = self._in.read1()
            if not more:
                raise PageError("the browser has ended")
            self._waiting += more
        message, _, self._waiting = self._waiting.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found

    def _note(self, event: dict[str, Any]) -> None:
        told = event.get("params", {})
        if event.get("method") == "Network.requestWillBeSent":
            self.requests.append(told["request"])
        elif event.get("method") == "Runtime.exceptionThrown":
            self.complaints.append(str(told["exceptionDetails"]))
            if self._is_waiting:  # for what may never come now
                raise PageError(self.complaints[-1])
        # A refused request is told there too, and is the page's own business.
        elif event.get("method") == "Log.entryAdded" and told["entry"]["source"] != "network":
            self.complaints.append(told["entry"]["text"])

    def evaluate(self, expression: str) -> Any:
        """Evaluate JavaScript in the page, waiting for a promise."""
        found = self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in found:
            described = found["exceptionDetails"].get("exception", {}).get("description")
            raise PageError(f"{expression}: {described or found['exceptionDetails']}")
        return found["result"].get("value")

    def open(self, url: str, *, until: str | None = "#main > *") -> None:
        """Go to an address; done when it shows an element."""
        self.call("Page.navigate", url=url)
        if until is not None:
            self.wait_for(until)

    def wait(self, condition: str, *, problem: bool = False) -> None:
        """Wait until an expression is true; a problem on the page ends it unless it may be."""
        strict = "false" if problem else "true"
        while True:
            if self.complaints:
                raise PageError(f"the page has failed: {self.complaints}")
            self._is_waiting = True
            try:
                self.evaluate(_SETTLED % {"condition": condition, "strict": strict})
                return
            except PageError as error:
                # The page that was watched has given way to the next.
                if not any(word in str(error) for word in ("navigat", "context", "Promise was")):
                    raise PageError(f"{error}; complaints: {self.complaints}") from error
            finally:
                self._is_waiting = False

    def wait_for(self, selector: str, *, absent: bool = False, problem: bool = False) -> None:
        """Wait until there is such an element, or none any more."""
        found = f"document.querySelector({json.dumps(selector)})"
        self.wait(f"!{found}" if absent else found, problem=problem)

    def text(self, selector: str = "main") -> str:
        """Return the text of an element, as it is shown."""
        shown = str(self.evaluate(f"document.querySelector({json.dumps(selector)}).innerText"))
        # English times hold a narrow space, which some versions of its rules do not.
        return shown.replace("\u202f", " ")

    def all_text(self, selector: str = "main") -> str:
        """Return the text of an element, with what is folded."""
        return str(self.evaluate(f"document.querySelector({json.dumps(selector)}).textContent"))

    def press(self, *keys: str) -> None:
        """Press keys one after the other, as on a keyboard."""
        codes = {"Backspace": 8, "Tab": 9, "Enter": 13, " ": 32}
        codes |= {"ArrowLeft": 37, "ArrowRight": 39}
        for key in keys:
            text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
            event = {"key": key, "windowsVirtualKeyCode": codes.get(key, 0), "text": text}
            self.call("Input.dispatchKeyEvent", type="keyDown", **event)
            self.call("Input.dispatchKeyEvent", type="keyUp", **(event | {"text": ""}))

    def type(self, text: str) -> None:
        """Type where the focus is."""
        self.call("Input.insertText", text=text)

    def tab_to(self, selector: str) -> None:
        """Press the tabulator until an element has the focus; fails if it never gets it."""
        asked = f"document.activeElement.matches({json.dumps(selector)})"
        for _ in range(200):
            if self.evaluate(asked):
                return
            self.press("Tab")
        raise PageError(f"the keyboard does not reach {selector}")

    def resize(self, width: int, height: int = 900) -> None:
        """Give the page another size."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 500,
        )

    def prefer(self, scheme: str) -> None:
        """Prefer light or dark."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", features=features)

    def take_picture(self, path: Path, *, of: str = "html") -> None:
        """Save an element as PNG, the whole page if none is named."""
        clip = self.evaluate(
            f"(({{x, y, width, height}}) => ({{x: x + scrollX, y: y + scrollY, width, height}}))"
            f"(document.querySelector({json.dumps(of)}).getBoundingClientRect())"
        )
        told = self.call(
            "Page.captureScreenshot",
            format="png",
            captureBeyondViewport=True,
            clip=clip | {"scale": 1},
        )
        path.write_bytes(base64.b64decode(told["data"]))


@contextmanager
def running_first(page: Page, script: str) -> Iterator[None]:
    """Run a script in each document before its own."""
    made = page.call("Page.addScriptToEvaluateOnNewDocument", source=script)
    try:
        yield
    finally:
        page.call("Page.removeScriptToEvaluateOnNewDocument", identifier=made["identifier"])


@contextmanager
def open_browser(folder: Path) -> Iterator[Page]:
    """Start a browser with an empty profile in a folder; yield its only tab."""
    assert PROGRAM is not None
    pipes = [fd for _ in range(2) for fd in os.pipe()]
    # Out of the way of 3 and 4, onto which they are copied.
    theirs = [fcntl.fcntl(pipes[i], fcntl.F_DUPFD, 10) for i in (0, 3)]
    options = [
        "--headless",
        "--remote-debugging-pipe",
        f"--user-data-dir={folder / 'profile'}",
        "--no-first-run",
        "--disable-gpu",
        "--hide-scrollbars",
        "--disable-dev-shm-usage",
        "--disable-background-networking",
        "--lang=en",
    ]
    if os.geteuid() == 0:
        options.append("--no-sandbox")  # Chromium has no sandbox for root
    with (folder / "browser.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", _START, *map(str, theirs), PROGRAM, *options, "about:blank"],
            pass_fds=theirs,
            stdout=log,
            stderr=log,
            env=os.environ | {"TZ": "Asia/Kathmandu"},
        )
    for fd in (*theirs, pipes[0], pipes[3]):
        os.close(fd)
    try:
        yield Page(pipes[1], pipes[2])
    finally:
        process.terminate()
        process.wait()
        os.close(pipes[1])
        os.close(pipes[2])
