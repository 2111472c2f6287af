"""One process that stands for thousands of devices with one record each.

Every device has a key of its own, enrols with a proof that it holds it, and sends one signed
message, over HTTP, as real agents do: the message is made by the agent's own code. Only the state
folder of an agent is missing, and the waiting in between.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray

from deploy.demo.cluster import DemoError
from sfumato.device_agent.agent.reading.release import make_message
from sfumato.shared.core import SketchAccumulator
from sfumato.shared.http_client import open_async_client
from sfumato.shared.plan import SketchPlan, compute_plan_digest, decode_plan, encode_plan
from sfumato.shared.system import SystemSource
from sfumato.shared.wire import SKETCH_MEDIA_TYPE, device_id_of, encode_proof_input
from sfumato.shared.wire.objects.devices import EnrolmentRequest

_CONNECTIONS = 12
"""Requests under way at once: fewer than a server serves at once by default."""
_REPORT_EVERY = 100
_TRIES = 20
_STREAM = "main"


@dataclass(frozen=True, kw_only=True)
class FleetReport:
    """What a fleet has sent.

    Parameters
    ----------
    n_devices
        Devices that enrolled and sent.
    message_bytes
        Bytes of all messages.
    sums
        The exact sum over all devices, which no server sees; for comparison alone.
    """

    n_devices: int
    message_bytes: int
    sums: list[int]


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """Devices with a record each.

    Parameters
    ----------
    url, study, token
        The server, the study's identity in hexadecimal, and an enrolment token for all devices.
    plan
        The study's plan.
    records
        Shape ``(n, d)``: one for each device.
    slot
        The slot of all records.
    """

    url: str
    study: str
    token: str
    plan: SketchPlan
    records: NDArray[np.float64]
    slot: int

    async def run(self, on_progress: Callable[[int], None]) -> FleetReport:
        """Let every device enrol and send its report."""
        sums = np.zeros(self.plan.n_coordinates, dtype=np.int64)
        digest, n_bytes, n_done = compute_plan_digest(self.plan), 0, 0
        places = iter(range(len(self.records)))

        async def work() -> None:
            nonlocal n_bytes, n_done, sums
            for place in places:
                exact, size = await self._run_device(http, digest, self.records[place])
                sums += exact
                n_bytes, n_done = n_bytes + size, n_done + 1
                if n_done % _REPORT_EVERY == 0:
                    on_progress(n_done)

        async with open_async_client(self.url, timeout=120.0) as http:
            await asyncio.gather(*(work() for _ in range(_CONNECTIONS)))
        return FleetReport(n_devices=n_done, message_bytes=n_bytes, sums=sums.tolist())

    async def _run_device(
        self, http: httpx.AsyncClient, digest: bytes, record: NDArray[np.float64]
    ) -> tuple[NDArray[np.int64], int]:
        key = Ed25519PrivateKey.generate()
        public_key = key.public_key().public_bytes_raw()
        study, device = bytes.fromhex(self.study), device_id_of(public_key)
        proof = encode_proof_input(token=self.token, study=study, public_key=public_key, labels={})
        body = EnrolmentRequest(
            token=self.token,
            study_id=self.study,
            public_key=public_key.hex(),
            labels={},
            proof=key.sign(proof).hex(),
        )
        await _send(http, "POST", "/v1/enrolments", json=asdict(body))
        accumulator = SketchAccumulator(self.plan.statistic_of(device))
        accumulator.add(record[None, :])
        exact = self.plan.finish_sum(accumulator.sums, accumulator.n_records)
        header, message = make_message(
            self.plan,
            accumulator,
            study=study,
            plan_digest=digest,
            device=device,
            stream=_STREAM,
            sequence=0,
            slots=(self.slot, self.slot),
            block=0,
            sign=key.sign,
            source=SystemSource(),
        )
        path = f"/v1/studies/{self.study}/sketches/{header.sketch_id.hex()}"
        headers = {"Content-Type": SKETCH_MEDIA_TYPE}
        await _send(http, "PUT", path, content=message, headers=headers)
        return exact, len(message)


async def _send(http: httpx.AsyncClient, method: str, path: str, **options: Any) -> None:
    for number in range(_TRIES):
        answer = await http.request(method, path, **options)
        if answer.is_success:
            return
        if answer.status_code not in (429, 503):
            break
        await asyncio.sleep(min(5.0, 0.1 * 2**number))
    raise DemoError(f"{method} {path} was answered with {answer.status_code}: {answer.text[:500]}")


def run_fleet_process(
    fleet: Fleet, folder: Path, *, on_progress: Callable[[int], None]
) -> FleetReport:
    """Run a fleet in a process of its own.

    Parameters
    ----------
    folder
        Where what it needs is written.

    Raises
    ------
    DemoError
        A server refused a device.
    """
    records, job = folder / "fleet.npy", folder / "fleet.json"
    np.save(records, fleet.records)
    document = {
        "url": fleet.url,
        "study": fleet.study,
        "token": fleet.token,
        "plan": encode_plan(fleet.plan).hex(),
        "records": str(records),
        "slot": fleet.slot,
    }
    job.write_text(json.dumps(document))
    # It needs one core; the servers need the others.
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    process = subprocess.Popen(
        [sys.executable, "-m", "deploy.demo.fleet", str(job)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).resolve().parents[2],
        env={**os.environ, **threads},
    )
    report = None
    with process:
        assert process.stdout is not None
        assert process.stderr is not None
        for line in process.stdout:
            said = json.loads(line)
            if "done" in said:
                on_progress(said["done"])
            else:
                report = FleetReport(**said)
        complaints = process.stderr.read()
    if process.returncode or report is None:
        raise DemoError(f"the fleet ended with {process.returncode}: {complaints[-2000:]}")
    return report


def main() -> None:
    """Run the fleet of a job file, and print its progress and report as lines of JSON."""
    job = json.loads(Path(sys.argv[1]).read_text())
    fleet = Fleet(
        url=job["url"],
        study=job["study"],
        token=job["token"],
        plan=decode_plan(bytes.fromhex(job["plan"])),
        records=np.load(job["records"]),
        slot=job["slot"],
    )
    report = asyncio.run(fleet.run(lambda done: print(json.dumps({"done": done}), flush=True)))
    print(json.dumps(asdict(report)), flush=True)


if __name__ == "__main__":
    main()
