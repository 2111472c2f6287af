"""The published vectors are what the code computes; a port reads the same files."""

import json
from typing import Any

import pytest

from sfumato.shared.core.engines import choose_engine, list_engines
from tests.vectors import make_vectors
from tests.vectors.kind_vectors import make_kind_vectors


def stored(name: str) -> Any:
    return json.loads((make_vectors.HERE / f"{name}.json").read_text())


def test_features_are_those_published() -> None:
    assert stored("features") == make_vectors.make_feature_vectors()


@pytest.mark.parametrize("index", range(5))
def test_frequencies_of_a_seed_are_those_published(index: int) -> None:
    assert stored("frequencies")[index] == make_vectors.make_frequency_vectors()[index]


@pytest.mark.parametrize("index", range(3))
def test_blocks_of_a_seed_are_those_published(index: int) -> None:
    assert stored("blocks")[index] == make_vectors.make_block_vectors()[index]


@pytest.mark.parametrize("index", range(2))
def test_sums_of_records_are_those_published(index: int) -> None:
    assert stored("sketches")[index] == make_vectors.make_sketch_vectors()[index]


@pytest.mark.parametrize("engine", list(dict.fromkeys((list_engines()[0], "numpy"))))
def test_bins_cells_and_moments_are_those_published_in_every_engine(engine: str) -> None:
    assert make_kind_vectors(choose_engine(engine)) == stored("kinds")
