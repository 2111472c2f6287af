"""One browser, and all devices of the matrix."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.c.conftest import library
from tests.clients.js.node import ENVIRONMENT, NODE
from tests.clients.js.tabs import Browser, open_tabs

HERE = Path(__file__).parent
TESTS = HERE.parent
__all__ = ["browser", "library"]


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    folder = tmp_path_factory.mktemp("browser")
    with open_tabs(folder) as opened:
        _write_families(folder / "pages")
        yield opened


def _write_families(pages: Path) -> None:
    """Put the families and their vectors beside the page, where their imports find the device."""
    assert NODE is not None
    command = [NODE, TESTS / "clients/js/strip.ts", HERE, pages / "interop"]
    subprocess.run(command, check=True, env=ENVIRONMENT)
    (pages / "clients/js").mkdir(parents=True)
    (pages / "clients/js/src").symlink_to(pages / "src")
    (pages / "vectors").symlink_to(TESTS / "vectors")
