"""References to sketches on a server, and sums that no aggregator sends."""

import json
from typing import Any

import httpx
import pytest

from sfumato.analyst import Client
from sfumato.analyst.client.connection import Connection
from sfumato.analyst.sketching.sources import find_snapshot
from sfumato.shared.errors import NotFoundError, TransportError
from sfumato.shared.plan import SketchPlan, plan_to_json
from sfumato.shared.wire import problem_document
from sfumato.shared.wire.objects.declaration import make_sample
from sfumato.shared.wire.objects.devices import PlanBody
from sfumato.shared.wire.objects.results import SnapshotSumsBody
from tests.aggregator.fleet import make_plan

STUDY, SNAPSHOT = "5f" * 32, "21" * 32


def make_histogram() -> SketchPlan:
    plan = make_plan(
        dimensions=tuple(
            type(each)(name=each.name, unit=each.unit, lower=each.lower, upper=each.upper)
            for each in make_plan().dimensions
        ),
        statistic="histogram",
        n_frequencies=None,
        seed=None,
    )
    assert plan.n_coordinates == 2 * 259
    return plan


def serve(name: str, **changes: Any) -> tuple[Client, list[tuple[str, Any]]]:
    """A client of a server with one study and one snapshot; and the bodies that are posted."""
    posted: list[tuple[str, Any]] = []
    plan = make_histogram()
    sums: dict[str, Any] = (make_sample(SnapshotSumsBody) or {}) | {
        "snapshot_id": SNAPSHOT,
        "study_id": STUDY,
        "sums": [1] * plan.n_coordinates,
        "size_sums": [1] * plan.n_coordinates,
    }
    sums |= changes
    documents: dict[str, Any] = {
        f"/v1/studies/{STUDY}/plan": (make_sample(PlanBody) or {}) | {"plan": plan_to_json(plan)},
        f"/v1/studies/{STUDY}/snapshots": sums,
        f"/v1/snapshots/{SNAPSHOT}": sums,
    }

    def handle(request: httpx.Request) -> httpx.Response:
        if request.method == "POST":
            posted.append((request.url.path, json.loads(request.content)))
        reference = request.url.params.get("reference")
        if reference is not None and (reference == name or STUDY.startswith(reference)):
            return httpx.Response(200, json={"kind": "study", "identity": STUDY})
        if request.url.path in documents:
            return httpx.Response(200, json=documents[request.url.path])
        return httpx.Response(404, json=problem_document(NotFoundError("is not there")))

    client = Client("http://server", patience_s=0.0)
    client.close()
    client._calls._server = Connection(
        "http://server", blocks=True, transport=httpx.MockTransport(handle)
    )
    return client, posted


@pytest.mark.parametrize(
    ("name", "reference", "slots"),
    [
        ("pumps", "pumps", (None, None)),
        ("pumps", STUDY, (None, None)),
        ("pumps", "pumps@3", (3, 3)),
        ("pumps", "pumps@-2:7", (-2, 7)),
        ("pumps", f"{STUDY[:8]}@3:4", (3, 4)),
        ("pumps@3", "pumps@3", (None, None)),
        ("pumps", "pumps@1970-01-02", (24, 47)),
        ("pumps", "pumps@1970-01-02:1970-02", (24, 59 * 24 - 1)),
    ],
)
def test_a_reference_means_a_study_or_some_of_its_slots(
    name: str, reference: str, slots: tuple[int | None, int | None]
) -> None:
    client, posted = serve(name)
    assert find_snapshot(client, reference).totals.sums.sum() == 2 * 259
    ((path, body),) = posted
    assert path == f"/v1/studies/{STUDY}/snapshots"
    assert (body["first_slot"], body["last_slot"]) == slots


def test_a_reference_means_a_snapshot_where_no_study_has_the_id() -> None:
    client, posted = serve("pumps")
    assert find_snapshot(client, SNAPSHOT).snapshot_id == SNAPSHOT
    assert posted == []


@pytest.mark.parametrize("reference", ["pump", "pump@3", "pumps@x", "ab" * 32])
def test_a_reference_to_nothing_is_refused(reference: str) -> None:
    client, _ = serve("pumps")
    with pytest.raises(NotFoundError):
        find_snapshot(client, reference)


@pytest.mark.parametrize(
    "changes",
    [
        {"sums": [1]},
        {"sums": [1 << 64] * 518},
        {"size_sums": [1 << 200] * 518},
        {"moments": {"n_sketches": [], "first": [], "second": [], "third": [], "energy": []}},
    ],
)
def test_sums_that_the_plan_cannot_give_are_refused(changes: dict[str, Any]) -> None:
    client, _ = serve("pumps", **changes)
    with pytest.raises(TransportError, match="sums of the answer"):
        _ = find_snapshot(client, "pumps").totals
