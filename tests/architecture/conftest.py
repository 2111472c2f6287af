"""The documentation site, of which several tests read pages."""

import os
import sys
from pathlib import Path

import pytest

from tests.forking import run_forked

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="package")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` builds it."""
    pytest.importorskip("mkdocs", reason="mkdocs is not installed; run `make setup`")
    folder = tmp_path_factory.mktemp("site")
    done = run_forked(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder],
        folder=ROOT,
        environment=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
    )
    assert done.returncode == 0, done.stderr
    return folder
