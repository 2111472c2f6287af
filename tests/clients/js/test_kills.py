"""A device in TypeScript that is killed between any two steps releases nothing twice."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from deploy.demo.cluster import Aggregator
from sfumato.analyst import Client
from tests.clients.js.devices import REACT_NATIVE, Call, NodeDevice, Study, spread
from tests.clients.js.node import MISSING, NO_TOOLS, NODE, TOOLS
from tests.soak import small_and_soak

pytestmark = pytest.mark.skipif(NODE is None, reason=MISSING)


def try_out(study: Study, folder: Path, driver: str, kill_at: int) -> list[str]:
    """Kill a device at a place, and let it go on; return the names of the places that it passed."""
    folder.mkdir()
    device = NodeDevice(folder=folder / "state", driver=driver)

    def end(calls: Sequence[Call]) -> list[Any]:
        killed = device.start(*calls, killAt=kill_at, places=str(folder / "places"))
        assert killed.returncode in (0, -signal.SIGKILL), killed.stderr
        return []

    study.try_out(end, lambda calls: device.run(*calls), kill_at)
    return (folder / "places").read_text().splitlines()


@small_and_soak("n_kills", 3, 1000)
@pytest.mark.parametrize("driver", ["in_node.ts", REACT_NATIVE], ids=["Node", "React Native"])
def test_a_device_that_is_killed_at_any_place_releases_every_record_once_or_never(
    tmp_path: Path, server: Aggregator, client: Client, n_kills: int, driver: str
) -> None:
    if driver == REACT_NATIVE and not TOOLS.is_dir():
        pytest.skip(NO_TOOLS)
    study = Study(server, client, f"kills {n_kills} {driver}")
    places = try_out(study, tmp_path / "whole", driver, 0)
    # In the small form evenly among all places.
    for kill_at in spread(len(places), n_kills):
        try_out(study, tmp_path / str(kill_at), driver, kill_at)
    study.check()
