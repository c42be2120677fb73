"""Which addresses the API server may connect to for its users, and the exceptions that a setting names."""

from __future__ import annotations

import pytest

from services.apiserver.core.outbound import AddressRefused, Outbound
from services.apiserver.settings import from_environment

VARIABLE = "FLEETLOG_APISERVER_ALLOW_LOCAL_EXTENSIONS"


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.8.9.10",
        "0.0.0.0",
        "0.1.2.3",
        "169.254.169.254",
        "224.0.0.1",
        "255.255.255.255",
        "::1",
        "::",
        "fe80::1",
        "fe80::1%eth0",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "::127.0.0.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "2002:a9fe:a9fe::1",
    ],
)
def test_addresses_of_the_machine_are_refused(address: str) -> None:
    with pytest.raises(AddressRefused, match="are not allowed"):
        Outbound().check(address, 443)
    Outbound(("1",)).check(address, 443)


@pytest.mark.parametrize("address", ["10.0.0.1", "192.168.1.1", "8.8.8.8", "fd00::1", "2001:db8::1", "::ffff:10.0.0.1"])
def test_other_addresses_are_open(address: str) -> None:
    Outbound().check(address, 443)


@pytest.mark.parametrize(
    ("allowed", "address", "port", "good"),
    [
        ("127.0.0.0/8", "127.0.0.1", 443, True),
        ("127.0.0.1", "127.0.0.2", 443, False),
        ("127.0.0.1:9443", "127.0.0.1", 9443, True),
        ("127.0.0.1:9443", "127.0.0.1", 22, False),
        ("[::1]:9443", "::1", 9443, True),
        ("[::1]:9443", "::1", 22, False),
        ("::1", "::1", 22, True),
        ("127.0.0.1", "::ffff:127.0.0.1", 22, True),
        ("0", "127.0.0.1", 22, False),
    ],
)
def test_exceptions_are_networks_and_ports(allowed: str, address: str, port: int, good: bool) -> None:
    outbound = Outbound((allowed,))
    if good:
        outbound.check(address, port)
        return
    with pytest.raises(AddressRefused):
        outbound.check(address, port)


@pytest.mark.parametrize("text", ["localhost", "127.0.0.1:x", "300.0.0.1", "127.0.0.1/8"])
def test_an_unreadable_exception_stops_the_start(text: str) -> None:
    with pytest.raises(ValueError, match="ALLOW_LOCAL_EXTENSIONS: use"):
        from_environment({VARIABLE: text})


def test_this_machine_is_closed_by_default() -> None:
    assert from_environment({}).allow_local_extensions == ("0",)
    settings = from_environment({VARIABLE: "127.0.0.0/8,[::1]:443"})
    assert settings.allow_local_extensions == ("127.0.0.0/8", "[::1]:443")
