"""Published results on a device: pulled, trusted, and applied to records that stay."""

import csv
import dataclasses
import gzip
import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings, strategies as st

from sfumato.device_agent.agent.clusters import Labeller, find_far_limit
from sfumato.shared.plan import SketchPlan, compute_plan_digest
from sfumato.shared.wire import (
    PublishedResult,
    compute_key_id,
    encode_endorsement_input,
    encode_published,
)
from tests.device_agent.conftest import COLUMNS, Agent, make_other_plan, make_plan
from tests.device_agent.daemons import daemon, stop, wait_until
from tests.device_agent.serving import Server

CENTROIDS = ((-5.0, -5.0), (5.0, 5.0))


def make_key(number: int = 1) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(bytes([number] * 32))


def show_key(key: Ed25519PrivateKey, *, by: Ed25519PrivateKey | None = None) -> dict[str, Any]:
    public = key.public_key().public_bytes_raw()
    endorsement = None
    if by is not None:
        old = compute_key_id(by.public_key().public_bytes_raw())
        endorsement = by.sign(encode_endorsement_input(key_id=old, public_key=public)).hex()
    return {
        "public_key": public.hex(),
        "key_id": compute_key_id(public).hex(),
        "created": "2026-03-01T12:00:00.000000Z",
        "endorsement": endorsement,
    }


def make_result(server: Server, **changes: Any) -> PublishedResult:
    usual: dict[str, Any] = {
        "study": server.study,
        "plan_digest": compute_plan_digest(server.plan),
        "decode": b"d" * 32,
        "sequence": 100,
        "created": 1_700_000_000,
        "name": "winter",
        "verdict": ("rough", "the candidates differ"),
        "dimensions": (("x", "1"), ("y", "1")),
        "centroids": CENTROIDS,
        "weights": (0.7, 0.3),
        "spreads": ((1.0, 1.0), (1.0, 1.0)),
    }
    return PublishedResult(**(usual | changes))


def publish(server: Server, *, key: Ed25519PrivateKey | None = None, **changes: Any) -> None:
    key = key or make_key()
    public = key.public_key().public_bytes_raw()
    server.published = encode_published(make_result(server, **changes), public, key.sign)
    server.result_keys = server.result_keys or [show_key(key)]


def pull(agent: Agent, *arguments: str, status: int = 0) -> dict[str, Any]:
    assert agent.run("pull", "--json", *arguments) == status, agent.out + agent.err
    document: dict[str, Any] = json.loads(agent.out) if status == 0 else {}
    return document


@pytest.fixture
def pulled(agent: Agent) -> Agent:
    """A device that has the published result of its study."""
    publish(agent.server)
    agent.init()
    assert pull(agent)["is_new"]
    return agent


def label(agent: Agent, text: str, *arguments: str) -> list[list[str]]:
    path = agent.folder / "more.csv"
    path.write_text(text)
    assert agent.run("cluster", "--csv", str(path), *arguments) == 0, agent.err
    return list(csv.reader(agent.out.splitlines()))


def test_each_line_of_a_file_gets_its_cluster_behind_it(agent: Agent) -> None:
    publish(agent.server)
    agent.init()
    assert pull(agent)["is_new"]
    rows = label(agent, "y,note,x\n-5,a,-5\n5,b,4\n9.5,c,9\nno,d,1\n12,e,5")
    assert rows == [
        ["y", "note", "x", "cluster", "distance", "doubt"],
        ["-5", "a", "-5", "1", "0", ""],
        ["5", "b", "4", "2", "1", ""],
        ["9.5", "c", "9", "2", "6.021", "far"],
        ["no", "d", "1", "", "", "unreadable"],
        ["12", "e", "5", "2", "5", "out of bounds, far"],
    ]


def test_lines_of_a_packed_file_get_their_clusters(pulled: Agent) -> None:
    path = pulled.folder / "more.csv.gz"
    path.write_bytes(gzip.compress(b"x,y\n5,4\n", mtime=0))
    assert pulled.run("cluster", "--csv", str(path)) == 0, pulled.err
    assert pulled.out.splitlines()[1].startswith("5,4,2,")


def test_labelling_asks_nobody_and_changes_nothing(pulled: Agent) -> None:
    pulled.server.stop()
    n_requests, before = len(pulled.server.requests), pulled.dump()
    label(pulled, "x,y\n1,1\n")
    assert (len(pulled.server.requests), pulled.dump()) == (n_requests, before)


