from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent
OF_PAPERS = {
    # the survey of private clustering
    "test_with_much_epsilon_something_is_found",
    # the mixture of generative networks
    "test_drawn_records_are_like_those_of_their_part",
}
"""A test of each paper runs with the others; those of sketch and cover are the product's."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave the rest to the run of the laboratory."""
    for item in items:
        named = getattr(item, "originalname", item.name)
        if item.path.is_relative_to(HERE) and named not in OF_PAPERS:
            item.add_marker(pytest.mark.lab)
