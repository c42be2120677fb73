"""Where the server itself may connect to on behalf of what its users configure: webhooks, aggregated servers, issuers.

Refused are addresses by which a user would reach what only this machine may: loopback, link-local, unspecified and
multicast ones, also inside IPv6. What is checked is the address of the connection, after every look-up of names.
"""

from __future__ import annotations

import errno
import ipaddress
import socket
from collections.abc import Iterable
from typing import Any, Final, TypeAlias

import aiohttp

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

EVERYWHERE: Final = ("1", "true", "yes", "on")
_NOWHERE: Final = ("", "0", "false", "no", "off")
_TRANSLATED: Final = ipaddress.IPv6Network("64:ff9b::/96")
_THIS_NETWORK: Final = ipaddress.IPv4Network("0.0.0.0/8")
VARIABLE: Final = "FLEETLOG_APISERVER_ALLOW_LOCAL_EXTENSIONS"


class AddressRefused(OSError):
    """A connection to an address that only this machine may reach."""

    def __init__(self, text: str) -> None:
        super().__init__(errno.EACCES, text)


class Outbound:
    """The rule about addresses; `allowed` lists exceptions as CIDRs, addresses, or addresses with a port."""

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        self._everywhere = False
        self._networks: list[tuple[Network, int]] = []
        for item in allowed:
            text = item.strip()
            if text.lower() in EVERYWHERE:
                self._everywhere = True
            elif text.lower() not in _NOWHERE:
                self._networks.append(_exception(text))

    def check(self, host: str, port: int) -> None:
        """Raise AddressRefused for an address that may not be connected to."""
        if self._everywhere:
            return
        address = _plain(ipaddress.ip_address(host.partition("%")[0]))
        if not _local(address) or any(address in network and number in (0, port) for network, number in self._networks):
            return
        text = f"connections to {host} are not allowed: it is an address of this machine or its link"
        raise AddressRefused(f"{text} ({VARIABLE} names exceptions)")

    def _socket(self, info: tuple[Any, ...]) -> socket.socket:
        family, kind, protocol, _, place = info
        self.check(str(place[0]), int(place[1]))
        return socket.socket(family=family, type=kind, proto=protocol)

    def connector(self) -> aiohttp.TCPConnector:
        """A connector without limits on connections that checks each address right before it connects."""
        return aiohttp.TCPConnector(limit=0, limit_per_host=0, socket_factory=self._socket)


def _exception(text: str) -> tuple[Network, int]:
    """A network and a port, 0 for all; raises ValueError."""
    host, number = text, "0"
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        number = rest.removeprefix(":") or "0"
    elif text.count(":") == 1:
        host, _, number = text.partition(":")
    try:
        return ipaddress.ip_network(host), int(number)
    except ValueError:
        wanted = "1, a CIDR such as 127.0.0.0/8, or an address with a port"
        raise ValueError(f"{VARIABLE}: use {wanted}, not {text!r}") from None


def _plain(address: Address) -> Address:
    """The IPv4 address that an IPv6 address stands for, else the address."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
        if inner is None and address in _TRANSLATED:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is None and not int(address) >> 32 and int(address) > 1:
            inner = ipaddress.IPv4Address(int(address))
        return inner or address
    return address


def _local(address: Address) -> bool:
    if address.is_loopback or address.is_link_local or address.is_unspecified or address.is_multicast:
        return True
    return isinstance(address, ipaddress.IPv4Address) and (address in _THIS_NETWORK or int(address) == 0xFFFFFFFF)
