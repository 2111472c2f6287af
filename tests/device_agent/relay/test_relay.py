"""A relay as the process that an owner runs, between sensors and a small server."""

import json
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from sfumato.device_agent.cli import main
from sfumato.device_agent.relay.http_source import MOST_CONNECTIONS
from sfumato.shared.errors import StudyClosedError, TooEarlyError
from sfumato.shared.wire import SKETCH_MEDIA_TYPE
from tests.commands import run_inside
from tests.device_agent.daemons import wait_until
from tests.device_agent.relay.sensors import COMMAND, Relay, Sensor, Signed, relay_in
from tests.device_agent.serving import Server


@pytest.fixture
def sensor(server: Server) -> Sensor:
    return Sensor(server)


@pytest.fixture
def relay(tmp_path: Path, server: Server) -> Iterator[Relay]:
    with relay_in(tmp_path / "relay", server.url) as relay:
        yield relay


@pytest.fixture
def brief(tmp_path: Path, server: Server) -> Iterator[Relay]:
    """A relay whose uploads hardly wait for the server."""
    with relay_in(tmp_path / "relay", server.url, wait_s=0.01) as relay:
        yield relay


def run(relay: Relay, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_inside(main, ["relay", "--config", str(relay.config), *arguments])


def bring(relay: Relay, name: str, data: bytes) -> None:
    """Bring a file as another program does: whole, by its last name."""
    part = relay.spool / "in" / f".{name}.part"
    part.write_bytes(data)
    part.rename(part.with_name(name))


def problem_of(answer: httpx.Response) -> str:
    assert answer.headers["Content-Type"] == "application/problem+json"
    return str(answer.json()["type"]).removeprefix("/problems/")


def test_an_upload_reaches_the_server_unchanged_and_brings_back_its_receipt(
    relay: Relay, server: Server, sensor: Sensor
) -> None:
    relay.start()
    first, second = sensor.sign(0), sensor.sign(1)
    for signed, status in ((first, 201), (second, 201), (first, 201)):
        answer = relay.put(signed)
        assert answer.status_code == status
        assert answer.json()["sketch_id"] == signed.sketch_id.hex()
    # The third was answered from what the server had said of the same bytes.
    assert server.received == [(one.sketch_id, one.data) for one in (first, second)]
    assert relay.stop() == 0


def test_a_message_is_kept_through_kills_and_while_the_server_is_away(
    brief: Relay, server: Server, sensor: Sensor
) -> None:
    server.stop()
    brief.start()
    signed = sensor.sign(0)
    for _ in range(2):
        answer = brief.put(signed)
        assert answer.status_code == 202
        # Nothing in it may pass for the server's receipt.
        assert signed.sketch_id.hex() not in answer.text
        assert "Retry-After" in answer.headers
        brief.kill()
        brief.start()
    status = json.loads(run(brief, "--status", "--json").stdout)
    assert (status["waiting"], status["waiting_bytes"]) == (1, len(signed.data))
    server.start()
    wait_until(lambda: bool(server.stored))
    wait_until(lambda: brief.put(signed).status_code == 201)
    assert server.received == [(signed.sketch_id, signed.data)]


def test_a_forged_message_does_not_take_the_place_of_the_genuine_one(
    relay: Relay, server: Server, sensor: Sensor
) -> None:
    relay.start()
    genuine = sensor.sign(0)
    forged = genuine.data[:-1] + bytes([genuine.data[-1] ^ 1])
    answer = relay.put(genuine, data=forged)
    assert (answer.status_code, problem_of(answer)) == (422, "signature-invalid")
    assert relay.put(genuine).status_code == 201
    # Two releases of one window: the device learns that it was copied.
    answer = relay.put(sensor.sign(0))
    assert (answer.status_code, problem_of(answer)) == (409, "duplicate-upload")
    assert [message.payload for message in server.stored.values()] == [genuine.data[-64:]]


def test_a_relay_names_the_variable_of_a_wrong_proxy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "ftp://proxy")
    with relay_in(tmp_path, "http://server.invalid") as relay:
        done = run(relay, "--once")
    assert done.returncode == 2
    assert "HTTP_PROXY: must be the address of a proxy" in done.stderr
    assert "Traceback" not in done.stderr


