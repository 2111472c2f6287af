"""Compare what the cluster stored and opened with what the devices folded."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from itertools import pairwise

from deploy.cluster_test.engine import Cluster, ClusterError
from deploy.cluster_test.studies import Records
from sfumato.analyst import Client
from sfumato.analyst.results import DecodeResult
from sfumato.shared.wire.objects.batches import BatchBody

_OPEN_S = 400.0
_STATIONS = ("ewr", "jfk", "lga")
_DECODE_S = 300.0
_OF_HELPER = """\
import json, sqlite3
rows = sqlite3.connect("file:/var/lib/sfumato/helper.db?mode=ro", uri=True).execute(
    "SELECT hex(batch_id), state FROM batches").fetchall()
words = open("/var/lib/sfumato-journal/helper.journal").read().split()
print(json.dumps({"rows": rows, "journal": words}))
"""


def check_local(
    client: Client, study: str, records: Records, n_devices: int, *, name: str = "local"
) -> dict[str, bool]:
    """Compare the sum of all releases with that of the records."""
    sketches = list(client.sketches(study))
    n_slots = records.n_records // (n_devices * len(records.given[0]))
    numbers = {(each.device_id, each.stream, each.sequence) for each in sketches}
    snapshot = client.snapshot(study)
    counts = (snapshot.n_sketches, snapshot.n_devices, snapshot.n_records)
    return {
        f"{name}: every sketch is stored once": len(sketches)
        == len(numbers)
        == len({each.sketch_id for each in sketches})
        == n_devices * n_slots,
        f"{name}: sketches, devices and records are all counted": counts
        == (n_devices * n_slots, n_devices, records.n_records),
        f"{name}: the sum is that of the records, bit by bit": client.snapshot_sums(
            snapshot.snapshot_id
        ).sums
        == records.sum_up(),
    }


def decode_local(client: Client, study: str, *looks: str) -> DecodeResult:
    """Decode the study of exact sums; its records have no clusters, and no answer is usable."""
    decode = client.decode(study, n_clusters=2, looks=looks)
    return decode.wait(timeout=_DECODE_S, allow_unusable=True)


def check_look(
    client: Client, study: str, records: Records, n_devices: int, *, first: str
) -> dict[str, bool]:
    """Compare what a look at a first study's centroids summed and measured with the records."""
    checks = check_local(client, study, records, n_devices, name="look")
    looked = decode_local(client, first, study).looks
    assert looked is not None
    (found,) = looked.looks
    return checks | {
        "look: it measures every record": round(found.n_records.value) == records.n_records,
        "look: the decode that takes it over has the centroids that were shown": found.result
        == decode_local(client, first).identity.hex(),
    }


def check_sum(client: Client, study: str, records: Records, n_reports: int) -> dict[str, bool]:
    """Wait until both servers have opened every batch, and compare their sum."""
    n_batches = records.n_records // (n_reports * len(records.given[0]))
    end = time.monotonic() + _OPEN_S
    while True:
        batches = list(client.batches(study))
        states = sorted(each.state for each in batches)
        if states == ["acknowledged"] * n_batches:
            break
        if time.monotonic() > end:
            raise ClusterError(f"batches: not all are opened after {_OPEN_S:g} s: {states}")
        time.sleep(1.0)
    snapshot = client.snapshot(study)
    counted = [client.batch(study, each.batch_id) for each in batches]
    return {
        "secure sum: every batch is counted, and none has a doubt": all(
            each.standing == "counted" and not each.flags for each in batches
        ),
        "secure sum: every report was opened once": all(
            dict(each.reports) == {"opened": n_reports} for each in counted
        ),
        "secure sum: all records are counted": snapshot.n_records == records.n_records,
        "secure sum: the opened sum is that of the records, bit by bit": client.snapshot_sums(
            snapshot.snapshot_id
        ).sums
        == records.sum_up(),
    }


def check_helper(cluster: Cluster, helper: str, batches: Iterable[BatchBody]) -> dict[str, bool]:
    """Check in the helper's own database and journal that it answered once for each batch."""
    found = json.loads(cluster.execute(helper, "/opt/sfumato/bin/python", "-", text=_OF_HELPER))
    opened = {each.batch_id for each in batches}
    held = {name.lower(): state for name, state in found["rows"]}
    words = found["journal"]
    answers = [name for kind, name in pairwise(words) if kind == "answer"]
    return {
        "helper: it holds the same batches, all acknowledged": held.keys() == opened
        and set(held.values()) == {"acknowledged"},
        "helper: its journal has one answer for each batch": sorted(answers) == sorted(opened),
    }


def check_stations(cluster: Cluster, client: Client) -> dict[str, bool]:
    """Compare the sketches of the stations' containers with what they say they sent, and decode."""
    sent, waiting = 0, 0
    for station in _STATIONS:
        (container,) = cluster.list_containers(station)
        told = cluster.execute(
            container, "sfumato-agent", "status", "--json", "--config",
            "/var/lib/sfumato/agent.toml",
        )  # fmt: skip
        status = json.loads(told)
        sent, waiting = sent + status["sent"], waiting + status["waiting"]
        study = status["study_id"]
    result = client.decode(study, n_clusters=5).wait(timeout=_DECODE_S)
    return {
        "stations: every sketch that they sent is counted": waiting == 0
        and 0 < sent == client.snapshot(study).n_sketches,
        # Their noise is new each time, and now and then makes it a doubtful one.
        f"stations: a decode is {result.verdict}": result.verdict in ("sound", "rough", "doubtful"),
    }
