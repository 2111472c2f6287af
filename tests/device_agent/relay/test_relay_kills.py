"""A relay is killed before any of its writes, and then run again."""

from collections import defaultdict
from pathlib import Path

from tests.device_agent.killing import victim_in
from tests.device_agent.relay.sensors import Sensor, relay_in
from tests.device_agent.serving import Server
from tests.soak import small_and_soak

_COMMAND = ("relay", "--once", "--json")


@small_and_soak("every", False, True)
def test_a_kill_at_any_write_loses_nothing_and_changes_no_byte(
    tmp_path: Path, server: Server, every: bool
) -> None:
    sensor = Sensor(server)
    with victim_in(tmp_path, command=_COMMAND, has_files=True) as victim:
        kills, n = [0], 0
        while n < len(kills):
            with relay_in(tmp_path / str(n), server.url) as relay:
                signed = {f"{n} {i}": sensor.sign(10 * n + i) for i in range(2)}
                (relay.spool / "in").mkdir(parents=True)
                for name, one in signed.items():
                    (relay.spool / "in" / f"{name}.sketch").write_bytes(one.data)
                if not n:
                    kills += victim.list_kills(relay, every=every)
                is_killed = victim.run(relay, kills[n])
                assert is_killed == (0 < n < len(kills) - 1), kills[n]
                assert not victim.run(relay, 0)
                sent = defaultdict(set)
                for sketch_id, data in server.received:
                    sent[sketch_id].add(data)
                for name, one in signed.items():
                    # Perhaps more than once, and never other bytes.
                    assert sent[one.sketch_id] == {one.data}
                    answer = (relay.spool / "out" / f"{name}.answer").read_text()
                    assert answer.startswith("HTTP/1.1 20"), answer
                    assert one.sketch_id.hex() in answer
                assert list((relay.spool / "in").iterdir()) == []
            n += 1
    assert len(server.stored) == 2 * n
