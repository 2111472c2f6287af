"""The queue of decodes for workers: lease, renew, finish."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from aggregator.records import WORKER_SILENCE_S, DecodeRecord, SnapshotRecord
from aggregator.services.plans import require_study
from aggregator.services.results.answers import build_problem, describe_solution
from aggregator.services.results.decodes import exhausted_problem
from aggregator.services.service import Service
from learning.clustering.registry import create_any_solver
from learning.decoding.solution import Solution
from learning.decoding.solver import Solver
from shared.errors import DecodingError, NotFoundError, SketchError, TransportError
from shared.plan import SketchPlan
from shared.wire import problem_document

MAX_ATTEMPTS = 3
_TOKEN_BYTES = 16


@dataclass(frozen=True, kw_only=True, eq=False)
class Job:
    """A leased decode, with its inputs."""

    decode: DecodeRecord
    token: bytes
    plan: SketchPlan
    snapshot: SnapshotRecord
    problem: Any
    solver: Solver

    def solve(
        self, *, progress: Callable[[float], None], cancelled: Callable[[], bool]
    ) -> Solution:
        """Solve it; the same decode gives the same answer on every machine.

        Raises
        ------
        DecodingError
            No usable centroids were found.
        DecodingCancelledError
            ``cancelled`` returned true.
        """
        solution = self.solver.solve(
            self.problem,
            rng=np.random.default_rng(self.decode.seed),
            progress=progress,
            cancelled=cancelled,
        )
        if not solution.succeeded:
            raise DecodingError(
                "no usable centroids were found: " + "; ".join(solution.warnings),
                field="n_clusters",
                fix="try fewer clusters or more replicates",
            )
        return solution


class JobService(Service):
    """Leases decodes to workers."""

    async def note_worker(self, worker_id: bytes) -> None:
        """Note that a worker is there."""
        now = self._clock.now()
        async with self._store.begin(write=True) as transaction:
            await transaction.note_worker(worker_id, now=now, oldest=now - WORKER_SILENCE_S)

    async def drop_worker(self, worker_id: bytes) -> None:
        """Forget a worker that ends."""
        async with self._store.begin(write=True) as transaction:
            await transaction.drop_worker(worker_id)

    async def count_workers(self) -> int:
        """Count the workers that are there."""
        since = self._clock.now() - WORKER_SILENCE_S
        async with self._store.begin() as transaction:
            return await transaction.count_workers(since=since)

    async def take(self, *, lease_s: float) -> Job | None:
        """Lease the oldest decode that is queued or whose lease has expired.

        After three expired attempts a decode fails.
        """
        now = self._clock.now()
        async with self._store.begin() as transaction:
            # Workers poll often: look first without the lock of a writer.
            if not await transaction.has_leasable_decode(now=now):
                return None
        token = secrets.token_bytes(_TOKEN_BYTES)
        async with self._store.begin(write=True) as transaction:
            await transaction.fail_exhausted(
                now=now, max_attempts=MAX_ATTEMPTS, problem=exhausted_problem()
            )
            decode = await transaction.lease_decode(
                token=token, now=now, expires=now + lease_s, max_attempts=MAX_ATTEMPTS
            )
        if decode is None:
            return None
        try:
            return await self._prepare(decode, token)
        except TransportError:
            raise  # not the fault of the decode
        except SketchError as error:
            # For instance a decoder that this release no longer has.
            await self.fail(decode, token, error)
            return None

    async def _prepare(self, decode: DecodeRecord, token: bytes) -> Job:
        async with self._store.begin() as transaction:
            study = await require_study(transaction, decode.study_id)
            snapshot = await transaction.get_snapshot(decode.snapshot_id)
        if snapshot is None:
            raise NotFoundError("is gone", field="snapshot", fix="make it again")
        plan = await self._plans.get(study)
        solver = create_any_solver(plan.kind, decode.decoder, decode.settings)
        if solver.name != decode.solver:
            raise DecodingError(
                f"must be {decode.solver}, and this worker has {solver.name}",
                field="decoder",
                fix="request the decode again",
            )
        problem = build_problem(plan, snapshot, decode.n_clusters, decode.search_box)
        return Job(
            decode=decode,
            token=token,
            plan=plan,
            snapshot=snapshot,
            problem=problem,
            solver=solver,
        )

    async def renew(self, job: Job, *, lease_s: float, progress: float) -> bool:
        """Renew a lease and store progress; false if it is lost or the decode was cancelled."""
        expires = self._clock.now() + lease_s
        async with self._store.begin(write=True) as transaction:
            return await transaction.renew_lease(
                job.decode.decode_id, job.token, expires=expires, progress=progress
            )

    async def succeed(self, job: Job, solution: Solution) -> bool:
        """Store an answer; false if the lease is lost."""
        now = self._clock.now()
        seconds = max(0.0, now - (job.decode.started or now))
        box = job.decode.search_box
        described = describe_solution(
            job.plan, job.snapshot, solution, search_box=box, seconds=seconds
        )
        result = asdict(described)
        async with self._store.begin(write=True) as transaction:
            return await transaction.finish_decode(
                job.decode.decode_id, job.token, state="succeeded", now=now, result=result
            )

    async def fail(self, decode: DecodeRecord, token: bytes, error: SketchError) -> bool:
        """Store the error of a decode; false if the lease is lost."""
        async with self._store.begin(write=True) as transaction:
            return await transaction.finish_decode(
                decode.decode_id,
                token,
                state="failed",
                now=self._clock.now(),
                problem=problem_document(error),
            )

    async def give_back(self, job: Job) -> bool:
        """Release the lease, so that another worker can take the decode at once."""
        async with self._store.begin(write=True) as transaction:
            return await transaction.release_lease(job.decode.decode_id, job.token)
