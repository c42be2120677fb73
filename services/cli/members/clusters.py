"""The clusters behind a control plane: lists them, checks names, opens clients to them (docs/sources.md#commands)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from msgspec import Struct

from schemas.manifest import Manifest
from services._kit.credentials.access import open_member
from services._kit.kube.client import ApiError, KubeClient, Unreachable, resource_path
from services.cli.common.running import Failed

CONTROL_LABEL: Final = "Karmada"
CLUSTERS: Final = resource_path("cluster.karmada.io", "v1alpha1", "clusters")


class Endpoint(Struct, frozen=True):
    """One place to ask: its name in the CLUSTER column and its client; without a client `trouble` says why."""

    name: str
    client: KubeClient | None
    trouble: str = ""
    control: bool = False


async def clusters(control: KubeClient, wanted: Sequence[str] = ()) -> list[Manifest]:
    """The Cluster objects by name, all or the wanted ones.

    Raises Failed for names that are no member and for endpoints that know no clusters.
    """
    try:
        listed = (await control.get(CLUSTERS)).get("items") or []
    except ApiError as error:
        if error.status != 404:
            raise
        raise Failed(
            f"{control.server} serves no clusters: it is no control plane (or its definitions are missing: "
            "`fleetlog crds apply`); choose the control plane's kubeconfig with --kubeconfig"
        ) from None
    known = {item["metadata"]["name"]: item for item in listed}
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise Failed(f"clusters don't exist: {','.join(unknown)}; see `karmadactl get clusters`")
    return [known[name] for name in sorted(wanted or known)]


async def cluster(control: KubeClient, name: str) -> Manifest:
    """One Cluster object; raises Failed when there is no cluster of this name."""
    try:
        return await control.get(f"{CLUSTERS}/{name}")
    except ApiError as error:
        if error.status != 404:
            raise
        raise Failed(f"no cluster object {name} found in the control plane; see `karmadactl get clusters`") from None


@asynccontextmanager
async def open_members(control: KubeClient, members: Sequence[Manifest]) -> AsyncIterator[list[Endpoint]]:
    """Clients to members, closed afterwards; a member that cannot be opened comes with its trouble."""
    endpoints = await asyncio.gather(*(_open(control, item) for item in members))
    try:
        yield list(endpoints)
    finally:
        await asyncio.gather(*(endpoint.client.close() for endpoint in endpoints if endpoint.client is not None))


async def _open(control: KubeClient, item: Manifest) -> Endpoint:
    name = item["metadata"]["name"]
    try:
        return Endpoint(name, await open_member(control, item["spec"]))
    except (ApiError, Unreachable, ValueError) as error:
        return Endpoint(name, None, str(error))
