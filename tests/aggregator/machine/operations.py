"""What operators, analysts and time do to a server."""

from __future__ import annotations

import copy

import httpx
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from sfumato.aggregator.records import Selection
from sfumato.aggregator.storage import Layout
from sfumato.shared.wire.bodies.declaring import maybe_rfc3339
from tests.aggregator.machine.harness import (
    LABELS,
    N_REPLICAS,
    Harness,
    fates,
    replicas,
    to_body,
    which,
)
from tests.aggregator.machine.model import DEVICES, sum_releases
from tests.aggregator.machine.replicas import PAYLOAD_S, Replica
from tests.aggregator.machine.worlds import Fate, Killed

_MOST_BACKUPS = 2


class OperationRules(Harness):
    """Closing, merging, snapshots, exclusion, retention, backups, restarts and keys."""

    backups: list[object]

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

    @rule(number=replicas, is_open=st.booleans())
    def change_unread(self, number: int, is_open: bool) -> None:
        """Change the study without having read it, or having read something else: refused."""
        self.run(self._change_unread(self.replicas[number], is_open))

    async def _change_unread(self, replica: Replica, is_open: bool) -> None:
        desk, body = replica.desk, {"state": "open" if is_open else "closed"}
        before = await self._read_study(replica)
        tag = before.headers["etag"]
        for stale, status in ((None, 428), ('"0.0.0"', 412), (tag.strip('"'), 412), ("W/*", 412)):
            headers = desk.operator | ({} if stale is None else {"If-Match": stale})
            answer = await desk.http.patch(self.url, json=body, headers=headers)
            assert answer.status_code == status, (stale, answer.text)
        assert (await self._read_study(replica)).headers["etag"] == tag

    async def _read_study(self, replica: Replica) -> httpx.Response:
        read = await replica.desk.http.get(self.url, headers=replica.desk.analyst)
        until = maybe_rfc3339(self.model.accept_until)
        state = "open" if self.model.is_open else "closed"
        assert (read.json()["state"], read.json()["accept_until"]) == (state, until)
        return read

    async def _set_state(self, number: int, is_open: bool, until: float | None, fate: Fate) -> None:
        replica = self.replicas[number]
        desk = replica.desk
        body = {"state": "open" if is_open else "closed"}
        if until is not None:
            body["accept_until"] = maybe_rfc3339(until) or ""
        read = await self._read_study(replica)
        headers = desk.operator | {"If-Match": read.headers["etag"]}
        replica.store.fate = fate
        try:
            answer = await desk.http.patch(self.url, json=body, headers=headers)
            assert answer.status_code == 200, answer.text
            if (is_open, until) != (self.model.is_open, self.model.accept_until):
                again = await desk.http.patch(self.url, json=body, headers=headers)
                assert again.status_code == 412, again.text
        except Killed:
            await self.restart(number)
            if fate == "before commit":
                return
        finally:
            replica.store.fate = "none"
        self.model.is_open, self.model.accept_until = is_open, until

    @rule(number=replicas, fate=fates)
    def merge(self, number: int, fate: Fate) -> None:
        """Add what waits to the cells, and take out what leaves; the process may be killed."""
        self.run(self._merge(number, fate))

    async def _merge(self, number: int, fate: Fate) -> None:
        replica = self.replicas[number]
        # Studies are merged one after the other, each in a transaction: the end is before or after
        # all of them where there is but one.
        if self.model.waits_elsewhere:
            fate = "none"
        replica.store.fate = fate
        try:
            n_moved = self.model.n_waiting + len(self.model.leaving)
            assert await replica.services.merger.merge_all() == n_moved
        except Killed:
            await self.restart(number)
            if fate == "before commit":
                return
            if self.model.waiting:
                # What leaves goes in a transaction of its own, which was never begun.
                self.model.note_added()
                return
        finally:
            replica.store.fate = "none"
        self.model.note_merge()

    @rule(number=replicas, most=st.integers(1, 3), fate=fates)
    def take_some_out(self, number: int, most: int, fate: Fate) -> None:
        """Take a few sketches out that leave; the process may be killed, and others go on."""
        self.run(self._take_some_out(number, most, fate))

    async def _take_some_out(self, number: int, most: int, fate: Fate) -> None:
        replica = self.replicas[number]
        n_moved = min(most, len(self.model.leaving - self.model.waiting))
        async with replica.store.begin() as transaction:
            prepared = await transaction.prepare_removal(
                self.study,
                layout=Layout.of(self.plan),
                most=most,
            )
        assert (prepared is None) == (n_moved == 0)
        if prepared is None:
            return
        replica.store.fate = fate
        try:
            async with replica.store.begin(write=True) as transaction:
                assert await transaction.apply_removal(prepared) == n_moved
        except Killed:
            await self.restart(number)
            if fate == "before commit":
                n_moved = 0
        finally:
            replica.store.fate = "none"
        await self._note_removal(n_moved)

    async def _note_removal(self, n_moved: int) -> None:
        """Note which sketches left: the store chooses."""
        async with self.replicas[0].store.begin() as transaction:
            found = await transaction.get_sketches([bytes.fromhex(k) for k in self.model.leaving])
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
        answer = await replica.desk.post(f"{self.url}/snapshots", to_body(selection))
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
        assert shown | {"excluded_devices": []} == known | {"excluded_devices": []}

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
        replica = self.replicas[number]
        url = f"/v1/devices/{DEVICES[device].device_id.hex()}/exclude"
        after = copy.deepcopy(self.model)
        after.exclude(device)
        own = {key for key, release in self.model.stored.items() if release.device == device}
        replica.store.fate = fate
        try:
            answer = await replica.desk.http.post(
                url, json={"reason": "tampered with"}, headers=replica.desk.operator
            )
            assert answer.status_code == 200, answer.text
            counts = (answer.json()["n_subtracted"], answer.json()["n_kept"])
            assert counts == (len(own & after.gone), len(own - after.gone))
        except Killed:
            await self.restart(number)
            if fate == "before commit":
                return
        finally:
            replica.store.fate = "none"
        self.model = after

    @rule(seconds=st.sampled_from([20.0, 90.0, 50_000.0]))
    def let_time_pass(self, seconds: float) -> None:
        """Leases run out, and payloads grow old."""
        self.clock.seconds += seconds

    @rule(number=replicas, days=st.sampled_from([0.0, 0.6, 1.5]), fate=fates)
    def collect_garbage(self, number: int, days: float, fate: Fate) -> None:
        """Drop the payloads that were kept long enough; those that wait for a cell are not."""
        if days:
            self.run(self._merge(number, "none"))
        self.clock.seconds += days * PAYLOAD_S
        self.run(self._collect_garbage(number, fate))

    async def _collect_garbage(self, number: int, fate: Fate) -> None:
        replica = self.replicas[number]
        old = self.model.find_old(self.clock.now() - PAYLOAD_S)
        guests = self.model.find_old_guests(self.clock.now() - PAYLOAD_S)
        replica.store.fate = fate
        try:
            n_dropped = await replica.services.merger.drop_payloads()
            assert n_dropped == len(old) + len(guests)
        except Killed:
            await self.restart(number)
            if fate == "before commit":
                return
        finally:
            replica.store.fate = "none"
        self.model.dropped |= old
        for guest in guests:
            guest.has_payload = False

    @rule(number=replicas)
    def restart_a_replica(self, number: int) -> None:
        """A process ends in order, and another takes its place."""
        self.run(self.restart(number))

    @rule()
    def back_up(self) -> None:
        """Copy the database as it is."""
        held = self.__dict__.setdefault("backups", [])
        if len(held) < _MOST_BACKUPS:
            held.append((self.run(self.world.back_up()), copy.deepcopy(self.model)))

    @precondition(lambda self: self.__dict__.get("backups"))
    @rule(pick=which)
    def restore(self, pick: int) -> None:
        """Put an older copy in place; devices can tell by the generation, and send again."""
        self.run(self._restore(*self.pick(self.__dict__["backups"], pick)))

    async def _restore(self, backup: object, model: object) -> None:
        for replica in self.replicas:
            await replica.stop()
        await self.world.restore(backup)
        self.model = copy.deepcopy(model)  # type: ignore[assignment]
        self.replicas = [self._start() for _ in range(N_REPLICAS)]
        async with self.replicas[0].store.begin(write=True) as transaction:
            before = await transaction.get_generation()
            assert await transaction.renew_generation() != before

    @rule(number=replicas)
    def use_a_revoked_key(self, number: int) -> None:
        """A key is good until it is revoked, on every process."""
        self.run(self._use_a_revoked_key(self.replicas[number], self.replicas[-1 - number]))

    async def _use_a_revoked_key(self, here: Replica, there: Replica) -> None:
        operator = here.desk.operator
        body = {"name": "guest", "scope": "analyst"}
        made = (await here.desk.http.post("/v1/keys", json=body, headers=operator)).json()
        guest = {"Authorization": f"Bearer {made['key']}"}
        assert (await there.desk.http.get(self.url, headers=guest)).status_code == 200
        url = f"/v1/keys/{made['key_id']}"
        assert (await here.desk.http.delete(url, headers=operator)).status_code == 200
        for replica in (here, there):
            assert (await replica.desk.http.get(self.url, headers=guest)).status_code == 401
            refused = await replica.desk.http.post(f"{self.url}/snapshots", json={}, headers=guest)
            assert refused.status_code == 401
