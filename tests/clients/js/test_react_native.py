"""A device over what an application in React Native brings, where Node has as little as it.

Web Cryptography, IndexedDB, ``fetch`` and the codecs of text are gone; the storage has the shape of
AsyncStorage or of MMKV, and the cryptography is that of noble.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from deploy.demo.cluster import Aggregator
from sfumato.analyst import Client
from tests.clients.js.devices import REACT_NATIVE, NodeDevice, Study, add
from tests.clients.js.node import MISSING, NO_TOOLS, NODE, TOOLS

pytestmark = [
    pytest.mark.skipif(NODE is None, reason=MISSING),
    pytest.mark.skipif(not TOOLS.is_dir(), reason=NO_TOOLS),
]


@pytest.fixture
def device(tmp_path: Path) -> NodeDevice:
    return NodeDevice(folder=tmp_path / "device", driver=REACT_NATIVE)


@pytest.mark.parametrize("storage", ["async", "mmkv"])
def test_records_count_once_and_exactly_over_either_shape_of_storage(
    device: NodeDevice, server: Aggregator, client: Client, storage: str
) -> None:
    study = Study(server, client, f"storage {storage}")
    records = np.random.default_rng(4).normal(scale=4.0, size=(8, 2))
    calls = add(records.tolist(), study.times(0, 0, 0, 0, 1, 1, 1, 1))
    *_, flushed = device.run(("enrol", study.code), *calls[:4], ("flush",), storage=storage)
    assert (flushed["released"], flushed["sent"]) == (1, 1)
    # Without the network what is released waits; the next process goes on with it.
    *_, flushed = device.run(*calls[4:], ("flush",), storage=storage, offline=True)
    assert (flushed["released"], flushed["sent"], flushed["waiting"]) == (1, 0, 1)
    flushed, again, status = device.run(("flush",), ("flush",), ("status",), storage=storage)
    assert (flushed["sent"], again["sent"], status["sent"]) == (1, 0, 2)
    study.expected.add(records)
    study.check()


def test_a_full_storage_loses_nothing_that_was_stored_and_says_what_to_do(
    device: NodeDevice, server: Aggregator, client: Client
) -> None:
    study = Study(server, client, "full storage")
    first, second = add([[1, 2], [3, 4]], study.times(0, 0))
    device.run(("enrol", study.code), first, ("save",))
    _, refused = device.run(second, ("flush",), disk="full")
    assert refused["kind"] == "store"
    assert "Free space" in refused["error"]
    (flushed,) = device.run(("flush",))
    assert (flushed["released"], flushed["sent"]) == (1, 1)
    assert client.snapshot(study.study_id).n_records == 1


@pytest.mark.parametrize("generator", ["failing", "constant"])
def test_without_a_sound_generator_nothing_is_enrolled(
    device: NodeDevice, server: Aggregator, client: Client, generator: str
) -> None:
    study = Study(server, client, f"native generator {generator}")
    (refused,) = device.run(("enrol", study.code), generator=generator)
    assert refused["kind"] == "random"
    assert not list(client.devices(study.study_id))


def test_a_copy_of_the_storage_is_suspended_before_a_second_noise_leaves(
    device: NodeDevice, server: Aggregator, client: Client, tmp_path: Path
) -> None:
    study = Study(server, client, "copied storage")
    calls = add([[1, 2], [3, 4]], study.times(0, 1))
    device.run(("enrol", study.code), calls[0], ("save",))
    copy = NodeDevice(folder=tmp_path / "copy", driver=REACT_NATIVE)
    copy.folder.mkdir()
    for path in device.folder.iterdir():
        (copy.folder / path.name).write_bytes(path.read_bytes())
    assert device.run(("flush",))[0]["sent"] == 1
    *_, refused = copy.run(calls[1], ("flush",))
    assert "cloned" in refused["error"]
    assert client.snapshot(study.study_id).n_sketches == 1
