"""Other studies on the same server, which come and are withdrawn: nothing of them is left."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from sfumato.shared.plan import plan_to_json
from tests.aggregator.fleet import SLOT, Device
from tests.aggregator.machine.harness import Harness, fates, replicas, which
from tests.aggregator.machine.model import GuestModel
from tests.aggregator.machine.replicas import Replica
from tests.aggregator.machine.worlds import Fate, Killed

_MOST_GUESTS = 4


class GuestRules(Harness):
    """Withdrawal: everything is refused at once and for good, and the contents are gone."""

    n_guests = 0

    @precondition(lambda self: self.n_guests < _MOST_GUESTS)
    @rule(number=replicas, has_snapshot=st.booleans())
    def open_a_guest(self, number: int, has_snapshot: bool) -> None:
        """Publish another study, and store one sketch of one device in it."""
        self.n_guests += 1
        self.run(self._open_a_guest(self.replicas[number], has_snapshot))

    async def _open_a_guest(self, replica: Replica, has_snapshot: bool) -> None:
        name, device = f"guest{self.n_guests}", Device(200 + self.n_guests)
        study = await replica.desk.publish(self.plan, name=name)
        await replica.desk.enrol(study, device)
        sketch_id, body = device.message(study, self.plan)
        assert (await replica.desk.put(study, sketch_id, body)).status_code == 201
        if has_snapshot:
            answer = await replica.desk.post(f"/v1/studies/{study.hex()}/snapshots", {})
            assert answer.status_code == 201
        now = self.clock.now()
        self.model.guests.append(GuestModel(study, name, device, sketch_id, body, now))

    @rule(pick=which, number=replicas, fate=fates, is_sure=st.booleans())
    def withdraw(self, pick: int, number: int, fate: Fate, is_sure: bool) -> None:
        """Withdraw a study by its name, or by another, which is refused."""
        if not self.model.guests and self.n_guests < _MOST_GUESTS:
            self.open_a_guest(number, is_sure)
        if self.model.guests:
            guest = self.pick(self.model.guests, pick)
            self.run(self._withdraw(guest, number, fate, is_sure))

    async def _withdraw(self, guest: GuestModel, number: int, fate: Fate, is_sure: bool) -> None:
        replica = self.replicas[number]
        name = guest.name if is_sure else "pumps"
        wanted = 410 if guest.is_withdrawn else 200 if is_sure else 422
        replica.store.fate = fate
        try:
            answer = await replica.desk.withdraw(guest.study, name)
            assert answer.status_code == wanted, answer.text
        except Killed:
            await self.restart(number)
            if fate == "before commit":
                return
        finally:
            replica.store.fate = "none"
        if wanted == 200:
            guest.is_withdrawn, guest.is_waiting = True, False

    @rule(number=replicas, fate=fates)
    def purge(self, number: int, fate: Fate) -> None:
        """Remove what withdrawn studies held; the process may end in its midst."""
        self.run(self._purge(number, fate))

    async def _purge(self, number: int, fate: Fate) -> None:
        replica = self.replicas[number]
        replica.store.fate = fate
        try:
            await replica.services.studies.purge()
            assert await replica.services.studies.purge() == 0
        except Killed:
            await self.restart(number)
            if fate == "before commit":
                return
            # One batch is removed; the next process does the rest.
            await self.replicas[number].services.studies.purge()
        finally:
            replica.store.fate = "none"
        for guest in self.model.guests:
            guest.is_purged = guest.is_withdrawn
            await self._require_held(guest, self.replicas[number])

    @precondition(lambda self: self.model.guests)
    @rule(pick=which, number=replicas)
    def visit(self, pick: int, number: int) -> None:
        """A device, an analyst and an operator of another study find it, or that it is gone."""
        guest = self.pick(self.model.guests, pick)
        self.run(self._visit(guest, self.replicas[number]))

    async def _visit(self, guest: GuestModel, replica: Replica) -> None:
        desk, url = replica.desk, f"/v1/studies/{guest.study.hex()}"
        own = guest.device.sign("GET", "/v1/devices/me", now=self.clock.now())
        replayed = await desk.put(guest.study, guest.sketch_id, guest.body)
        asked = await desk.http.get("/v1/devices/me", headers=own)
        shown = await desk.http.get(url, headers=desk.analyst)
        body = {"name": guest.name, "plan": plan_to_json(self.plan)}
        published = await desk.http.post("/v1/studies", json=body, headers=desk.operator)
        listed = [one["study_id"] for one in (await desk.read("/v1/studies"))["items"]]
        wanted = 410 if guest.is_withdrawn else 200
        for answer in (replayed, asked, shown, published):
            assert answer.status_code == wanted, (guest, answer.text)
        assert (guest.study.hex() in listed) == (not guest.is_withdrawn)
        await self._require_held(guest, replica)
        if guest.is_withdrawn:
            await self._visit_in_vain(guest, replica)
        else:
            assert shown.json()["n_sketches"] == 1
            assert await replica.services.merger.check(guest.study) == []

    async def _require_held(self, guest: GuestModel, replica: Replica) -> None:
        async with replica.store.begin() as transaction:
            held = await transaction.list_sketches(guest.study, after=None, limit=9)
        assert len(held) == (0 if guest.is_purged else 1)

    async def _visit_in_vain(self, guest: GuestModel, replica: Replica) -> None:
        desk, url = replica.desk, f"/v1/studies/{guest.study.hex()}"
        late = guest.device.message(guest.study, self.plan, sequence=1, slots=(SLOT + 1, SLOT + 1))
        refused = [
            await desk.put(guest.study, *late),
            await desk.change(guest.study, "open"),
            await desk.post(f"{url}/snapshots", {}),
            await desk.post(f"{url}/decodes", {"n_clusters": 1}),
            await desk.http.post(f"{url}/tokens", json={}, headers=desk.operator),
            await desk.http.get(f"{url}/plan", headers=desk.analyst),
        ]
        assert [answer.status_code for answer in refused] == [410] * len(refused)
