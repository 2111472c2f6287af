"""The server and the browser of all tests of the page."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.demo.cluster import Aggregator
from tests.aggregator.ui.browser import open_browser
from tests.aggregator.ui.scene import Scene, make_study


@pytest.fixture(scope="package")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder: Path = tmp_path_factory.mktemp("dashboard")
    aggregator = Aggregator.start(folder)
    try:
        with open_browser(folder) as page:
            page.resize(1200)
            yield Scene(aggregator, page, make_study(aggregator))
    finally:
        aggregator.stop()
