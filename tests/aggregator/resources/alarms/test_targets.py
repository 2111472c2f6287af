"""Which targets a webhook may have, and how one holds up no other."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from sfumato.aggregator.cli.settings import read_settings
from sfumato.aggregator.resources.alarms.service.webhooks import Attempt, Sender
from sfumato.shared.errors import ConfigError
from sfumato.shared.hosts import HostList
from tests.aggregator.api.test_alarms import ON_BOTH, create_alarm, fill, receiving
from tests.aggregator.fleet import assert_problem
from tests.aggregator.serving import Server, open_server
from tests.certificates import Authority

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def listening(
    answer: bytes = b"", tls: ssl.SSLContext | None = None
) -> AsyncIterator[tuple[int, list[bytes], asyncio.Event]]:
    """Answer each connection, or keep it silent; yield port, requests, and a mark of the first."""
    requests: list[bytes] = []
    connected, end = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.set()
        requests.append(await reader.read(4096))
        writer.write(answer)
        if not answer:
            await end.wait()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1], requests, connected
    finally:
        end.set()
        server.close()


async def send(url: str, permitted: str = "") -> Attempt:
    async with Sender(HostList(permitted)) as sender:
        return await sender.send(url, b"s" * 32, message_id="msg_1", body="{}", now=0.0)


@ON_BOTH
async def test_a_target_that_does_not_answer_delays_no_other(server: Server) -> None:
    study, stop = await fill(server.desk), asyncio.Event()
    async with listening() as (port, _, connected), receiving() as receiver:
        slow = await create_alarm(server.desk, study, f"http://127.0.0.1:{port}/")
        quick = await create_alarm(server.desk, study, receiver.url)
        running = asyncio.create_task(server.services.deliverer.run(stop))
        await server.desk.operate("POST", f"/v1/alarms/{slow['alarm_id']}/test")
        await connected.wait()
        await server.desk.operate("POST", f"/v1/alarms/{quick['alarm_id']}/test")
        while not receiver.messages:
            await asyncio.sleep(0.05)
        log = await server.desk.operate("GET", f"/v1/alarms/{slow['alarm_id']}/deliveries")
        (waiting,) = log.json()["items"]
        assert (waiting["attempts"], waiting["problem"]) == (1, None)
        stop.set()
    await running


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "169.254.169.254", "[::ffff:10.0.0.1]"])
async def test_a_webhook_to_an_address_that_is_not_public_needs_the_option(host: str) -> None:
    async with open_server(webhook_hosts="10.9.0.0/16") as server:
        study = await fill(server.desk)
        url = f"/v1/studies/{study.hex()}/alarms"
        answer = await server.desk.operate("POST", url, {"url": f"https://{host}/hook"})
        assert_problem(answer, "request-invalid", 422, "url")
        assert f"--webhook-hosts {host.strip('[]')}" in answer.json()["fix"]


async def test_a_name_is_judged_by_the_address_that_it_leads_to_and_open_ports_look_closed() -> (
    None
):
    async with listening() as (port, _, connected):
        # Only a look-up tells that it is loopback.
        at_open = await send(f"https://127.1:{port}/")
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            at_closed = await send(f"https://127.1:{unused.getsockname()[1]}/")
        assert at_open == at_closed
        assert "refused by this server" in str(at_open.problem)
        assert not connected.is_set()


async def test_an_attempt_without_an_answer_does_not_tell_why() -> None:
    async with listening(b"SSH-2.0\r\n") as (port, _, connected):
        at_open = await send(f"https://127.0.0.1:{port}/", "127.0.0.1")
        assert connected.is_set()
    at_closed = await send(f"https://127.0.0.1:{port}/", "127.0.0.1")
    assert at_open == at_closed
    assert at_open.problem == "no answer; the server's log has the cause"


async def test_the_address_that_was_checked_is_connected_to_under_the_name_of_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.path))
    tls, names = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), []
    tls.load_cert_chain(*authority.issue("localhost"))
    tls.sni_callback = lambda _socket, name, _context: names.append(name)
    async with listening(b"HTTP/1.1 204 No Content\r\n\r\n", tls) as (port, requests, _):
        attempt = await send(f"https://localhost:{port}/hook", "localhost")
    assert (attempt.status, names) == (204, ["localhost"])
    assert f"host: localhost:{port}\r\n" in requests[0].decode().lower()


def test_a_list_of_hosts_has_names_suffixes_addresses_and_networks() -> None:
    for bad in ("10.0.0.0/33", "a b", "http://a.example", "10.1", "*"):
        with pytest.raises(ConfigError, match=r"webhook_hosts.*must be names"):
            read_settings(webhook_hosts=bad)
    hosts = HostList("hook.example, *.in.example,10.0.0.0/8,fd00::1")
    permitted = [
        ("HOOK.example.", "127.0.0.1"),
        ("a.in.example", "::1"),
        ("other", "10.2.3.4"),
        ("other", "::ffff:10.2.3.4"),
        ("other", "fd00::1"),
        ("other", "93.184.216.34"),
    ]
    refused = [
        ("x.hook.example", "127.0.0.1"),
        ("in.example", "127.0.0.1"),
        ("evilin.example", "127.0.0.1"),
        ("other", "192.168.0.1"),
        ("other", "fd00::2"),
    ]
    assert all(hosts.permits(*each) for each in permitted)
    assert not any(hosts.permits(*each) for each in refused)
