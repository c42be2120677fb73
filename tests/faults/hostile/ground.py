"""An installation whose control plane and first member are reached through fronts that can misbehave."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from services.cli.common.layout import CONTROL
from tests.e2e.fleet import Fleet
from tests.faults.ground import Ground
from tests.faults.hostile.front import Order
from tests.faults.hostile.fronts import Fronts
from tests.faults.hostile.launch import COMMAND, FRONTS, Addresses, direct

HOSTILE: Final = "member1"
"""The member that has a front."""


class Fronted(Ground):
    """Three members; services reach the control plane and member1 through fronts, the checker goes past them."""

    def __init__(self, directory: Path) -> None:
        self.fronts = Fronts(directory / "fronts", directory / "installation" / "installation.json", (CONTROL, HOSTILE))
        self.fronts.start()
        super().__init__(directory)

    def environment(self) -> dict[str, str]:
        """Settings of every service, and where the fronts are."""
        addresses = Addresses(self.fronts.urls, str(self.fronts.ca))
        return {**super().environment(), FRONTS: msgspec.json.encode(addresses).decode()}

    def make_fleet(self) -> Fleet:
        """The installation, not started."""
        return Fleet(self.directory / "installation", self.arguments(), self.environment(), COMMAND)

    def kubeconfig(self, name: str) -> Path:
        """Past the fronts."""
        return direct(self.fleet.layout, name) if name == HOSTILE else super().kubeconfig(name)

    def misbehave(self, name: str, order: Order) -> None:
        """Have a front behave from now on."""
        self.fronts.order(name, order)

    def heal(self) -> None:
        """Take every fault back."""
        self.fronts.sane()
        super().heal()

    def stop(self) -> None:
        """Stop everything."""
        try:
            super().stop()
        finally:
            self.fronts.stop()
