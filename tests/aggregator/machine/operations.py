"""What operators, analysts and time do to a server."""

from __future__ import annotations

import copy

import httpx
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from sfumato.aggregator.base.generation import get_generation, renew_generation
from sfumato.aggregator.base.sums.layout import Layout
from sfumato.aggregator.base.sums.selection import Selection
from sfumato.aggregator.resources.batches.store.exclusion import apply_removal, prepare_removal
from sfumato.aggregator.resources.sketches.record import SketchRecord
from sfumato.shared.wire.objects.declaration import maybe_rfc3339
from tests.aggregator.machine.harness import (
    LABELS,
    N_REPLICAS,
    PAYLOAD_S,
    Harness,
    Replica,
    fates,
    replicas,
    which,
)
from tests.aggregator.machine.model import DEVICES, Model, sum_releases
from tests.aggregator.machine.worlds import Fate

_MOST_BACKUPS = 2
_NEVER_EXCLUDED = {"n_excluded_devices": 0, "excluded_devices": []}


class OperationRules(Harness):
    """Closing, merging, snapshots, exclusion, retention, backups and restarts."""

    def __init__(self) -> None:
        super().__init__()
        self.backups: list[tuple[object, Model]] = []

    @rule(
        number=replicas,
        is_open=st.booleans(),
        late_s=st.sampled_from([None, 50.0, 60_000.0]),
        fate=fates,
    )
    def open_or_close(self, number: int, is_open: bool, late_s: float | None, fate: Fate) -> None:
        """Close the study, for late sketches a while later, or open it again."""
        # Open most of the time, or little would happen.
        is_open = is_open or not self.model.is_open
        until = None if is_open or late_s is None else self.clock.now() + late_s
        self.run(self._set_state(number, is_open, until, fate))

    async def _read_study(self, replica: Replica) -> httpx.Response:
        read = await replica.desk.http.get(self.url, headers=replica.desk.analyst)
        until = maybe_rfc3339(self.model.accept_until)
        state = "open" if self.model.is_open else "closed"
        assert (read.json()["state"], read.json()["accept_until"]) == (state, until)
        return read

    async def _set_state(self, number: int, is_open: bool, until: float | None, fate: Fate) -> None:
        desk = self.replicas[number].desk
        body = {"state": "open" if is_open else "closed"}
        if until is not None:
            body["accept_until"] = maybe_rfc3339(until) or ""
        read = await self._read_study(self.replicas[number])
        headers = desk.operator | {"If-Match": read.headers["etag"]}

        async def change() -> None:
            answer = await desk.http.patch(self.url, json=body, headers=headers)
            assert answer.status_code == 200, answer.text
            if (is_open, until) != (self.model.is_open, self.model.accept_until):
                again = await desk.http.patch(self.url, json=body, headers=headers)
                assert again.status_code == 412, again.text

        if await self.is_done(number, fate, change()):
            self.model.is_open, self.model.accept_until = is_open, until

    @rule(number=replicas, fate=fates)
    def merge(self, number: int, fate: Fate) -> None:
        """Add what waits to the cells, and take out what leaves; the process may be killed."""
        self.run(self._merge(number, fate))

    async def _merge(self, number: int, fate: Fate) -> None:
        async def merge() -> None:
            n_moved = len(self.model.waiting) + len(self.model.leaving)
            assert await self.replicas[number].services.merger.merge_all() == n_moved

        replica, n_waiting = self.replicas[number], len(self.model.waiting)
        if not await self.is_done(number, fate, merge()):
            return
        self.model.waiting.clear()
        # What leaves goes in a transaction of its own, which a killed process never began.
        if replica is self.replicas[number] or not n_waiting:
            self.model.leaving.clear()

    @rule(number=replicas, most=st.integers(1, 3), fate=fates)
    def take_some_out(self, number: int, most: int, fate: Fate) -> None:
        """Take a few sketches out that leave; the process may be killed, and others go on."""
        self.run(self._take_some_out(number, most, fate))

    async def _take_some_out(self, number: int, most: int, fate: Fate) -> None:
        replica = self.replicas[number]
        n_moved = min(most, len(self.model.leaving - self.model.waiting))
        async with replica.store.begin() as transaction:
            prepared = await prepare_removal(
                transaction,
                self.study,
                layout=Layout.of(self.plan),
                most=most,
            )
        assert (prepared is None) == (n_moved == 0)
        if prepared is None:
            return

        async def remove() -> None:
            async with replica.store.begin(write=True) as transaction:
                assert await apply_removal(transaction, prepared) == n_moved

        await self._note_removal(n_moved if await self.is_done(number, fate, remove()) else 0)

    async def _note_removal(self, n_moved: int) -> None:
        """Note which sketches left: the store chooses."""
        async with self.replicas[0].store.begin() as transaction:
            found = await transaction.get_many(
                SketchRecord, [bytes.fromhex(k) for k in self.model.leaving]
            )
        left = {key.hex() for key, record in found.items() if record.state == "excluded"}
        assert len(left) == n_moved
        assert not left & self.model.waiting
        self.model.leaving -= left

    @rule(
        number=replicas,
        first=st.none() | which,
        last=st.none() | which,
        labels=st.sampled_from(LABELS),
    )
    def snapshot(
        self, number: int, first: int | None, last: int | None, labels: dict[str, str]
    ) -> None:
        """Freeze a selection whose ends are those of sketches, and compare it number by number."""
        selection = self.make_selection(first, last, labels)
        self.run(self._snapshot(self.replicas[number], selection))

    async def _snapshot(self, replica: Replica, selection: Selection) -> None:
        slots = {"first_slot": selection.first_slot, "last_slot": selection.last_slot}
        body = {**slots, "labels": dict(selection.labels)}
        answer = await replica.desk.post(f"{self.url}/snapshots", body)
        counted = self.model.select(selection)
        if not counted:
            assert answer.status_code == 422, answer.text
            return
        assert answer.status_code in (200, 201), answer.text
        shown = await replica.desk.read(answer.headers["location"])
        wanted = sum_releases(counted, self.plan.n_coordinates)
        assert (shown["sums"], shown["size_sums"]) == (wanted["sums"], wanted["size_sums"])
        assert shown["n_sketches"] == len(counted)
        assert shown["n_devices"] == wanted["n_devices"]
        assert shown["moments"]["third"] == wanted["moments"].rows[3]
        known = self.model.snapshots.setdefault(shown["snapshot_id"], shown)
        assert (answer.status_code == 201) == (known is shown)
        self._require_same(shown, known)

    @staticmethod
    def _require_same(shown: dict[str, object], known: dict[str, object]) -> None:
        """Check that a snapshot is what it was, but for the devices that were excluded since."""
        assert shown | _NEVER_EXCLUDED == known | _NEVER_EXCLUDED

    @precondition(lambda self: self.model.snapshots)
    @rule(pick=which, number=replicas)
    def read_a_snapshot(self, pick: int, number: int) -> None:
        """Whatever happened since, a snapshot is the same."""
        key = self.pick(sorted(self.model.snapshots), pick)
        shown = self.run(self.replicas[number].desk.read(f"/v1/snapshots/{key}"))
        self._require_same(shown, self.model.snapshots[key])

    @precondition(lambda self: self.model.stored and len(self.model.excluded) < 2)
    @rule(pick=which, is_merged=st.booleans(), grows_old=st.booleans(), number=replicas, fate=fates)
    def exclude(self, pick: int, is_merged: bool, grows_old: bool, number: int, fate: Fate) -> None:
        """Exclude a device: its sketches leave the sums, those without payload stay.

        They leave the cells later, and may be old by then: what is to be subtracted is kept.
        """
        if is_merged:
            self.run(self._merge(number, "none"))
        own = [release.device for release in self.stored()]
        self.run(self._exclude(self.pick(own + sorted(self.model.enrolled), pick), number, fate))
        if grows_old:
            self.sums_are_exact()
            self.clock.seconds += 1.5 * PAYLOAD_S
            self.run(self._collect_garbage(number, fate))

    async def _exclude(self, device: int, number: int, fate: Fate) -> None:
        desk = self.replicas[number].desk
        url = f"/v1/devices/{DEVICES[device].device_id.hex()}/exclude"
        after = copy.deepcopy(self.model)
        after.exclude(device)
        own = {key for key, release in self.model.stored.items() if release.device == device}

        async def exclude() -> None:
            reason = {"reason": "tampered with"}
            answer = await desk.http.post(url, json=reason, headers=desk.operator)
            assert answer.status_code == 200, answer.text
            counts = (answer.json()["n_subtracted"], answer.json()["n_kept"])
            assert counts == (len(own & after.gone), len(own - after.gone))

        if await self.is_done(number, fate, exclude()):
            self.model = after

    @rule(seconds=st.sampled_from([20.0, 90.0, 50_000.0]))
    def let_time_pass(self, seconds: float) -> None:
        """Payloads grow old, and late sketches come too late."""
        self.clock.seconds += seconds

    @rule(number=replicas, days=st.sampled_from([0.0, 0.6, 1.5]), fate=fates)
    def collect_garbage(self, number: int, days: float, fate: Fate) -> None:
        """Drop the payloads that were kept long enough; those that wait for a cell are not."""
        if days:
            self.run(self._merge(number, "none"))
        self.clock.seconds += days * PAYLOAD_S
        self.run(self._collect_garbage(number, fate))

    async def _collect_garbage(self, number: int, fate: Fate) -> None:
        old = self.model.find_old(self.clock.now() - PAYLOAD_S)

        async def drop() -> None:
            assert await self.replicas[number].services.merger.drop_payloads() == len(old)

        if await self.is_done(number, fate, drop()):
            self.model.dropped |= old

    @rule(number=replicas)
    def restart_a_replica(self, number: int) -> None:
        """A process ends in order, and another takes its place."""
        self.run(self.restart(number))

    @rule()
    def back_up(self) -> None:
        """Copy the database as it is."""
        if len(self.backups) < _MOST_BACKUPS:
            self.backups.append((self.run(self.world.back_up()), copy.deepcopy(self.model)))

    @precondition(lambda self: self.backups)
    @rule(pick=which)
    def restore(self, pick: int) -> None:
        """Put an older copy in place; devices can tell by the generation, and send again."""
        self.run(self._restore(*self.pick(self.backups, pick)))

    async def _restore(self, backup: object, model: Model) -> None:
        for replica in self.replicas:
            await replica.stop()
        await self.world.restore(backup)
        self.model = copy.deepcopy(model)
        self.replicas = [self.start() for _ in range(N_REPLICAS)]
        async with self.replicas[0].store.begin(write=True) as transaction:
            before = await get_generation(transaction)
            assert await renew_generation(transaction) != before
