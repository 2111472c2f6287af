import pytest


@pytest.fixture(autouse=True)
def own_logging(logging_of_the_test_run: None) -> None:
    """Each command configures the logs of its process."""
