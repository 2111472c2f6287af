"""What workers do, alive, slow and dead."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from sfumato.aggregator.records import Selection
from sfumato.aggregator.services.results.jobs import Job
from sfumato.shared.errors import DecodingError
from tests.aggregator.machine.harness import LABELS, Harness, fates, replicas, to_body, which
from tests.aggregator.machine.model import DecodeModel, sum_releases
from tests.aggregator.machine.replicas import Replica
from tests.aggregator.machine.worlds import Fate, Killed

LEASE_S = 60.0


class DecodeRules(Harness):
    """Asking, taking, answering once, and answering too late."""

    def __init__(self) -> None:
        super().__init__()
        self.workers: list[Job] = []
        """Workers with a lease, and workers that lost theirs without noticing."""

    @precondition(lambda self: self.model.select(Selection()))
    @rule(pick=st.none() | which, seed=st.integers(0, 1), number=replicas)
    def ask(self, pick: int | None, seed: int, number: int) -> None:
        """Ask for a decode of a snapshot or of everything, or for the same once more."""
        known = sorted(self.model.snapshots)
        self.run(self._ask(self.pick(known, pick) if known and pick else None, seed, number))

    @rule(
        first=st.none() | which,
        last=st.none() | which,
        labels=st.sampled_from(LABELS),
        number=replicas,
    )
    def ask_of_a_selection(
        self, first: int | None, last: int | None, labels: dict[str, str], number: int
    ) -> None:
        """Ask for a decode of what is selected now, which is frozen first."""
        selection = self.make_selection(first, last, labels)
        if self.model.select(selection):
            self.run(self._ask(None, 0, number, selection))
        else:
            self.run(self._ask_of_nothing(self.replicas[number], selection))

    async def _ask_of_nothing(self, replica: Replica, selection: Selection) -> None:
        body = {"selection": to_body(selection), "n_clusters": 1}
        answer = await replica.desk.post(f"{self.url}/decodes", body)
        assert answer.status_code == 422, answer.text

    async def _ask(
        self, snapshot: str | None, seed: int, number: int, selection: Selection | None = None
    ) -> None:
        self.clock.seconds += 1.0  # so that the order of decodes is known
        body = {
            "snapshot_id": snapshot,
            "selection": None if selection is None else to_body(selection),
            "n_clusters": 1,
            "decoder": "cl-ompr",
            "settings": {"n_replicates": 1},
            "seed": seed,
        }
        answer = await self.replicas[number].desk.post(f"{self.url}/decodes", body)
        assert answer.status_code in (200, 202), answer.text
        key = answer.json()["decode_id"]
        known = self.model.decodes.get(key)
        is_queued = known is None or known.state in ("failed", "cancelled")
        assert answer.status_code == (202 if is_queued else 200)
        if known is None:
            self.model.decodes[key] = DecodeModel(created=self.clock.now())
        elif is_queued:
            self.model.decodes[key] = DecodeModel(created=known.created)
        if snapshot is None:
            frozen = await self.replicas[number].desk.read(
                f"/v1/snapshots/{answer.json()['snapshot_id']}"
            )
            self.model.snapshots.setdefault(frozen["snapshot_id"], frozen)
            counted = self.model.select(selection or Selection())
            wanted = sum_releases(counted, self.plan.n_coordinates)
            assert (frozen["sums"], frozen["size_sums"]) == (wanted["sums"], wanted["size_sums"])

    @rule(number=replicas, fate=fates)
    def take(self, number: int, fate: Fate) -> None:
        """A worker leases a decode; killed after that, it holds the lease until it expires."""
        self.run(self._take(number, fate))

    async def _take(self, number: int, fate: Fate) -> None:
        replica, now = self.replicas[number], self.clock.now()
        replica.store.fate = fate
        try:
            job = await replica.services.jobs.take(lease_s=LEASE_S)
        except Killed:
            await self.restart(number)
            if fate == "after commit":
                self.model.take_decode(b"dead", now, now + LEASE_S)
            return
        finally:
            replica.store.fate = "none"
        holder = b"" if job is None else job.token
        taken = self.model.take_decode(holder, now, now + LEASE_S)
        assert taken == (None if job is None else job.record.job_id.hex())
        if job is not None:
            self.workers.append(job)

    @precondition(lambda self: self.model.find_next_decode(self.clock.now()))
    @rule(number=replicas, fate=fates)
    def work(self, number: int, fate: Fate) -> None:
        """A worker sees a decode through, or is killed as it stores the answer."""
        self.run(self._take(number, "none"))
        self.run(self._answer(self.workers.pop(), number, fate))

    @precondition(lambda self: self.workers)
    @rule(pick=which, number=replicas)
    def show_life(self, pick: int, number: int) -> None:
        """A worker renews its lease, if it has one still."""
        job = self.pick(self.workers, pick)
        decode = self._held(job)
        work = self.replicas[number].services.jobs.renew(job, lease_s=LEASE_S, progress=0.5)
        assert self.run(work) == (decode is not None)
        if decode is not None:
            decode.expires = self.clock.now() + LEASE_S

    @precondition(lambda self: self.workers)
    @rule(pick=which)
    def kill_a_worker(self, pick: int) -> None:
        """Nobody hears of it again."""
        self.workers.remove(self.pick(self.workers, pick))

    @precondition(lambda self: self.workers)
    @rule(pick=which)
    def stop_a_worker(self, pick: int) -> None:
        """It gives its decode back, and the attempt does not count."""
        job = self.pick(self.workers, pick)
        self.workers.remove(job)
        decode = self._held(job)
        assert self.run(self.replicas[0].services.jobs.give_back(job)) == (decode is not None)
        if decode is not None:
            decode.state, decode.holder = "queued", None
            decode.attempts -= 1

    @precondition(lambda self: self.workers)
    @rule(pick=which, number=replicas, fate=fates)
    def answer(self, pick: int, number: int, fate: Fate) -> None:
        """A worker is done; it may have lost its lease long ago, or be killed as it stores."""
        job = self.pick(self.workers, pick)
        self.workers.remove(job)
        self.run(self._answer(job, number, fate))

    async def _answer(self, job: Job, number: int, fate: Fate) -> None:
        replica, decode = self.replicas[number], self._held(job)
        jobs, state = replica.services.jobs, "succeeded"
        replica.store.fate = fate
        try:
            try:
                work = await jobs.prepare(job)
                solution = work.solve(progress=lambda _: None, cancelled=lambda: False)
            except DecodingError as error:
                state = "failed"
                stored = await jobs.fail(job, error)
            else:
                stored = await jobs.succeed(job, work, solution)
            assert stored == (decode is not None)
        except Killed:
            await self.restart(number)
            if fate == "before commit":
                return
        finally:
            replica.store.fate = "none"
        if decode is not None:
            decode.state, decode.holder = state, None

    def _held(self, job: Job) -> DecodeModel | None:
        """Return the decode whose lease a worker holds."""
        decode = self.model.decodes.get(job.record.job_id.hex())
        if decode is None or decode.state != "running" or decode.holder != job.token:
            return None
        return decode

    @precondition(lambda self: self.model.decodes)
    @rule(pick=which, number=replicas)
    def cancel(self, pick: int, number: int) -> None:
        """Cancel a decode; one that has ended stays."""
        key = self.pick(sorted(self.model.decodes), pick)
        decode = self.model.decodes[key]
        if decode.state in ("queued", "running"):
            decode.state, decode.holder = "cancelled", None
        desk = self.replicas[number].desk
        answer = self.run(desk.http.delete(f"/v1/decodes/{key}", headers=desk.analyst))
        assert answer.json()["state"] == decode.state

    @precondition(lambda self: self.model.decodes)
    @rule(number=replicas)
    def read_all(self, number: int) -> None:
        """Every decode is in the state that it should be in, and a result never changes."""
        self.run(self._read_all(number))

    async def _read_all(self, number: int) -> None:
        for key, decode in self.model.decodes.items():
            shown = await self.replicas[number].desk.read(f"/v1/decodes/{key}")
            assert shown["state"] == decode.state
            assert (shown["result"] is not None) == (decode.state == "succeeded")
            if decode.state == "succeeded":
                decode.result = decode.result or shown["result"]
                assert shown["result"] == decode.result
