"""Fault: the descheduler, which an installation runs on request, dies under load and goes on."""

from __future__ import annotations

from collections.abc import Sequence

from services.cli.installation.up import DESCHEDULER
from tests.faults.ground import Ground
from tests.faults.scene import Scene


class Descheduling(Ground):
    """An installation whose descheduler looks at every Deployment that lacks ready replicas, at once and again."""

    def arguments(self) -> Sequence[str]:
        """With the service that is left out otherwise."""
        return ("--descheduler",)

    def environment(self) -> dict[str, str]:
        """It looks as often as it may."""
        return {**super().environment(), "FLEETLOG_DESCHEDULING_INTERVAL": "1"}


async def killed(scene: Scene) -> None:
    """kill -9 of the descheduler, and again as soon as it has caught up."""

    async def kill() -> None:
        for _ in range(2):
            dead = scene.fleet.kill(DESCHEDULER)
            await scene.wait("the descheduler is back", lambda dead=dead: scene.back(DESCHEDULER, dead))

    await scene.under_load(kill)