def test_refusals_of_the_server_are_final_and_what_passes_is_sent_again(
    brief: Relay, server: Server, sensor: Sensor
) -> None:
    server.answers = {0: StudyClosedError("is closed", field="study"), 1: 503}
    brief.start()
    first = sensor.sign(0)
    wait_until(lambda: brief.put(first).status_code != 202)
    refused = brief.put(first)
    assert (refused.status_code, problem_of(refused)) == (403, "study-closed")
    late = sensor.sign(1)
    assert brief.put(late).status_code == 202
    server.answers = {2: TooEarlyError("has not begun", field="slots")}
    wait_until(lambda: brief.put(late).status_code == 201)
    # One that must wait keeps no other waiting.
    server.retry_after = "600"
    assert brief.put(sensor.sign(2)).status_code == 202
    last = sensor.sign(3)
    wait_until(lambda: brief.put(last).status_code == 201)
    status = json.loads(run(brief, "--status", "--json").stdout)
    assert status["refused"] == {"study-closed": 1}
    assert status["held"] == {"too-early": 1}
    assert (status["stored"], status["waiting"]) == (2, 1)


def test_what_can_never_be_stored_is_refused_at_once_and_nothing_of_it_is_kept(
    relay: Relay, server: Server, sensor: Sensor
) -> None:
    relay.config.write_text("most_message_bytes = 1024\n" + relay.config.read_text())
    relay.start()
    signed = sensor.sign(0)
    elsewhere = Signed(path=sensor.sign(1).path, sketch_id=b"", data=signed.data)
    for answer, status, slug in (
        (relay.put(signed, data=b"no message"), 400, "malformed-message"),
        (relay.put(elsewhere), 400, "malformed-message"),
        (relay.put(signed, data=bytes(1025)), 413, "too-large"),
        (httpx.put(relay.url + signed.path, content=b"x"), 415, "media-type-unsupported"),
        (httpx.post(f"{relay.url}/v1/enrolments", json={}), 405, "method-not-allowed"),
        (httpx.get(f"{relay.url}/v1/studies"), 404, "not-found"),
    ):
        assert (answer.status_code, problem_of(answer)) == (status, slug)
    assert server.requests == []
    assert json.loads(run(relay, "--status", "--json").stdout)["waiting"] == 0


def test_what_only_the_relay_forbids_stays_with_the_device(
    tmp_path: Path, server: Server, sensor: Sensor
) -> None:
    studies, devices = f'["{server.study.hex()}"]', f'["{sensor.public_key.hex()}"]'
    stranger, most = Sensor(server), 0.0009
    server.stop()
    with relay_in(
        tmp_path, server.url, studies=studies, devices=devices, most_megabytes=most, wait_s=0.01
    ) as relay:
        relay.start()
        for answer, field in (
            (relay.put(stranger.sign(0)), "device"),
            (relay.put(sensor.sign(0, study=bytes(32))), "study"),
            (httpx.get(f"{relay.url}/v1/devices/me", headers=stranger.sign_request()), "device"),
            (httpx.get(f"{relay.url}/v1/studies/{'00' * 32}/plan"), "study"),
            (httpx.get(f"{relay.url}/v1/devices/me", headers=sensor.sign_request()), "server"),
        ):
            assert (answer.status_code, problem_of(answer)) == (503, "unavailable")
            assert answer.json()["field"] == field
            assert "Retry-After" in answer.headers
        # With its key known, a forged message is no burden.
        genuine = sensor.sign(0)
        forged = genuine.data[:-1] + bytes([genuine.data[-1] ^ 1])
        assert problem_of(relay.put(genuine, data=forged)) == "signature-invalid"
        assert [relay.put(sensor.sign(n)).status_code for n in range(2)] == [202, 202]
        full = relay.put(sensor.sign(2))
        assert (full.status_code, problem_of(full)) == (429, "too-many-requests")
        # What is kept already costs no more room.
        server.start()
        wait_until(lambda: len(server.stored) == 2)
        last = sensor.sign(2)
        wait_until(lambda: relay.put(last).status_code == 201)


def test_a_device_learns_what_the_server_has_of_it_and_reads_its_plan(
    relay: Relay, server: Server, sensor: Sensor
) -> None:
    relay.start()
    relay.put(sensor.sign(4))
    answer = httpx.get(f"{relay.url}/v1/devices/me", headers=sensor.sign_request())
    assert answer.status_code == 200
    assert [each["last_sequence"] for each in answer.json()["streams"]] == [4]
    path = f"{relay.url}/v1/studies/{server.study.hex()}/plan"
    plan = httpx.get(path, headers={"Accept": "application/cbor"})
    assert plan.content == server.plan_bytes


