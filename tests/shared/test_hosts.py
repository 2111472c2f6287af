"""Hosts that are this machine."""

import pytest

from sfumato.shared.hosts import is_loopback


@pytest.mark.parametrize("host", ["localhost", "LocalHost", "127.0.0.1", "127.8.9.10", "::1"])
def test_names_and_addresses_of_this_machine_are_loopback(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host", ["", "0.0.0.0", "::", "10.0.0.1", "localhost.example.org", "127.0.0.1.example.org"]
)
def test_other_hosts_are_not(host: str) -> None:
    assert not is_loopback(host)
