from __future__ import annotations

import gc
import inspect
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

# Tests run on every core already; threads below them would only contend. Before NumPy is loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Thousands of databases wait for a disk at each commit; in memory none does. Where programs may not
# be started there, or there is little room, files are where they usually are.
if (
    Path("/dev/shm").is_dir()
    and shutil.disk_usage("/dev/shm").free > 4 << 30
    and not os.statvfs("/dev/shm").f_flag & os.ST_NOEXEC
):
    os.environ.setdefault("TMPDIR", "/dev/shm")
    tempfile.tempdir = None  # pytest has looked before

# As where nothing was compiled. Programs that tests start go by the same variable themselves.
if os.environ.get("SFUMATO_ENGINE") == "numpy":
    sys.modules["sfumato.shared.core.engines._native"] = None  # type: ignore[assignment]

import httpx
import pytest
from hypothesis import HealthCheck, settings

from sfumato.shared.spending.places import ROOTS_LEDGER
from tests.bare_names import refuse_bare_names
from tests.certificates import Authority
from tests.ledgers import use_new_ledger

if TYPE_CHECKING:
    from deploy.demo.cluster import Aggregator
    from sfumato.analyst import Client

refuse_bare_names()

# No time limit: a slow machine must not fail a law. Derandomised: the same tree gives the same
# verdict everywhere; to explore further, HYPOTHESIS_PROFILE=explore draws new examples, as `make
# soak` does. A law whose planted mistakes need more examples than these states its number itself.
settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("default", settings.get_profile("ci"))
settings.register_profile(
    "explore", settings.get_profile("ci"), derandomize=False, max_examples=1000
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

# Every HTTP client reads all that it trusts when it is made. Those of a system take 0.1 s, longer
# than the rest of most tests; one takes nothing. Processes that tests start inherit it.
_folder = tempfile.TemporaryDirectory(prefix="sfumato-trusted-")
os.environ["SSL_CERT_FILE"] = str(Authority(Path(_folder.name)).path)

use_new_ledger()
_has_default_ledger = ROOTS_LEDGER.exists()

# Where a test states no other, its requests have the client's own limit of five seconds, which a
# server on a busy machine misses. All clients and functions share this object.
_limits = inspect.signature(httpx.Client.__init__).parameters["timeout"].default
_limits.connect = _limits.read = _limits.write = _limits.pool = 120.0


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return half as many again as there are cores: tests wait for servers, files and clocks."""
    return -(-3 * len(os.sched_getaffinity(0)) // 2)


# Libraries and collected tests stay. To look through them again and again for garbage takes a fifth
# of the time of the collection, and a tenth of that of the tests.
gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()
    gc.set_threshold(20_000, 20, 20)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail where a test has counted what it released beside the releases of real records."""
    if ROOTS_LEDGER.exists() and not _has_default_ledger:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        sys.stderr.write(f"error: a test has made {ROOTS_LEDGER}\n")


@pytest.fixture(autouse=True)
def own_ledger() -> None:
    use_new_ledger()


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aggregator]:
    """A server with a worker, for tests that neither stop it nor look at studies of others.

    Pages of any origin may use it.
    """
    from tests.system.servers import start_server

    with mock.patch.dict(os.environ, {"SFUMATO_WEB_ORIGINS": "*"}):
        running = start_server(tmp_path_factory.mktemp("server"), worker=True)
    yield running
    running.stop()


@pytest.fixture
def client(server: Aggregator) -> Iterator[Client]:
    from sfumato.analyst import Client

    with Client(server.url, key=server.key) as connected:
        yield connected
