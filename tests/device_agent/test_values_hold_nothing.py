"""What leaves a device, and when, is the same whatever one record's values are."""

import shutil
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from sfumato.shared.plan import WindowRule
from tests.device_agent.conftest import BASE, HOUR, make_plan
from tests.device_agent.driver import Driver, put_back
from tests.device_agent.serving import Server, running

NOW = BASE + 12 * HOUR + 7.0
RULE = WindowRule(kind="time", origin=BASE, length_s=HOUR)
PLANS: dict[str, dict[str, Any]] = {
    "replace-one": {"least_records": 3, "most_records": 8},
    "add-remove-one": {"neighbouring": "add-remove-one", "least_records": None},
    "unit device": {"unit": "device"},
}
N = 18

garbage = st.one_of(
    st.sampled_from([b"", b"nan", b"-inf", b"1e999", b"1e308", b"-9999", b'"', b'"1', b"\xff"]),
    st.sampled_from([b"time,x,y", b"\0", b"9" * 70_000, b",,,,", b"1_0", b"0x1", b"\r"]),
    st.floats().map(lambda number: repr(number).encode()),
    st.binary(max_size=20),
).map(lambda data: data.replace(b"\n", b""))


class World:
    """One device, put back to where it had joined before each pair of runs."""

    def __init__(self, folder: Path, server: Server) -> None:
        self.server = server
        self.driver = Driver(folder, server, clock=lambda: NOW)
        self.driver.enrol()
        # The stream begins before: what it begins with is not part of this.
        self.driver.records.write_bytes(b"time,x,y\n" + row(0, b"1,1"))
        self.driver.once()
        self._template = folder / "template"
        shutil.copytree(self.driver.state, self._template)
        self._stored = dict(server.stored)
        self.is_secret = server.plan.releases_count

    def observe(self, odd: bytes | None, *, all_rows: bytes = b"1.5,-2") -> dict[str, Any]:
        """Run twice; return all that others see of it, and what the agent says unasked."""
        put_back(self._template, self.driver.state)
        self.server.stored.clear()
        self.server.stored |= self._stored
        self.server.requests.clear()
        self.server.received.clear()
        rows = [row(i // 3, all_rows) for i in range(N)]
        if odd is not None:
            rows[N // 2] = odd
        self.driver.records.write_bytes(b"time,x,y\n" + row(0, b"1,1") + b"".join(rows))
        reports = [self.driver.once().to_json(value_counts=False) for _ in range(2)]
        headers = sorted(
            (h.stream, h.sequence, h.slots, h.n_records, h.block, h.payload_length)
            for h in (message.header for message in self.server.stored.values())
        )
        lengths = [len(body) for _, body in self.server.received]
        # The identities of sketches are digests of what they are, so the same here.
        return {
            "requests": list(self.server.requests),
            "headers": headers,
            "lengths": lengths,
            "reports": reports,
        }


def row(slot: int, rest: bytes) -> bytes:
    return b"%d,%s\n" % (BASE + slot * HOUR, rest)


@pytest.fixture(params=PLANS)
def world(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[World]:
    monkeypatch.setattr("time.time", lambda: NOW)
    plan = make_plan(window=RULE, epsilon=Fraction(1), **PLANS[request.param])
    with running(plan) as server:
        yield World(tmp_path, server)


def test_no_value_of_a_record_holds_delays_or_stops_anything(world: World) -> None:
    usual = world.observe(None)
    assert len(usual["headers"]) > 3
    slot = N // 2 // 3

    @settings(
        max_examples=5, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
    )
    @given(rest=garbage)
    def examine(rest: bytes) -> None:
        assert world.observe(row(slot, rest)) == usual
        if world.is_secret:
            # There the time too is nobody's business, and whether there is a record at all.
            assert world.observe(rest + b"\n") == usual
            assert world.observe(b"") == usual

    examine()


def test_not_even_the_values_of_all_records_together_do(world: World) -> None:
    usual = world.observe(None)
    for rest in (b"999,-999", b"oops,none", b"1e308,nan"):
        assert world.observe(None, all_rows=rest) == usual