def test_the_request_is_the_same_whatever_records_there_are(agent: Agent) -> None:
    publish(agent.server)
    agent.init()
    seen = []
    for lines in (0, 5):
        agent.append(*([0] * lines))
        agent.server.requests.clear()
        pull(agent)
        seen.append(list(agent.server.requests))
    assert seen[0] == seen[1] == [f"GET /v1/studies/{agent.study}/published"]


def test_the_key_is_pinned_at_enrolment_so_another_is_refused_later(agent: Agent) -> None:
    publish(agent.server)
    agent.init()
    agent.server.result_keys = []
    publish(agent.server, key=make_key(2))
    pull(agent, status=2)
    assert "signature: of the published result is that of key" in agent.err
    assert agent.run("cluster", "--csv", "nothing.csv") == 2
    assert "is not on this device" in agent.err


def test_a_device_that_enrolled_before_pins_the_key_at_its_first_pull(enrolled: Agent) -> None:
    publish(enrolled.server)
    assert pull(enrolled)["pinned"] == "first"
    assert pull(enrolled)["pinned"] is None


def test_a_successor_that_the_old_key_names_is_followed_and_no_other(agent: Agent) -> None:
    publish(agent.server)
    agent.init()
    first, second, third, thief = (make_key(i) for i in (1, 2, 3, 9))
    agent.server.result_keys = [show_key(first), show_key(second, by=first)]
    publish(agent.server, key=second)
    assert pull(agent)["pinned"] == "followed"
    agent.server.result_keys += [show_key(third, by=thief)]
    publish(agent.server, key=third, sequence=101)
    pull(agent, status=2)
    assert "does not name this successor" in agent.err
    assert pull(agent, "--trust", show_key(third)["public_key"])["pinned"] == "told"


def test_a_key_in_the_configuration_takes_precedence(agent: Agent) -> None:
    publish(agent.server)
    agent.init()
    other = show_key(make_key(2))["public_key"]
    text = agent.config.read_text().replace("[check]", f'[results]\nkey = "{other}"\n[check]')
    agent.config.write_text(text)
    pull(agent, status=2)
    agent.server.result_keys = []
    publish(agent.server, key=make_key(2))
    assert pull(agent)["public_key"] == other


def test_an_altered_result_is_refused_and_the_stored_one_stays(pulled: Agent) -> None:
    publish(pulled.server, sequence=101)
    assert pulled.server.published is not None
    altered = bytearray(pulled.server.published)
    altered[-1] ^= 1
    pulled.server.published = bytes(altered)
    pull(pulled, status=2)
    assert "does not verify with the server's result key" in pulled.err
    assert label(pulled, "x,y\n5,5\n")[1][2] == "2"


@pytest.mark.parametrize("sequence", [99, 100])
def test_an_older_result_never_replaces_a_newer_one(pulled: Agent, sequence: int) -> None:
    publish(pulled.server, sequence=sequence, name="another")
    pull(pulled, status=2)
    assert f"has number {sequence}, and this device has 100 already" in pulled.err


@pytest.mark.parametrize(
    "changes", [{"plan_digest": b"p" * 32}, {"study": b"s" * 32}, {"dimensions": (("x", "1"),) * 2}]
)
def test_a_result_of_another_plan_is_refused(agent: Agent, changes: dict[str, Any]) -> None:
    publish(agent.server, **changes)
    agent.init()
    pull(agent, status=2)
    assert "published result: " in agent.err


def test_a_study_without_a_publication_says_so(enrolled: Agent) -> None:
    pull(enrolled, status=2)
    assert "no such study" in enrolled.err


def test_while_the_server_is_away_the_stored_result_goes_on_being_used(pulled: Agent) -> None:
    pulled.server.stop()
    pull(pulled, status=75)
    assert "the stored result goes on being used" in pulled.err
    assert label(pulled, "x,y\n-5,-5\n")[1][2] == "1"


def test_a_result_that_is_not_to_be_used_is_shown_with_its_verdict(agent: Agent) -> None:
    publish(agent.server, verdict=("do not use", "noise hides the clusters"))
    agent.init()
    pull(agent)
    assert "warning: do not use: noise hides the clusters" in agent.err
    label(agent, "x,y\n5,5\n")
    assert "warning: do not use" in agent.err
    assert agent.run("status") == 0
    assert "result 2 clusters 'winter', published" in agent.out
    assert "verdict: do not use" in agent.out


