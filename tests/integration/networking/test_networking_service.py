"""The networking service over a control plane: it writes what follows from reports, and nothing that is not its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw, json

from schemas.codec import Known, encode, subject_of
from schemas.endpoints import PortOfSlice, ServiceSlice, SliceEndpoint
from schemas.events.endpoints import EndpointsReleased
from schemas.events.eviction import EvictionRequested, EvictionTask
from schemas.events.observed import WorkObserved
from schemas.events.placement import PlacementDecided, TargetCluster
from schemas.events.template import TemplateChanged
from schemas.events.work import WorkRendered, WorkWithdrawn
from schemas.keys import ObjectKey
from schemas.manifest import INLINE_BYTES, Manifest
from services._kit.content.blobs import Blobs
from services._kit.kube.client import ApiError, KubeClient, resource_path
from services._kit.log.stream_port import NewMessage
from services.apiserver.kinds.kind_catalog import builtin_registry
from services.cli.installation.install_crds import apply_definitions, needed_definitions
from services.networking.app import Networking
from services.networking.settings import NetworkingSettings
from tests.support.facts import cluster
from tests.support.memory_installation import MemoryInstallation
from tests.support.serving import api_server
from tests.support.waiting import comes_to, eventually

GROUP, API = "multicluster.x-k8s.io", "multicluster.x-k8s.io/v1alpha1"
KEY = ObjectKey(GROUP, "serviceexports", "default", "web")
SERVICES = resource_path("", "v1", "services", "default")
SLICES = resource_path("discovery.k8s.io", "v1", "endpointslices", "default")
EXPORTS = resource_path(GROUP, "v1alpha1", "serviceexports", "default")
IMPORTS = resource_path(GROUP, "v1alpha1", "serviceimports", "default")
INGRESSES = resource_path("networking.karmada.io", "v1alpha1", "multiclusteringresses", "default")
INGRESS = {
    "apiVersion": "networking.karmada.io/v1alpha1",
    "kind": "MultiClusterIngress",
    "metadata": {"name": "web"},
    "spec": {"defaultBackend": {"service": {"name": "web", "port": {"number": 81}}}},
}
IMPORT = {
    "apiVersion": API,
    "kind": "ServiceImport",
    "metadata": {"name": "web"},
    "spec": {"type": "ClusterSetIP", "ports": [{"name": "http", "port": 80}]},
}


class Ground:
    """The control plane, a log in memory, and the service between them."""

    def __init__(self, control: KubeClient, kubeconfig: Path) -> None:
        self.control = control
        self.log = MemoryInstallation()
        self.service = Networking(NetworkingSettings(control_kubeconfig=str(kubeconfig)))

    async def exports(self, name: str, *addresses: str, slice_name: str = "web-a") -> None:
        """A cluster has the ServiceExport and reports these endpoints."""
        work = WorkRendered(cluster=name, key=KEY, uid="u1", api_version=API, kind="ServiceExport", digest="d")
        await self.log.given(cluster(name), work)
        endpoints = tuple(SliceEndpoint((address,)) for address in addresses)
        slices = (ServiceSlice(slice_name, "IPv4", endpoints, (PortOfSlice("http", port=8080),)),)
        await self.observed(WorkObserved(cluster=name, key=KEY, uid="u1", applied=True, endpoints=slices, at=1.0))

    async def observed(self, event: Known) -> None:
        """Append an observation."""
        await self.log.logs["OBSERVED"].append([NewMessage(subject_of(event), encode(event), {})])

    async def withdraws(self, name: str) -> None:
        """A cluster has the ServiceExport no more."""
        await self.log.given(WorkWithdrawn(cluster=name, key=KEY, uid="u1", api_version=API, kind="ServiceExport"))

    async def slices(self) -> dict[str, list[str]]:
        """Addresses of the slices of the derived Service."""
        found = await self.control.get(SLICES, params={"labelSelector": "kubernetes.io/service-name=derived-web"})
        return {
            item["metadata"]["name"]: [address for each in item.get("endpoints") or () for address in each["addresses"]]
            for item in found["items"]
        }

    async def service_named(self, name: str) -> Manifest | None:
        """A Service of the control plane."""
        try:
            return await self.control.get(f"{SERVICES}/{name}")
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    async def warnings(self) -> set[str]:
        """Reasons of the warnings that were written."""
        found = await self.control.get(resource_path("", "v1", "events", "default"))
        return {item["reason"] for item in found["items"] if item["type"] == "Warning"}

    async def status(self, path: str) -> dict[str, Any]:
        return (await self.control.get(f"{path}/web")).get("status") or {}


@pytest.fixture
async def ground(tmp_path: Path) -> AsyncIterator[Ground]:
    """A running service; nothing is exported yet."""
    async with AsyncExitStack() as stack:
        control, _, kubeconfig = await api_server(stack, tmp_path, builtin_registry(), "root")
        await apply_definitions(control, needed_definitions())
        made = Ground(control, kubeconfig)
        await stack.enter_async_context(made.log.running(made.service))
        yield made


async def test_exported_endpoints_come_change_and_go(ground: Ground) -> None:
    await ground.control.create(EXPORTS, {"apiVersion": API, "kind": "ServiceExport", "metadata": {"name": "web"}})
    await ground.control.create(IMPORTS, IMPORT)
    await eventually(lambda: ground.service_named("derived-web"))
    await ground.exports("m1", "10.1.0.1")
    await ground.exports("m2", "10.2.0.1")
    both = {"imported-m1-web-a": ["10.1.0.1"], "imported-m2-web-a": ["10.2.0.1"]}
    await comes_to("slices", ground.slices, both)

    async def clusters() -> object:
        return (await ground.status(IMPORTS)).get("clusters")

    await comes_to("clusters", clusters, [{"cluster": "m1"}, {"cluster": "m2"}])

    async def conditions() -> object:
        found = (await ground.status(EXPORTS)).get("conditions") or ()
        return {item["type"]: (item["status"], item["reason"]) for item in found}

    await comes_to(
        "conditions", conditions, {"Valid": ("True", "EndpointsCollected"), "Conflict": ("False", "NoConflicts")}
    )
    derived = await ground.service_named("derived-web")
    assert derived is not None
    assert (derived["spec"]["type"], derived["spec"].get("selector")) == ("ClusterIP", None)
    await ground.exports("m1", "10.1.0.1", "10.1.0.2")
    await comes_to("slices", ground.slices, {**both, "imported-m1-web-a": ["10.1.0.1", "10.1.0.2"]})
    # Somebody tampers with one.
    await ground.control.patch(f"{SLICES}/imported-m2-web-a", {"endpoints": [{"addresses": ["10.66.6.6"]}]})
    await comes_to("slices", ground.slices, {**both, "imported-m1-web-a": ["10.1.0.1", "10.1.0.2"]})
    await ground.withdraws("m1")
    await comes_to("slices", ground.slices, {"imported-m2-web-a": ["10.2.0.1"]})
    released = [event for event in ground.log.read("endpoints.>") if isinstance(event, EndpointsReleased)]
    assert [(event.cluster, event.reason) for event in released] == [("m1", "m1 does not export it any more")]
    await ground.control.delete(f"{IMPORTS}/web")
    await ground.withdraws("m2")
    await comes_to("slices", ground.slices, {})

    async def gone() -> bool:
        return await ground.service_named("derived-web") is None

    await comes_to("the derived Service is gone", gone)


async def test_names_of_others_are_left_alone_and_told(ground: Ground) -> None:
    theirs = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "derived-web"}}
    await ground.control.create(SERVICES, {**theirs, "spec": {"ports": [{"port": 9}], "selector": {"app": "theirs"}}})
    taken = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": "imported-m1-web-a", "labels": {"kubernetes.io/service-name": "theirs"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.7.0.1"]}],
        "ports": [],
    }
    await ground.control.create(SLICES, taken)
    await ground.control.create(IMPORTS, IMPORT)
    await ground.exports("m1", "10.1.0.1")

    async def told() -> bool:
        return {"SyncDerivedServiceFailed", "SyncEndpointSliceFailed"} <= await ground.warnings()

    await comes_to("both are told", told)
    service = await ground.service_named("derived-web")
    assert service is not None
    assert service["spec"]["selector"] == {"app": "theirs"}
    (endpoint,) = (await ground.control.get(f"{SLICES}/imported-m1-web-a"))["endpoints"]
    assert endpoint["addresses"] == ["10.7.0.1"]
    # Handed over, it is made what the import asks for.
    await ground.control.patch(
        f"{SERVICES}/derived-web", {"metadata": {"annotations": {"fleetlog.io/service-import": "web"}}}
    )

    async def selects() -> object:
        found = await ground.service_named("derived-web")
        return found is not None and found["spec"].get("selector")

    await comes_to("it selects nothing", selects, None)


async def test_an_ingress_shows_where_its_backends_are(ground: Ground) -> None:
    await ground.control.create(INGRESSES, INGRESS)
    await eventually(lambda: _has(ground.warnings, "NoSuchService"))
    spec = {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 81, "targetPort": 8080}]}
    await ground.control.create(SERVICES, {"metadata": {"name": "web"}, "spec": spec})
    await eventually(lambda: _has(ground.warnings, "NotPropagated"))
    key = ObjectKey("", "services", "default", "web")

    def held(name: str) -> Known:
        return WorkRendered(cluster=name, key=key, uid="s", api_version="v1", kind="Service", digest="d")

    for name in ("m1", "m2"):
        await ground.exports(name, "10.1.0.1")
        await ground.log.given(held(name))

    async def status() -> object:
        return await ground.status(INGRESSES)

    await comes_to("status", status, {"serviceLocations": [{"name": "web", "clusters": ["m1", "m2"]}]})
    # The addresses are those of its controller, which writes nothing else.
    address = {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}
    await ground.control.patch(f"{INGRESSES}/web/status", {"status": address})
    await ground.log.given(WorkWithdrawn(cluster="m2", key=key, uid="s", api_version="v1", kind="Service"))
    await comes_to("status", status, {**address, "serviceLocations": [{"name": "web", "clusters": ["m1"]}]})
    # Another one that keeps the locations has them from now on, until it takes them away.
    theirs = {"serviceLocations": [{"name": "web", "clusters": ["m3"]}]}
    await ground.control.patch(f"{INGRESSES}/web/status", {"status": theirs})
    await ground.log.given(cluster("m3", actions=("TrafficControl",)), held("m2"), held("m3"))
    await comes_to("status", status, {**address, **theirs, "trafficBlockClusters": ["m3"]})
    await ground.control.patch(f"{INGRESSES}/web/status", {"status": {"serviceLocations": None}})
    every = [{"name": "web", "clusters": ["m1", "m2", "m3"]}]
    await comes_to("status", status, {**address, "serviceLocations": every, "trafficBlockClusters": ["m3"]})


async def _has(look: Callable[[], Awaitable[set[str]]], wanted: str) -> bool:
    return wanted in await look()


async def test_a_large_workload_is_read_when_it_is_evicted(ground: Ground) -> None:
    await ground.control.create(IMPORTS, IMPORT)
    await ground.exports("m1", "10.1.0.1")
    await ground.exports("m2", "10.2.0.1")
    both = {"imported-m1-web-a": ["10.1.0.1"], "imported-m2-web-a": ["10.2.0.1"]}
    await comes_to("slices", ground.slices, both)
    key, service = ObjectKey("apps", "deployments", "default", "web"), ObjectKey("", "services", "default", "web")
    pods = {"template": {"metadata": {"labels": {"app": "web"}, "annotations": {"note": "x" * INLINE_BYTES}}}}
    digest = await Blobs(ground.log.logs["BLOBS"]).put(json.encode({"metadata": {"name": "web"}, "spec": pods}))
    selector = Raw(json.encode({"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}}}))
    task = EvictionTask(from_cluster="m2", reason="ApplicationFailure", producer="ResourceBindingApplicationFailover")
    placed = PlacementDecided(key=key, uid="u", clusters=(TargetCluster("m1"), TargetCluster("m2")))
    await ground.log.given(
        TemplateChanged(key=service, uid="s", api_version="v1", kind="Service", digest="d", manifest=selector),
        TemplateChanged(key=key, uid="u", api_version="apps/v1", kind="Deployment", digest=digest),
        placed,
        EvictionRequested(key=key, uid="u", tasks=(task,)),
    )
    await comes_to("slices", ground.slices, {"imported-m1-web-a": ["10.1.0.1"]})
    (gone,) = [event for event in ground.log.read("endpoints.>") if isinstance(event, EndpointsReleased)]
    assert (gone.reason, gone.gated) == ("Deployment web is being evicted from m2 (ApplicationFailure)", True)
