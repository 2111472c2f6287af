from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import agent_devices, packages, processes
from benchmarks.service import load
from deploy.demo import cluster, fleet, secure_sum
from tests.forking import forking_in

STARTING = (agent_devices, cluster, fleet, load, processes, secure_sum)
HERE = Path(__file__).parent
EXPERIMENTS = {
    *("bars", "calibration", "decoding", "estimator", "insight", "methods", "paper"),
    *("reference", "sketching", "small_cases", "synthesis"),
}
"""Comparisons with papers and libraries: their tests run with those of the laboratory."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave the experiments to `make lab-test`."""
    for item in items:
        name = item.path.stem.removeprefix("test_")
        if item.path.is_relative_to(HERE) and name in EXPERIMENTS:
            item.add_marker(pytest.mark.lab)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty cache, with no package index to fill it from."""
    monkeypatch.setattr(packages, "CACHE", tmp_path)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    return tmp_path


@pytest.fixture
def forked() -> Iterator[None]:
    """Fork the programs that a benchmark starts; its figures are not read here."""
    with forking_in(*STARTING):
        yield
