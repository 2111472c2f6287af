"""The parts of ``make cluster-test`` that need no container."""

from __future__ import annotations

import socket
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from deploy.cluster_test.engine import ClusterError, choose_engine, run
from deploy.cluster_test.relay import Element, Relay
from deploy.cluster_test.studies import SLOT_S, Records, make_draft, make_local_plan
from sfumato.shared.core import SketchAccumulator
from sfumato.shared.plan import SumRelease


def test_records_lie_in_their_slots_and_their_sum_is_that_of_all_windows() -> None:
    plan = make_local_plan(4)
    records = Records(plan=plan, rng=np.random.default_rng(1))
    windows = [window for slot in range(4) for window in records.deal(slot, 3)]
    slots = {(when - plan.window.origin) // SLOT_S for times, _ in windows for when in times}
    assert slots == {0, 1, 2, 3}
    parts = []
    for _, some in windows:
        accumulator = SketchAccumulator(plan.statistic_of(b""))
        accumulator.add(some)
        parts.append([int(value) for value in accumulator.sums])
    assert records.sum_up() == np.sum(parts, axis=0).tolist()
    assert records.n_records == sum(len(times) for times, _ in windows)


def test_a_batch_of_the_secure_sum_is_full_when_every_device_has_sent() -> None:
    release = make_draft(4, n_devices=6).release
    assert isinstance(release, SumRelease)
    assert (release.kind, release.least_reports, release.most_reports) == ("sum.v1", 6, 6)


def test_a_command_that_fails_says_what_it_said() -> None:
    with pytest.raises(ClusterError, match="no-such-thing"):
        run(["ls", "no-such-thing"])
    with pytest.raises(ClusterError, match="engine: "):
        choose_engine("no-such-engine")


def test_a_secure_element_signs_with_its_key() -> None:
    key = Ed25519PrivateKey.generate()
    with Element(key) as element, socket.socket(socket.AF_UNIX) as line:
        line.connect(element.path)
        line.sendall(b"\0\4data")
        key.public_key().verify(line.recv(64), b"data")


def test_a_relay_that_cannot_start_says_why(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="server"):
        Relay.start(tmp_path, "no address")


def test_every_service_that_is_killed_is_one_of_the_compose_file() -> None:
    import yaml

    from deploy.cluster_test.__main__ import _FAULTS
    from deploy.cluster_test.engine import COMPOSE

    services = yaml.safe_load(Path(COMPOSE).read_text(encoding="utf-8"))["services"]
    assert set(_FAULTS) <= set(services)
