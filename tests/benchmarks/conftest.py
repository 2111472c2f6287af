from pathlib import Path

import pytest

from benchmarks import packages


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty cache, with no package index to fill it from."""
    monkeypatch.setattr(packages, "CACHE", tmp_path)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    return tmp_path
