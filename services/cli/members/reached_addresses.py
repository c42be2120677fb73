"""Names and addresses by which people and agents reach an installation from elsewhere."""

from __future__ import annotations

import ipaddress
import re
from typing import Final

from msgspec import Struct

from services.cli.common.running import Failed

_HOST: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


class ReachedAddresses(Struct, frozen=True):
    """How an installation is reached from elsewhere, at the first of `addresses` (names and addresses)."""

    addresses: tuple[str, ...] = ()
    api_port: int = 6443
    log_port: int = 4222
    control: str = ""
    """URL of the control plane for services and people alike; empty where it is the one of the installation."""
    further: tuple[str, ...] = ()
    """Names and addresses by which control plane and log are known as well, at whatever ports."""
    names: tuple[str, ...] = ()
    """Further names of the API server."""

    def checked(self) -> ReachedAddresses:
        """The same; raises Failed for an address that is none."""
        for address in self.addresses:
            if not _HOST.fullmatch(address) and not is_address(address):
                raise Failed(f"--address {address!r} is neither a name nor an IP address; give ports with --api-port")
        return self

    @property
    def people(self) -> str:
        """URL of the control plane for people; by a port-forward or a published port where no address is known."""
        return self.control or f"https://{_bracketed((*self.addresses, '127.0.0.1')[0])}:{self.api_port}"

    @property
    def members(self) -> str:
        """URLs of the log for agents, which try all of them; empty without an address."""
        return ",".join(f"tls://{_bracketed(address)}:{self.log_port}" for address in self.addresses)

    def names_of(self, server: str) -> tuple[str, ...]:
        """Names and addresses for the certificate of a server, beside those in its own cluster."""
        both = (*self.addresses, *self.further)
        return {"kube-apiserver": (*both, *self.names), "nats": both}.get(server, ())


def is_address(text: str) -> bool:
    """Whether a text is an IP address."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
