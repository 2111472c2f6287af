"""Pages of the documentation site, held to the rules of axe-core."""

from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.accessibility import check_page, needs_axe
from tests.aggregator.ui.browser import open_browser
from tests.walking import Walk

# The markup of the theme decides these, and no page of ours.
OF_THE_THEME = ("aria-dialog-name", "landmark-unique", "scrollable-region-focusable")


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@needs_axe
def test_pages_of_the_site_are_accessible(
    site: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    handler = partial(QuietHandler, directory=str(site))
    with (
        ThreadingHTTPServer(("127.0.0.1", 0), handler) as server,
        open_browser(tmp_path_factory.mktemp("browser")) as page,
        Walk() as walk,
    ):
        Thread(target=server.serve_forever).start()
        try:
            for name in ("index", "how-to/timeline", "reference/settings"):
                for scheme, shown in (("light", "default"), ("dark", "slate")):
                    page.prefer(scheme)
                    page.open(
                        f"http://127.0.0.1:{server.server_port}/{name}.html",
                        until=f"[data-md-color-scheme={shown}]",
                    )
                    # The theme would keep the scheme for later pages.
                    page.evaluate("localStorage.clear()")
                    check_page(page, walk, name, schemes=(scheme,), without=OF_THE_THEME)
        finally:
            server.shutdown()
