import os

# Tests run on every core already; threads below them would only contend. Before NumPy is loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest
from hypothesis import settings

# No time limit: a slow machine must not fail a law. Derandomised: the same tree gives the same
# verdict everywhere; to explore further, HYPOTHESIS_PROFILE=explore draws new examples.
settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("default", settings.get_profile("ci"))
settings.register_profile("explore", derandomize=False, deadline=None, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"
