"""Watches what changes Cluster objects: ClusterTaintPolicies while the gate Failover is on, and Remedies.

Sources: docs/sources.md#taint-policies, #remedies.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

from msgspec import Struct

from schemas.manifest import Manifest
from services._kit.concurrency.supervision import supervise
from services._kit.kube.client import KubeClient, resource_path
from services._kit.kube.list_watch import Decoded, Gatekeeper, Reflector

_VERSION: Final = "v1alpha1"
_LATER: Final = 1.0  # seconds until the watch is tried again


async def until_served(reflector: Reflector[Manifest]) -> None:
    """Follow a kind; a reflector ends when the kind is not served: it is started again until it is."""
    while True:
        await reflector.run()
        await asyncio.sleep(_LATER)


class Watched(Struct, frozen=True):
    """A cluster-wide kind whose objects concern every cluster."""

    group: str
    resource: str
    kind: str


TAINT_POLICIES: Final = Watched("policy.karmada.io", "clustertaintpolicies", "ClusterTaintPolicy")
REMEDIES: Final = Watched("remedy.karmada.io", "remedies", "Remedy")


class PolicyWatch:
    """Keeps the objects of a kind (by name) as the control plane has them; calls `changed_to` when one changed."""

    def __init__(
        self,
        client: KubeClient,
        watched: Watched,
        policies: dict[str, Manifest],
        changed_to: Callable[[], None],
        gate: Gatekeeper[Manifest] | None = None,
    ) -> None:
        self._policies = policies
        self._on_change = changed_to
        self._reflector = Reflector(
            client,
            resource_path(watched.group, _VERSION, watched.resource),
            self,
            Decoded(),
            api_version=f"{watched.group}/{_VERSION}",
            kind=watched.kind,
            gate=gate,
        )
        self._task = supervise(f"watch:{watched.resource}", partial(until_served, self._reflector))

    @property
    def trouble(self) -> str:
        """Why the watch of the policies has failed; empty while it works."""
        return self._reflector.outage.trouble

    def listed(self, objects: list[Manifest]) -> None:
        """A complete list."""
        self._policies.clear()
        self._policies.update((manifest["metadata"]["name"], manifest) for manifest in objects)
        self._on_change()

    def changed(self, kind: str, manifest: Manifest) -> None:
        """One change."""
        name = manifest["metadata"]["name"]
        if kind == "DELETED":
            self._policies.pop(name, None)
        else:
            self._policies[name] = manifest
        self._on_change()

    async def close(self) -> None:
        """Stop following."""
        await self._task.close()
