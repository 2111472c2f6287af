"""Hosts that are this machine."""

import pytest

from sfumato.shared.hosts import is_loopback, is_private, is_public, read_address


@pytest.mark.parametrize("host", ["localhost", "LocalHost", "127.0.0.1", "127.8.9.10", "::1"])
def test_names_and_addresses_of_this_machine_are_loopback(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host", ["", "0.0.0.0", "::", "10.0.0.1", "localhost.example.org", "127.0.0.1.example.org"]
)
def test_other_hosts_are_not(host: str) -> None:
    assert not is_loopback(host)


@pytest.mark.parametrize("url", ["https://a.example", "https://[::1]:8/b", "http://127.0.0.1:1"])
def test_addresses_over_tls_or_of_this_machine_are_private(url: str) -> None:
    assert is_private(url)


@pytest.mark.parametrize(
    "url",
    [None, "", "https://", "http://a.example", "https://[", "https://a:b", "https://a.example\n"],
)
def test_other_addresses_and_what_is_none_are_not(url: object) -> None:
    assert not is_private(url)


@pytest.mark.parametrize(
    "address",
    ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1"],
)
def test_addresses_of_the_internet_are_public(address: str) -> None:
    assert is_public(read_address(address))


@pytest.mark.parametrize(
    "address",
    [
        *("0.0.0.0", "10.0.0.1", "100.64.0.1", "127.0.0.1", "169.254.169.254", "172.16.0.1"),
        *("192.0.2.1", "192.168.0.1", "198.18.0.1", "224.0.1.1", "240.0.0.1", "255.255.255.255"),
        *("::", "::1", "::7f00:1", "::ffff:127.0.0.1", "fe80::1%eth0", "fd00::1", "fec0::1"),
        *("ff0e::1", "64:ff9b::7f00:1", "64:ff9b:1::808:808", "2001::1", "2001:db8::1"),
        *("2002:7f00:1::", "2002:a9fe:a9fe::1", "4000::1"),
    ],
)
def test_other_addresses_are_not_whatever_form_hides_them(address: str) -> None:
    assert not is_public(read_address(address))
