"""Run the compose cluster, kill its services while devices upload, and compare every sum.

``make cluster-test`` builds the images, starts Postgres, two aggregators behind the TLS proxy, a
worker and the helper of secure sums, and lets devices of three languages enrol over HTTPS. In one
study each device releases for itself; in the other two servers open a sum that neither sees in
parts. One after the other, an aggregator, the worker, the helper and the database are killed in the
middle of uploads, and started again. A second look then shows the centroids of the first study to
devices of all languages, while an aggregator is killed, and at last each device. In the end every
sum must be that of the records, bit by bit. A campaign leads agents that enrol once from a pilot to
a measured answer, while they and an aggregator are killed in each phase.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from deploy.cluster_test.campaigns import CampaignTrial
from deploy.cluster_test.checks import (
    check_helper,
    check_local,
    check_look,
    check_stations,
    check_sum,
    decode_local,
)
from deploy.cluster_test.devices import Agent, Device, NodeDevice, Sensor, Study
from deploy.cluster_test.engine import (
    DEPLOY,
    Cluster,
    ClusterError,
    build_images,
    build_stand_ins,
    choose_engine,
    make_base,
    measure_images,
    run,
)
from deploy.cluster_test.relay import Relay
from deploy.cluster_test.studies import Records, Window, make_draft, make_local_plan
from sfumato.analyst import Client
from sfumato.shared.errors import SketchError
from sfumato.shared.plan import SketchPlan, plan_from_json, plan_to_json

_FAULTS = ("aggregator", "worker", "helper", "database")
_PORT = 8453
_START_S = 300.0
_DRAIN_S = 600.0
_INTO_UPLOADS_S = 0.7
"""How long devices have uploaded when a service is killed."""
_LONGEST_LIFE_S = 2.0
"""How long a device that is to be killed works at most."""
_HELPER_NAME = "A helper of this machine"


def main() -> int:
    """Run the test; return 0 if every check holds."""
    parser = argparse.ArgumentParser(
        prog="cluster-test", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object and nothing else"
    )
    parser.add_argument("--engine", choices=("podman", "docker"), help="default: podman, or Docker")
    parser.add_argument(
        "--base", metavar="IMAGE", default="debian",
        help="base of the images, with the public images beside it; by default `debian`: base and "
        "stand-ins are made from Debian's packages, and no registry of images is needed",
    )  # fmt: skip
    parser.add_argument("--no-build", action="store_true", help="take the images that are there")
    parser.add_argument("--rounds", type=int, default=3, help="slots of each phase (default: 3)")
    parser.add_argument("--devices", type=int, default=2, help="of each language (default: 2)")
    parser.add_argument(
        "--down", type=float, default=8.0, help="seconds a killed service stays away"
    )
    parser.add_argument("--port", type=int, default=_PORT, help="of the proxy")
    parser.add_argument("--keep", action="store_true", help="leave the cluster running")
    options = parser.parse_args()
    # Its addresses and keys are not those of this shell.
    for name in [each for each in os.environ if each.startswith("SFUMATO_")]:
        del os.environ[name]
    try:
        outcome = _run(options)
    except SketchError as error:
        print(f"cluster-test: error: {error}", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps(outcome))
    else:
        _print(outcome)
    return 0 if all(outcome["checks"].values()) else 1


def _say(text: str) -> None:
    print(f"cluster-test: {text}", file=sys.stderr, flush=True)


def _run(options: argparse.Namespace) -> dict[str, Any]:
    begun = time.monotonic()
    engine = choose_engine(options.engine)
    cluster = Cluster(engine=engine, port=options.port)
    _prepare_images(cluster, options)
    sizes = measure_images(engine)
    # What an interrupted run left.
    cluster.down()
    try:
        _say("starting the cluster")
        started = time.monotonic()
        cluster.up()
        with tempfile.TemporaryDirectory(prefix="sfumato-cluster-") as folder:
            trial = _Trial(cluster, Path(folder), options)
            trial.wait_until_ready()
            seconds_to_start = time.monotonic() - started
            found = trial.run()
    finally:
        if not options.keep:
            _say("removing the cluster")
            cluster.down()
    # Images that were there may be of any other commit.
    describe = ["git", "-C", str(DEPLOY), "describe", "--always", "--dirty"]
    commit = "" if options.no_build else run(describe, check=False).stdout.strip()
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": commit or None,
        "engine": run([engine, "--version"]).stdout.split("\n")[0],
        "base": options.base,
        "images": sizes,
        "seconds_to_start": round(seconds_to_start, 1),
        "seconds": round(time.monotonic() - begun, 1),
        **found,
    }


def _prepare_images(cluster: Cluster, options: argparse.Namespace) -> None:
    is_local = options.base == "debian"
    base = make_base(cluster.engine) if is_local else options.base
    if not options.no_build:
        _say(f"building images on {base}")
        build_images(cluster.engine, base)
    if is_local:
        cluster.images = build_stand_ins(cluster.engine, base)


@dataclass(kw_only=True)
class _Fleet:
    """Devices of one study, their records, and the slots that each of them has."""

    records: Records
    n_slots: int
    devices: list[Device] = field(default_factory=list)

    def deal(self, slot: int) -> Iterable[tuple[Device, Window]]:
        """Give each device its records of a slot."""
        return zip(self.devices, self.records.deal(slot, len(self.devices)), strict=True)


class _Trial:
    """Devices and operators of one cluster."""

    def __init__(self, cluster: Cluster, folder: Path, options: argparse.Namespace) -> None:
        self._cluster, self._folder, self._options = cluster, folder, options
        self._n_slots = options.rounds * (len(_FAULTS) + 2)
        self._rng = np.random.default_rng()
        self._fleets: dict[str, _Fleet] = {}
        self.studies: dict[str, str] = {}
        self._faults: list[dict[str, Any]] = []

    def wait_until_ready(self) -> None:
        """Wait for every health command, and for the operator to have made keys and studies."""
        services = ("database", "helper", "aggregator", "worker", "proxy", "ewr", "jfk", "lga")
        waiting = [each for name in services for each in self._cluster.list_containers(name)]
        end = time.monotonic() + _START_S
        while waiting:
            waiting = [each for each in waiting if not self._cluster.is_healthy(each)]
            if waiting and time.monotonic() > end:
                log = self._cluster.read_log(waiting[0])
                raise ClusterError(f"{', '.join(waiting)}: not healthy in {_START_S:g} s: {log}")
            time.sleep(3.0)
        (operator,) = self._cluster.list_containers("operator")
        authority, key = self._folder / "ca.pem", self._folder / "key"
        self._cluster.copy_out(operator, "/run/sfumato/authority/ca.pem", authority)
        self._cluster.copy_out(operator, "/run/sfumato/operator/key", key)
        self._key = key.read_text().strip()
        # This program and all devices trust the cluster's own authority.
        os.environ |= {"SSL_CERT_FILE": str(authority), "NODE_EXTRA_CA_CERTS": str(authority)}

    def run(self) -> dict[str, Any]:
        """Let devices enrol and upload through all faults; return what was found."""
        with Client(self._cluster.url, key=self._key) as client:
            draft = make_draft(self._n_slots, n_devices=2 * self._options.devices)
            relay = Relay.start(self._make("relay"), self._cluster.url)
            try:
                _say("devices enrol")
                self._enrol(client, "local", make_local_plan(self._n_slots), relay)
                self._enrol(client, "secure sum", self._accept(draft), None)
                begun = time.monotonic()
                self._upload_through_faults()
                self._drain()
                seconds = time.monotonic() - begun
                self._look(client, relay)
            finally:
                relay.stop()
            checks = self._lead_campaign(client) | self._check(client)
        return {
            "faults": self._faults,
            "seconds_of_uploads": round(seconds, 1),
            "devices_killed": self._options.rounds * len(self._fleets["look"].devices),
            "devices": {name: len(each.devices) for name, each in self._fleets.items()},
            "sketches": {
                name: each.n_slots * len(each.devices) for name, each in self._fleets.items()
            },
            "records": {name: each.records.n_records for name, each in self._fleets.items()},
            "batches_opened": self._n_slots,
            "checks": checks,
        }

    def _accept(self, draft: SketchPlan) -> SketchPlan:
        """Let the helper accept a plan in its container."""
        (helper,) = self._cluster.list_containers("helper")
        text = json.dumps(plan_to_json(draft))
        self._cluster.execute(helper, "sh", "-c", "cat > /tmp/draft.json", text=text)
        self._cluster.execute(
            helper, "sfumato", "helper", "accept", "/tmp/draft.json", "--name", _HELPER_NAME,
            "--out", "/tmp/plan.json", "--yes",
        )  # fmt: skip
        return plan_from_json(json.loads(self._cluster.execute(helper, "cat", "/tmp/plan.json")))

    def _enrol(
        self, client: Client, name: str, plan: SketchPlan, relay: Relay | None, n_slots: int = 0
    ) -> None:
        """Create a study, and let devices enrol; sensors in C need a relay."""
        self.studies[name] = client.create_study(f"cluster test, {name}", plan).study_id
        study = Study(
            url=self._cluster.url,
            study_id=self.studies[name],
            token=client.create_token(self.studies[name], max_uses=100),
            helper=plan.helper.fingerprint.hex() if plan.sum_release else "",
        )
        devices: list[Device] = []
        for number in range(self._options.devices):
            devices.append(Agent(folder=self._make(f"{name}-agent-{number}"), study=study))
            devices.append(NodeDevice(folder=self._make(f"{name}-node-{number}"), study=study))
            if relay is not None:
                folder = self._make(f"{name}-sensor-{number}")
                devices.append(Sensor(folder=folder, study=study, relay_port=relay.port))
        records = Records(plan=plan, rng=self._rng)
        self._fleets[name] = _Fleet(
            records=records, n_slots=n_slots or self._n_slots, devices=devices
        )

    def _make(self, name: str) -> Path:
        folder = self._folder / name
        folder.mkdir()
        return folder

    def _upload_through_faults(self) -> None:
        slots = iter(range(self._n_slots))
        for fault in ("", *_FAULTS, ""):
            own = [next(slots) for _ in range(self._options.rounds)]
            _say(f"slots {own[0]} to {own[-1]}: {f'kill {fault}' if fault else 'no fault'}")
            with ThreadPoolExecutor(1) as pool:
                uploads = pool.submit(self._upload_slots, own, *self._fleets.values())
                if fault:
                    self._kill(fault)
                uploads.result()

    def _upload_slots(self, slots: Sequence[int], *fleets: _Fleet) -> None:
        for slot in slots:
            self._upload(slot, *fleets)

    def _upload(self, slot: int, *fleets: _Fleet) -> None:
        """Let every device take its records of a slot, a few at once."""
        self._work(
            partial(device.take, window) for fleet in fleets for device, window in fleet.deal(slot)
        )

    @staticmethod
    def _work(works: Iterable[Callable[[], None]]) -> None:
        with ThreadPoolExecutor(4) as pool:
            for done in [pool.submit(work) for work in works]:
                done.result()

    def _look(self, client: Client, relay: Relay) -> None:
        """Show the centroids of the local study to devices, and kill an aggregator and them."""
        first = decode_local(client, self.studies["local"])
        change = client.plan_look(first, epsilon="1").plan.sensitivity.value
        # As exact as the other studies: noise comes with a chance of at most exp(-100).
        planned = client.plan_look(first, epsilon=str(100 * change), same_records=True)
        rounds = self._options.rounds
        _say("a second look: devices enrol, an aggregator is killed")
        self._enrol(client, "look", planned.plan, relay, n_slots=2 * rounds)
        fleet = self._fleets["look"]
        with ThreadPoolExecutor(1) as pool:
            uploads = pool.submit(self._upload_slots, range(rounds), fleet)
            self._kill("aggregator")
            uploads.result()
        _say("each device is killed")
        for slot in range(rounds, 2 * rounds):
            self._work(
                partial(device.die, window, self._rng.uniform(0.0, _LONGEST_LIFE_S))
                for device, window in fleet.deal(slot)
            )
        self._drain()

    def _lead_campaign(self, client: Client) -> dict[str, bool]:
        _say("a campaign: agents and aggregators are killed in each phase")
        folders = [self._make(f"campaign-{number}") for number in range(3)]
        trial = CampaignTrial.begin(
            client, self._cluster.url, folders, self._rng, partial(self._kill, "aggregator")
        )
        return trial.lead()

    def _kill(self, service: str) -> None:
        time.sleep(_INTO_UPLOADS_S)
        victim = self._cluster.list_containers(service)[0]
        self._cluster.kill(victim)
        killed = time.monotonic()
        time.sleep(self._options.down)
        self._cluster.start(victim)
        started = time.monotonic()
        while not self._cluster.is_healthy(victim):
            if time.monotonic() - started > _START_S:
                raise ClusterError(f"{victim}: does not recover: {self._cluster.read_log(victim)}")
            time.sleep(0.5)
        self._faults.append(
            {
                "service": service,
                "container": victim,
                "seconds_away": round(started - killed, 1),
                "seconds_to_recover": round(time.monotonic() - started, 1),
            }
        )

    def _drain(self) -> None:
        """Let devices send until nothing waits."""
        _say("devices send what waits")
        end = time.monotonic() + _DRAIN_S
        for fleet in self._fleets.values():
            for device in fleet.devices:
                while (sent := device.send()) < fleet.n_slots:
                    if time.monotonic() > end:
                        raise ClusterError(f"{device}: has sent {sent} of {fleet.n_slots} sketches")
                    time.sleep(0.5)

    def _check(self, client: Client) -> dict[str, bool]:
        _say("comparing sums")
        local, summed, look = (
            (self.studies[name], fleet.records, len(fleet.devices))
            for name, fleet in self._fleets.items()
        )
        checks = check_local(client, *local)
        checks |= check_sum(client, *summed)
        checks |= check_look(client, *look, first=local[0])
        (helper,) = self._cluster.list_containers("helper")
        checks |= check_helper(self._cluster, helper, client.batches(summed[0]))
        checks |= check_stations(self._cluster, client)
        aggregator = self._cluster.list_containers("aggregator")[0]
        is_sound = self._cluster.succeeds(aggregator, "sfumato", "check-store")
        return checks | {
            "database: every sum is that of its sketches, and none is missing": is_sound
        }


def _print(outcome: dict[str, Any]) -> None:
    print(
        f"cluster test of {outcome['date']}, images of {outcome['commit'] or 'an earlier build'}, "
        f"{outcome['engine']}"
    )
    for name, size in outcome["images"].items():
        whole, own = size["bytes"] / 1e6, size["bytes_beyond_system"] / 1e6
        print(f"  image {name:9}{whole:6.0f} MB, of which {own:.0f} MB are not the system's")
    print(f"  started in {outcome['seconds_to_start']} s")
    print(f"  uploads through all faults took {outcome['seconds_of_uploads']} s")
    for each in outcome["faults"]:
        print(
            f"  killed {each['container']}: away {each['seconds_away']} s, "
            f"healthy {each['seconds_to_recover']} s after its start"
        )
    print(f"  look devices: killed in {outcome['devices_killed']} runs, where they still ran")
    for study, n_devices in outcome["devices"].items():
        print(
            f"  {study}: {n_devices} devices, {outcome['sketches'][study]} sketches, "
            f"{outcome['records'][study]} records"
        )
    for check, holds in outcome["checks"].items():
        print(f"  {'ok    ' if holds else 'FAILED'} {check}")


if __name__ == "__main__":
    sys.exit(main())
