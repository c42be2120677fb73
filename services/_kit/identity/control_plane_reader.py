"""The identity of the control plane, for services that list objects there."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from services._kit.credentials.kubeconfig import open_kubeconfig
from services._kit.identity.identity_gate import EndpointIdentity
from services._kit.identity.identity_reading import read_afresh
from services._kit.kube.client import KubeClient
from services._rules.absence import absence_guard as absence
from services._rules.absence.absence_guard import Guard


class ControlPlaneIdentity(EndpointIdentity):
    """The identity at the address of the control plane, judged by a guard; it has a connection of its own."""

    def __init__(self, own: KubeClient, client: KubeClient, guard: Guard[Any], on_reading: Callable[[], None]) -> None:
        super().__init__(
            "control-plane",
            partial(read_afresh, own),
            partial(absence.take_reading, guard),
            note=partial(absence.noted, guard),
            on_doubt=partial(absence.doubt, guard),
            cut=client.close,
            on_reading=on_reading,
        )
        self._own = own

    @classmethod
    async def open(
        cls, kubeconfig: str, client: KubeClient, guard: Guard[Any], on_reading: Callable[[], None]
    ) -> ControlPlaneIdentity:
        """Open the control plane of a kubeconfig; `client` is the one whose lists the guard judges."""
        return cls(await open_kubeconfig(kubeconfig), client, guard, on_reading)

    async def close(self) -> None:
        """Stop reading, and close the connection."""
        await super().close()
        await self._own.close()
