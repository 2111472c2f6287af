"""Messages of one value each, from their source to released sketches."""

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from sfumato.shared.core import SketchAccumulator
from sfumato.shared.errors import ConfigError
from sfumato.shared.plan import WindowRule
from sfumato.shared.wire import PayloadForm
from tests.device_agent.conftest import BASE, HOUR, Agent, make_plan
from tests.device_agent.driver import Driver, keep, put_back
from tests.device_agent.serving import Server, running

EVERY = 600
JOIN = f"""
[streams.source.join]
key = "topic"
every_s = {EVERY}
grace_s = 30
since = "2020-01-01T00:00:00+00:00"
groups = ["kitchen", "hall"]
[streams.columns]
x = "{{group}}/temperature"
y = {{ field = "{{group}}/humidity", scale = 0.1 }}
"""
WINDOW = WindowRule(kind="time", origin=BASE, length_s=HOUR)
PER_WINDOW = 2 * HOUR // EVERY


def write(path: Path, slot: int, *, is_silent: bool = False) -> list[tuple[float, float]]:
    """Append the messages of a window, and return the records that they make."""
    records, lines = [], []
    for i in range(PER_WINDOW):
        interval, room = divmod(i, 2)
        start, name = BASE + slot * HOUR + interval * EVERY, ("kitchen", "hall")[room]
        x, y = i % 7 - 3.0, i % 5 * 10.0
        if is_silent or i % PER_WINDOW == 11:
            records.append((np.nan, np.nan))
            continue
        records.append((x, y / 10.0))
        # One before is overtaken by the last, and one of another topic is of no record.
        lines += [f"{start + 1},{name}/temperature,9", f"{start + 2},{name}/light,1"]
        lines += [f"{start + 5},{name}/temperature,{x}", f"{start + 7},{name}/humidity,{y}"]
    with path.open("a") as file:
        file.write("".join(f"{line}\n" for line in lines))
    return records


def make_driver(folder: Path, server: Server, clock: Callable[[], float]) -> Driver:
    driver = Driver(folder, server, clock=clock, per_record=str(10**9), source=_JOIN)
    driver.records.write_text("time,topic,value\n")
    driver.enrol()
    return driver


_JOIN = JOIN.replace("2020-01-01T00:00:00+00:00", np.datetime64(BASE, "s").item().isoformat() + "Z")


def test_each_window_has_a_record_for_each_cell_and_its_sum_is_exact(tmp_path: Path) -> None:
    now = float(BASE)
    plan = make_plan(
        window=WINDOW, epsilon=Fraction(10**9), mechanism="discrete-laplace", most_records=1000
    )
    with running(plan) as server:
        driver = make_driver(tmp_path, server, lambda: now)
        path = driver.records
        expected = [write(path, 0), write(path, 1, is_silent=True), write(path, 2)]
        # In the middle of the third window; then a minute before its last cell closes, and after.
        now = BASE + 2.5 * HOUR
        driver.once(send=False)
        keep(driver.state, tmp_path / "kept")
        now = BASE + 3.0 * HOUR + 1.0
        driver.once(send=False)
        put_back(tmp_path / "kept", driver.state)
        now = BASE + 4.0 * HOUR
        driver.once()
        released = sorted(server.stored.values(), key=lambda each: each.header.sequence)
    assert [each.header.n_records for each in released] == [PER_WINDOW] * len(released)
    assert len(released) >= 3
    for message, records in zip(released, expected, strict=False):
        exact = SketchAccumulator(plan.statistic_of(message.header.device + b"/meter"))
        exact.add(np.array(records))
        (sums,) = PayloadForm.of(plan).decode(message.payload)
        assert np.abs(sums - exact.sums).max() <= 50


def test_messages_are_not_joined_where_presence_is_hidden(tmp_path: Path) -> None:
    plan = make_plan(window=WINDOW, neighbouring="add-remove-one", least_records=0)
    with running(plan) as server, pytest.raises(ConfigError, match="a second message of a cell"):
        make_driver(tmp_path, server, lambda: float(BASE)).once()


def test_check_shows_records_and_what_a_message_may_change(
    make_agent: Callable[[Server], Agent],
) -> None:
    with running(make_plan(window=WINDOW)) as server:
        agent = make_agent(server)
        agent.records.write_text("time,topic,value\n")
        write(agent.records, 0)
        ends = np.datetime64(BASE + HOUR, "s").item().isoformat()
        agent.write_config(source=_JOIN.replace("groups", f'until = "{ends}Z"\ngroups'))
        agent.init()
        agent.run("check")
    words = " ".join((agent.out + agent.err).split())
    assert "one with another time or key changes two, at twice epsilon" in words
    assert "messages that come more than 30 s after their interval" in words