def test_a_spool_brings_messages_in_and_answers_out(
    relay: Relay, server: Server, sensor: Sensor
) -> None:
    run(relay, "--once")
    signed = sensor.sign(0)
    bring(relay, "hive 7.sketch", signed.data)
    bring(relay, "again.sketch", signed.data)
    bring(relay, "bad.sketch", signed.data[:-1])
    bring(relay, "state.request", sensor.write_request())
    bring(relay, "notes.txt", b"nobody's")
    done = run(relay, "--once", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["stored"] == 1
    out = relay.spool / "out"
    for name in ("hive 7", "again"):
        answer = (out / f"{name}.answer").read_bytes()
        assert answer.startswith(b"HTTP/1.1 201 Created\r\n")
        assert signed.sketch_id.hex().encode() in answer
    assert (out / "bad.answer").read_bytes().startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert sensor.device.hex() in (out / "state.answer").read_text()
    assert (relay.spool / "refused/bad.sketch").read_bytes() == signed.data[:-1]
    assert [path.name for path in (relay.spool / "in").iterdir()] == ["notes.txt"]
    assert server.received == [(signed.sketch_id, signed.data)]
    # While the server is away files of requests stay, and messages are kept.
    server.stop()
    bring(relay, "next.sketch", sensor.sign(1).data)
    bring(relay, "next.request", sensor.write_request())
    done = run(relay, "--once")
    assert done.returncode == 75, done.stderr
    assert "1 message(s)" in done.stdout
    assert (relay.spool / "in/next.request").exists()
    assert not (out / "next.answer").exists()


def test_a_file_that_cannot_be_taken_stops_no_other(
    relay: Relay, server: Server, sensor: Sensor
) -> None:
    """Users who share a spool cannot stop it, nor let it read for them what they may not."""
    run(relay, "--once")
    elsewhere = relay.folder / "elsewhere"
    elsewhere.write_bytes(sensor.sign(1).data)
    (relay.spool / "in/a.sketch").symlink_to(elsewhere)
    signed = sensor.sign(0)
    bring(relay, "b.sketch", signed.data)
    run(relay, "--once")
    assert server.received == [(signed.sketch_id, signed.data)]
    assert [path.name for path in (relay.spool / "in").iterdir()] == ["a.sketch"]
    assert [path.name for path in (relay.spool / "out").iterdir()] == ["b.answer"]


def test_a_full_disk_refuses_and_loses_nothing(
    relay: Relay, server: Server, sensor: Sensor
) -> None:
    run(relay, "--once")
    # As a disk that fills up: the file may not grow.
    queue = relay.folder / "queue/relay.sqlite"
    limit = f"ulimit -f {queue.stat().st_size // 1024 + 24}; trap '' XFSZ; exec \"$@\""
    big = relay.spool / "in"
    many = [sensor.sign(number) for number in range(12)]
    for number, signed in enumerate(many):
        (big / f"{number:03}.sketch").write_bytes(signed.data)
    server.stop()
    command = [*COMMAND, f"--config={relay.config}", "--once"]
    done = subprocess.run(
        ["bash", "-c", limit, "-", *command], capture_output=True, text=True, check=False
    )
    assert done.returncode == 75, (done.returncode, done.stderr)
    assert "relay.sqlite" in done.stderr
    server.start()
    done = run(relay, "--once", "--json")
    assert done.returncode == 0, done.stderr
    assert {data for _, data in server.received} == {signed.data for signed in many}
    assert json.loads(done.stdout)["stored"] == len(many)


def test_connections_that_stay_open_do_not_keep_the_relay_from_its_work(
    relay: Relay, sensor: Sensor
) -> None:
    relay.start()
    address = ("127.0.0.1", int(relay.url.rpartition(":")[2]))
    idle = [socket.create_connection(address) for _ in range(MOST_CONNECTIONS + 8)]
    try:
        headers = {"Content-Type": SKETCH_MEDIA_TYPE}
        signed = sensor.sign(0)
        with pytest.raises(httpx.HTTPError):
            httpx.put(relay.url + signed.path, content=signed.data, headers=headers)
        for line in idle[:MOST_CONNECTIONS]:
            line.close()
        wait_until(relay.listens)
        assert relay.put(signed).status_code == 201
    finally:
        for line in idle:
            line.close()


def test_two_relays_do_not_share_a_folder(relay: Relay) -> None:
    relay.start()
    done = run(relay, "--once")
    assert done.returncode == 3
    assert "cannot be used by two" in done.stderr
