"""The clusters behind a control plane: lists them, checks names, opens clients to them (docs/sources.md#commands)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from schemas.manifest import Manifest
from services._kit.kube.client import JSON, ApiError, KubeClient, WatchEvent, resource_path
from services.cli.common.running import Failed

CONTROL_LABEL: Final = "Karmada"
CLUSTERS: Final = resource_path("cluster.karmada.io", "v1alpha1", "clusters")
THROUGH: Final = resource_path("work.karmada.io", "v1alpha2", "clusters")
"""Where the gateway is asked for members behind a kube-apiserver, which answers for Clusters itself."""


class Endpoint(Struct, frozen=True):
    """One place to ask: its name in the CLUSTER column and its client."""

    name: str
    client: KubeClient
    control: bool = False


class ProxiedClient(KubeClient):
    """A member, reached through the control plane's proxy with the caller's own credentials."""

    def __init__(self, control: KubeClient, name: str, door: str) -> None:
        """`door` is that of `door_to_members`."""
        self._path = proxy_path(name, door)
        self._control = control
        super().__init__(f"{control.server}{self._path}", ssl_context=None, headers={}, limits=control.limits)

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | Manifest | None = None,
        content_type: str = JSON,
        accept: str = JSON,
        timeout: float = 0.0,
    ) -> bytes:
        """Send one request and return the answer's bytes; raises as that of the control plane does."""
        return await self._control.request(
            method,
            self._path + path,
            params=params,
            body=body,
            content_type=content_type,
            accept=accept,
            timeout=timeout,
        )

    def watch(
        self, path: str, resource_version: str, *, params: Mapping[str, str] | None = None, accept: str = JSON
    ) -> AsyncIterator[list[WatchEvent]]:
        """Stream changes after a resourceVersion; raises as that of the control plane does."""
        return self._control.watch(self._path + path, resource_version, params=params, accept=accept)


def proxy_path(name: str, door: str) -> str:
    """Where the control plane serves the API of a member."""
    return f"{door}/{name}/proxy"


async def door_to_members(control: KubeClient) -> str:
    """The path below which a control plane serves its members; raises Failed where it sends nothing to the gateway."""
    known = await _resources(control, CLUSTERS)
    # An aggregated API would take the Clusters away from a kube-apiserver, which keeps them as custom resources.
    if "clusters" not in known or "clusters/proxy" in known:
        return CLUSTERS
    try:
        await _resources(control, THROUGH)
    except ApiError as error:
        raise Failed(
            f"{control.server} does not lead to members: it sends nothing to the gateway ({error.message}). Of an "
            "installation of `fleetlog up`, use the kubeconfig that it wrote, control.kubeconfig. Otherwise look at "
            "`kubectl get apiservice v1alpha2.work.karmada.io`; where it is missing, apply aggregation.json of "
            "`fleetlog certs`"
        ) from None
    return THROUGH


async def _resources(control: KubeClient, path: str) -> set[str]:
    """Names that discovery lists beside the resource of a path."""
    listed = await control.get(path.rpartition("/")[0])
    return {str(one.get("name")) for one in listed.get("resources") or ()}


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
    return [known[name] for name in sorted(set(wanted) or known)]


async def cluster(control: KubeClient, name: str) -> Manifest:
    """One Cluster object; raises Failed when there is no cluster of this name."""
    try:
        return await control.get(f"{CLUSTERS}/{name}")
    except ApiError as error:
        if error.status != 404:
            raise
        raise Failed(f"no cluster object {name} found in the control plane; see `karmadactl get clusters`") from None


async def members(control: KubeClient, wanted: Sequence[str] = ()) -> list[Endpoint]:
    """The members of a control plane behind its proxy, all or the wanted ones; raises as `clusters` does."""
    names = [item["metadata"]["name"] for item in await clusters(control, wanted)]
    door = await door_to_members(control) if names else CLUSTERS
    return [Endpoint(name, ProxiedClient(control, name, door)) for name in names]
