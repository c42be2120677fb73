"""`fleetlog up` whose services reach the control plane and some members through fronts."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from services.apiserver.auth.kubeconfig_files import write
from services.cli.common.layout import CONTROL, Layout
from services.cli.fleetlog import main
from services.cli.installation.processes import Supervisor
from services.cli.supervision.supervised_process import Rank

FRONTS: Final = "FLEETLOG_TEST_FRONTS"
COMMAND: Final = "from tests.faults.hostile.launch import up; up()"
_CONTROL_KUBECONFIG: Final = "FLEETLOG_CONTROL_KUBECONFIG"


class Addresses(Struct, frozen=True):
    """URLs of fronts by the name of what is behind them, and the certificate of their authority."""

    urls: dict[str, str]
    ca: str


def fronted(layout: Layout) -> Path:
    """Kubeconfig of the control plane as services see it."""
    return layout.directory / "fronted-control.kubeconfig"


def direct(layout: Layout, name: str) -> Path:
    """Kubeconfig of a member past its front."""
    return layout.directory / "direct" / f"{name}.kubeconfig"


def _behind(layout: Layout, addresses: Addresses, name: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Settings of one process or service: fronts instead of what is behind them."""
    found = dict(environment)
    if name in addresses.urls and "FLEETLOG_MEMBER_KUBECONFIG" in found:
        place = direct(layout, name)
        place.parent.mkdir(exist_ok=True)
        found["FLEETLOG_MEMBER_KUBECONFIG"] = str(place)
        _write(layout.kubeconfig(name), addresses, name, found["FLEETLOG_MEMBER_TOKEN"])
    if CONTROL in addresses.urls and _CONTROL_KUBECONFIG in found:
        found[_CONTROL_KUBECONFIG] = str(fronted(layout))
    if name == CONTROL and name in addresses.urls:
        _write(fronted(layout), addresses, name, found["FLEETLOG_APISERVER_ADMIN_TOKEN"])
    return found


def _write(path: Path, addresses: Addresses, name: str, token: str) -> None:
    ca = Path(addresses.ca).read_bytes()
    write(path, server=addresses.urls[name], name=name, ca=ca, cert=b"", key=b"", token=token)


def up() -> None:
    """Run the command."""
    addresses = msgspec.json.decode(os.environ.pop(FRONTS), type=Addresses)
    plain = Supervisor.add_service

    def add_service(
        self: Supervisor, name: str, rank: Rank, module: str, environment: Mapping[str, str], **others: Any
    ) -> None:
        layout = self._layout
        if others.get("services") is not None:
            services = others["services"]
            others["services"] = {one: _behind(layout, addresses, one, set_) for one, set_ in services.items()}
        plain(self, name, rank, module, _behind(layout, addresses, name, environment), **others)

    Supervisor.add_service = add_service  # type: ignore[method-assign]  # it has no hook, and needs none elsewhere
    sys.exit(main())
