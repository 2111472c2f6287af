"""The loop of a worker: lease a job, solve it in a thread, renew the lease meanwhile."""

from __future__ import annotations

import asyncio
import math
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import structlog

from sfumato.aggregator.base.clock import wait_for_stop
from sfumato.aggregator.logs import describe_cause
from sfumato.aggregator.resources.jobs.record import WORKER_SILENCE_S
from sfumato.aggregator.resources.jobs.service.jobs import Job, JobService, Work
from sfumato.shared.errors import DecodingCancelledError, SketchError, TransportError

T = TypeVar("T")

_LONGEST_HEARTBEAT_S = 1.0

log = structlog.get_logger("aggregator.worker")


class Worker:
    """Solves jobs, one at a time.

    Parameters
    ----------
    jobs
        The queue.
    lease_s
        Seconds after which another worker may take the job of a silent one.
    poll_s
        Seconds between polls of the queue.
    """

    def __init__(self, jobs: JobService, *, lease_s: float, poll_s: float) -> None:
        self._jobs = jobs
        self._lease_s = lease_s
        self._poll_s = poll_s
        # Two may fail before the lease ends; progress is shown, and a cancel seen, within a second.
        self._heartbeat_s = min(lease_s / 3.0, _LONGEST_HEARTBEAT_S)
        self._id = secrets.token_bytes(16)
        self._shown_at = -math.inf

    async def run(self, stop: asyncio.Event) -> None:
        """Work until ``stop``; retry if the database does not answer."""
        while not stop.is_set():
            try:
                await self._show_presence()
                worked = await self.run_once(stop)
            except TransportError as error:
                log.warning("database away", reason=describe_cause(error))
                worked = False
            if not worked:
                await wait_for_stop(stop, self._poll_s)
        with suppress(TransportError):
            await self._jobs.drop_worker(self._id)

    async def _show_presence(self) -> None:
        """Let clients know that somebody works, now and then."""
        now = time.monotonic()
        if now - self._shown_at >= WORKER_SILENCE_S / 3.0:
            await self._jobs.note_worker(self._id)
            self._shown_at = now

    async def run_once(self, stop: asyncio.Event) -> bool:
        """Lease one job and solve it; false if none is queued."""
        job = await self._jobs.take(lease_s=self._lease_s)
        if job is None:
            return False
        named = _name(job)
        log.info("job taken", **named, attempt=job.record.attempts)
        await self._work(job, stop)
        log.info("job left", **named)
        return True

    async def _work(self, job: Job, stop: asyncio.Event) -> None:
        reached = 0.0
        cancelled = threading.Event()

        def note_progress(fraction: float) -> None:
            nonlocal reached
            reached = fraction

        async def solve() -> tuple[Work, Any]:
            work = await self._jobs.prepare(job)
            answer = await run_in_thread(
                lambda: work.solve(progress=note_progress, cancelled=cancelled.is_set)
            )
            return work, await self._complete(job, work, answer)

        solving = asyncio.create_task(solve())
        stopping = asyncio.ensure_future(stop.wait())
        try:
            while not solving.done() and not stop.is_set():
                ends: set[asyncio.Future[Any]] = {solving, stopping}
                await asyncio.wait(
                    ends, timeout=self._heartbeat_s, return_when=asyncio.FIRST_COMPLETED
                )
                if not solving.done() and not await self._is_still_ours(job, reached):
                    cancelled.set()
        finally:
            stopping.cancel()
            cancelled.set()
        if solving.done():
            await self._finish(job, solving)
        else:
            solving.cancel()
            await self._jobs.give_back(job)

    async def _complete(self, job: Job, work: Work, answer: Any) -> Any:
        try:
            return await self._jobs.complete(work, answer)
        except TransportError:
            raise
        except Exception as error:
            # What is missing then is less than the answer.
            log.error("answer left incomplete", **_name(job), exc_info=error)
            return answer

    async def _is_still_ours(self, job: Job, progress: float) -> bool:
        try:
            await self._show_presence()
            return await self._jobs.renew(job, lease_s=self._lease_s, progress=progress)
        except TransportError:
            # The database may answer before the lease ends; if not, no answer is stored.
            return True

    async def _finish(self, job: Job, solving: asyncio.Task[tuple[Work, Any]]) -> None:
        try:
            stored = await self._jobs.succeed(job, *solving.result())
        except DecodingCancelledError:
            return  # cancelled or leased by another worker: the row says so already
        except TransportError:
            raise
        except SketchError as error:
            stored = await self._jobs.fail(job, error)
        except Exception as error:
            log.error("job failed", **_name(job), exc_info=error)
            failure = SketchError("the computation failed", fix="see the worker's log")
            stored = await self._jobs.fail(job, failure)
        if not stored:
            log.warning("lease lost", **_name(job))


def _name(job: Job) -> dict[str, str]:
    """Return the identity of a job under its name, for the log."""
    return {job.record.identity.removesuffix("_id"): job.record.job_id.hex()}


def run_in_thread(call: Callable[[], T]) -> asyncio.Future[T]:
    """Run a call in a daemon thread, so that the process can end before it does."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]

    def target() -> None:
        result: T | None = None
        caught: BaseException | None = None
        try:
            result = call()
        except BaseException as error:
            caught = error
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, result, caught)

    threading.Thread(target=target, daemon=True, name="solver").start()
    return future
