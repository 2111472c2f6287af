"""The server and the browser of all tests of the page."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.aggregator.ui.browser import open_browser
from tests.aggregator.ui.scene import Scene, make_study
from tests.aggregator.ui.trying import Visit, visiting
from tests.system.servers import start_server


@pytest.fixture(scope="package")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder: Path = tmp_path_factory.mktemp("dashboard")
    aggregator = start_server(folder, worker=True)
    try:
        with open_browser(folder) as page:
            page.resize(1200)
            yield Scene(aggregator, page, make_study(aggregator))
    finally:
        aggregator.stop()


@pytest.fixture
def visit(scene: Scene) -> Iterator[Visit]:
    with visiting(scene) as visit:
        yield visit