def test_a_stored_result_that_was_altered_on_the_disk_is_not_used(pulled: Agent) -> None:
    path = pulled.keys / "result.json"
    found = json.loads(path.read_text())
    found["document"] = found["document"][:-2] + "00"
    path.write_text(json.dumps(found))
    assert pulled.run("cluster", "--csv", "more.csv") == 2
    assert pulled.run("status", "--json") == 0
    assert "does not verify" in json.loads(pulled.out)["published_result"]["problem"]


def test_forgetting_the_device_forgets_the_result(pulled: Agent) -> None:
    assert pulled.run("forget", "--yes") == 0
    assert not list(pulled.state.glob("study-*/result.json*"))


def test_once_and_the_daemon_pull_only_if_the_owner_wants_it(agent: Agent) -> None:
    publish(agent.server)
    agent.init()
    agent.once()
    assert not any("published" in request for request in agent.server.requests)
    agent.config.write_text(
        agent.config.read_text().replace("[check]", "[results]\npull = true\n[check]")
    )
    agent.once()
    assert label(agent, "x,y\n5,5\n")[1][2] == "2"
    publish(agent.server, sequence=101)
    stored = agent.keys / "result.json"
    with daemon(agent.config) as process:
        wait_until(lambda: (agent.server.published or b"").hex() in stored.read_text())
        assert stop(process) == 0


def test_a_stream_is_followed_from_its_beginning(pulled: Agent) -> None:
    pulled.records.write_text("time,x,y\n1700000000,-5,-5\n")
    command = [
        sys.executable,
        "-m",
        "sfumato.device_agent.cli",
        "cluster",
        "--follow",
        "meter",
        "--json",
    ]
    with subprocess.Popen(
        [*command, "--config", str(pulled.config)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            assert json.loads(process.stdout.readline())["cluster"] == 1
            with pulled.records.open("a") as file:
                file.write("1700000001,5,5\n")
            row = json.loads(process.stdout.readline())
        finally:
            process.terminate()
    assert row == {
        "record": 2,
        "time": "2023-11-14T22:13:21Z",
        "cluster": 2,
        "distance": 0.0,
        "is_far": False,
        "doubt": None,
    }
    assert pulled.once()["records_read"] == 2  # the pulled's own place has not moved


def test_the_far_limit_is_within_4_per_cent_of_the_exact_one() -> None:
    from scipy.stats import chi2

    found = [find_far_limit(d) for d in (1, 2, 5, 10, 50)]
    assert np.allclose(found, chi2.ppf(0.999, [1, 2, 5, 10, 50]), rtol=0.04)


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_nearest_centroid_is_nearest_in_units_of_the_scale(seed: int) -> None:
    rng = np.random.default_rng(seed)
    plan = make_plan()
    centroids = rng.uniform(-10, 10, (3, 2))
    values = rng.uniform(-10, 10, (20, 2))
    labels = _make_labeller(plan, centroids, spreads=None).find(values)
    apart = np.linalg.norm(values[:, None] - centroids, axis=2)
    assert labels.clusters.tolist() == (apart.argmin(axis=1) + 1).tolist()
    assert np.allclose(labels.distances, apart.min(axis=1))
    assert labels.are_far is None


def test_logarithms_and_levels_are_compared_on_the_axes_of_the_plan() -> None:
    plan = make_other_plan("columns")
    answers = plan.space.encoder.decode(np.array([[0.0, 1.0, 0.0, 0.0], [4.0, 0.0, 0.9, 0.1]]))
    labeller = _make_labeller(plan, answers, spreads=np.ones((2, 4)))
    found = labeller.find(np.array([[0.0, 0.0], [7.5, 1.0], [np.nan, 0.0], [1.0, np.nan]]))
    assert len(COLUMNS) == 2
    # A missing number has a public value that stands for it; a missing level has none.
    assert found.clusters.tolist() == [1, 2, 1, 0]
    assert found.distances[0] == 0.0
    assert found.describe(3) == "unreadable"


def _make_labeller(plan: SketchPlan, centroids: Any, *, spreads: Any) -> Labeller:
    result = PublishedResult(
        study=b"s" * 32,
        plan_digest=b"p" * 32,
        decode=b"d" * 32,
        sequence=1,
        created=0,
        name="",
        verdict=None,
        dimensions=tuple((axis.name, axis.unit) for axis in plan.axes),
        centroids=tuple(map(tuple, centroids)),
        weights=(1.0 / len(centroids),) * len(centroids),
        spreads=None if spreads is None else tuple(map(tuple, spreads)),
    )
    return Labeller(plan, dataclasses.replace(result))
