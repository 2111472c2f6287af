"""The tutorial without a server works as it stands, and its answer is close to k-means."""

import re
import shutil
from pathlib import Path

import pytest

from tests.system.test_tutorial import ROOT, activate, read_blocks, run_shell, to_script

PAGE = ROOT / "docs" / "tutorials" / "own-data.md"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "deploy" / "demo" / "data", tmp_path / "deploy" / "demo" / "data")
    return activate(tmp_path)


def test_a_file_that_nobody_has_seen_is_clustered(folder: Path) -> None:
    before = {path.name for path in folder.iterdir()}
    blocks = [block for section in read_blocks(PAGE).values() for block in section]
    said = run_shell(to_script(blocks), folder, "http://127.0.0.1:9").stdout
    found = re.search(r"relative SSE (\d+\.\d+)$", said, re.MULTILINE)
    # The worst of five runs was 1.04; a wrong scale or box gives 1.5 and more.
    assert found is not None
    assert float(found[1]) < 1.3
    assert {path.name for path in folder.iterdir()} == before
