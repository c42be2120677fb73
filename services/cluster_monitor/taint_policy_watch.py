"""Watches ClusterTaintPolicies while the gate Failover is on; they apply to every cluster.

Source: docs/sources.md#taint-policies.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

from schemas.manifest import Manifest
from services._kit.concurrency.supervision import supervise
from services._kit.kube.client import KubeClient, resource_path
from services._kit.kube.list_watch import Decoded, Gatekeeper, Reflector

_GROUP: Final = "policy.karmada.io"
_VERSION: Final = "v1alpha1"
_RESOURCE: Final = "clustertaintpolicies"
_KIND: Final = "ClusterTaintPolicy"
_LATER: Final = 1.0  # seconds until the watch is tried again


async def until_served(reflector: Reflector[Manifest]) -> None:
    """Follow a kind; a reflector ends when the kind is not served: it is started again until it is."""
    while True:
        await reflector.run()
        await asyncio.sleep(_LATER)


class TaintPolicies:
    """Keeps `policies` (by name) as the control plane has them, and calls `changed_to` whenever one changed."""

    def __init__(
        self,
        client: KubeClient,
        policies: dict[str, Manifest],
        changed_to: Callable[[], None],
        gate: Gatekeeper[Manifest] | None = None,
    ) -> None:
        self._policies = policies
        self._on_change = changed_to
        self._reflector = Reflector(
            client,
            resource_path(_GROUP, _VERSION, _RESOURCE),
            self,
            Decoded(),
            api_version=f"{_GROUP}/{_VERSION}",
            kind=_KIND,
            gate=gate,
        )
        self._task = supervise("watch:clustertaintpolicies", partial(until_served, self._reflector))

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
