"""Published results under a real server: pulled, checked, kept and applied by a device."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deploy.demo.cluster import Aggregator
from sfumato.analyst import Client
from tests.clients.js.devices import LENGTH, NodeDevice, add, make_code, make_exact_plan
from tests.clients.js.node import MISSING, NODE
from tests.system.servers import start_server

pytestmark = pytest.mark.skipif(NODE is None, reason=MISSING)
CENTRES = np.array([[-5.0, -5.0], [5.0, 5.0]])
RECORDS = [[-5.2, -4.9], [4.0, 6.0], [None, 0.0]]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aggregator]:
    """A server with a worker, whose result key may be replaced."""
    running = start_server(tmp_path_factory.mktemp("server"), worker=True)
    yield running
    running.stop()


def publish(client: Client, study: str, *, name: str, seed: int = 0) -> None:
    decode = client.decode(study, n_clusters=2, seed=seed)
    decode.wait()
    client.publish(decode.decode_id, name=name)


def test_a_device_labels_its_records_by_the_published_result_also_without_the_network(
    tmp_path: Path, server: Aggregator, client: Client
) -> None:
    plan = make_exact_plan("labels", n_frequencies=40, epsilon=str(100 * 46324 * 40))
    study = client.create_study("labels", plan).study_id
    rng = np.random.default_rng(4)
    records = np.repeat(CENTRES, (60, 40), axis=0) + rng.normal(scale=0.5, size=(100, 2))
    device = NodeDevice(folder=tmp_path / "device")
    times = [plan.window.origin + LENGTH * 0.5] * len(records)
    calls = [("enrol", make_code(client, server.url, study)), *add(records.tolist(), times)]
    *_, flushed, before = device.run(*calls, ("flush",), ("label", "pull", RECORDS))
    assert flushed["sent"] == 1, flushed
    assert before is None, "nothing is published yet"

    def label(how: str, **order: Any) -> Any:
        (found,) = device.run(("label", how, RECORDS), **order)
        return found

    publish(client, study, name="first")
    pulled = label("pull")
    assert pulled["name"] == "first"
    heavy, light = pulled["centroids"]
    assert np.allclose([heavy, light], CENTRES, atol=0.5)
    assert pulled["clusters"] == [1, 2, 0]
    assert label("load", offline=True) == pulled
    refused = label("pull", offline=True)
    assert refused["kind"] == "transport"
    # It follows a key that the old one names, and no other.
    client.rotate_identity(endorse=True)
    client.rotate_identity(endorse=True)
    publish(client, study, name="after two keys", seed=1)
    assert label("pull")["name"] == "after two keys"
    # Whoever has the old key in his hands could name any: then each owner decides anew.
    client.rotate_identity(endorse=False)
    publish(client, study, name="of a stranger", seed=2)
    refused = label("pull")
    assert refused["field"] == "signature"
    assert "does not name it as its successor" in refused["error"]
    assert label("load")["name"] == "after two keys"
