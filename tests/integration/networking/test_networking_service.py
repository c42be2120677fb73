"""The networking service over a control plane: it writes what follows from reports, and nothing that is not its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw, json

from schemas.codec import Known, encode, subject_of
from schemas.endpoints import PortOfSlice, ServiceSlice, SliceEndpoint
from schemas.events.binding import BindingRequested, PolicyRef
from schemas.events.endpoints import EndpointsCollected, EndpointsReleased
from schemas.events.eviction import EvictionRequested, EvictionTask
from schemas.events.observed import WorkObserved
from schemas.events.placement import PlacementDecided, TargetCluster
from schemas.events.rollup import ClusterStatusItem, StatusRolledUp
from schemas.events.template import TemplateChanged
from schemas.events.work import WorkRendered, WorkWithdrawn
from schemas.keys import ObjectKey
from schemas.manifest import INLINE_BYTES, Manifest
from services._kit.content.blobs import Blobs
from services._kit.kube.client import ApiError, KubeClient, resource_path
from services._kit.log.stream_port import NewMessage
from services._rules.constants import NETWORKING_API
from services._rules.endpoints.dispatched_slices import slice_key
from services._rules.endpoints.multi_cluster_services import marker_key
from services.apiserver.kinds.kind_catalog import builtin_registry
from services.cli.installation.install_crds import apply_definitions, needed_definitions
from services.networking.app import Networking
from services.networking.settings import NetworkingSettings
from tests.support.facts import SHARED, cluster, shared, standing
from tests.support.memory_installation import MemoryInstallation
from tests.support.serving import api_server
from tests.support.waiting import comes_to, eventually

GROUP, API = "multicluster.x-k8s.io", "multicluster.x-k8s.io/v1alpha1"
KEY = ObjectKey(GROUP, "serviceexports", "default", "web")
SERVICE = ObjectKey("", "services", "default", "web")
SERVICES = resource_path("", "v1", "services", "default")
SLICES = resource_path("discovery.k8s.io", "v1", "endpointslices", "default")
EXPORTS = resource_path(GROUP, "v1alpha1", "serviceexports", "default")
IMPORTS = resource_path(GROUP, "v1alpha1", "serviceimports", "default")
SHARED_SERVICES = resource_path("networking.karmada.io", "v1alpha1", "multiclusterservices", "default")
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

    async def told(self, *wanted: tuple[str, str]) -> None:
        """Return once there are Events of these types with these reasons."""

        async def look() -> bool:
            found = await self.control.get(resource_path("", "v1", "events", "default"))
            return {(item["type"], item["reason"]) for item in found["items"]} >= set(wanted)

        await comes_to(f"Events {wanted}", look)

    async def status(self, path: str) -> dict[str, Any]:
        return (await self.control.get(f"{path}/web")).get("status") or {}

    async def conditions(self, path: str) -> dict[str, tuple[str, str]]:
        """Status and reason of each condition."""
        found = (await self.status(path)).get("conditions") or ()
        return {item["type"]: (item["status"], item["reason"]) for item in found}


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

    fine = {"Valid": ("True", "EndpointsCollected"), "Conflict": ("False", "NoConflicts")}
    await comes_to("conditions", lambda: ground.conditions(EXPORTS), fine)
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

    await ground.told(("Warning", "SyncDerivedServiceFailed"), ("Warning", "SyncEndpointSliceFailed"))
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
    await ground.told(("Warning", "NoSuchService"))
    spec = {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 81, "targetPort": 8080}]}
    await ground.control.create(SERVICES, {"metadata": {"name": "web"}, "spec": spec})
    await ground.told(("Warning", "NotPropagated"))

    def held(name: str) -> Known:
        return WorkRendered(cluster=name, key=SERVICE, uid="s", api_version="v1", kind="Service", digest="d")

    for name in ("m1", "m2"):
        await ground.exports(name, "10.1.0.1")
        await ground.log.given(held(name))

    async def status() -> object:
        return await ground.status(INGRESSES)

    await comes_to("status", status, {"serviceLocations": [{"name": "web", "clusters": ["m1", "m2"]}]})
    # The addresses are those of its controller, which writes nothing else.
    address = {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}
    await ground.control.patch(f"{INGRESSES}/web/status", {"status": address})
    await ground.log.given(WorkWithdrawn(cluster="m2", key=SERVICE, uid="s", api_version="v1", kind="Service"))
    await comes_to("status", status, {**address, "serviceLocations": [{"name": "web", "clusters": ["m1"]}]})
    # Another one that keeps the locations has them from now on, until it takes them away.
    theirs = {"serviceLocations": [{"name": "web", "clusters": ["m3"]}]}
    await ground.control.patch(f"{INGRESSES}/web/status", {"status": theirs})
    await ground.log.given(cluster("m3", actions=("TrafficControl",)), held("m2"), held("m3"))
    await comes_to("status", status, {**address, **theirs, "trafficBlockClusters": ["m3"]})
    await ground.control.patch(f"{INGRESSES}/web/status", {"status": {"serviceLocations": None}})
    every = [{"name": "web", "clusters": ["m1", "m2", "m3"]}]
    await comes_to("status", status, {**address, "serviceLocations": every, "trafficBlockClusters": ["m3"]})


async def share(ground: Ground, kind: str) -> str:
    """A user creates a MultiClusterService, and the detector records it; its uid."""
    spec = {"types": [kind], "providerClusters": [{"name": "m1"}], "consumerClusters": [{"name": "m2"}]}
    body = {"apiVersion": NETWORKING_API, "kind": "MultiClusterService", "metadata": {"name": "web"}, "spec": spec}
    made = await ground.control.create(SHARED_SERVICES, body)
    uid: str = made["metadata"]["uid"]
    await ground.log.given(standing("m1"), standing("m2"), shared(("m1",), ("m2",), uid=uid, type=kind))
    return uid


async def test_what_is_shared_is_collected_and_told(ground: Ground) -> None:
    uid = await share(ground, "CrossCluster")
    marker = marker_key("default", "web")
    given: dict[str, Any] = {"key": marker, "uid": uid, "api_version": NETWORKING_API, "kind": "MultiClusterService"}
    bound: dict[str, Any] = {"key": SERVICE, "uid": "w1", "api_version": "v1", "kind": "Service", "spec": Raw(b"{}")}
    await ground.log.given(
        WorkRendered(cluster="m1", digest="d", suspended=True, **given),
        BindingRequested(**bound, policy=PolicyRef(SHARED, "id-1", 1)),
    )
    slices = (ServiceSlice("web-a", "IPv4", (SliceEndpoint(("10.1.0.1",)),)),)
    await ground.observed(WorkObserved(cluster="m1", key=marker, uid=uid, endpoints=slices, at=1.0))
    both = {
        "ServiceApplied": ("True", "ServiceAppliedSucceed"),
        "EndpointSliceDispatched": ("True", "EndpointSliceDispatchedSucceed"),
    }
    await comes_to("conditions", lambda: ground.conditions(SHARED_SERVICES), both)
    await ground.told(("Normal", "SyncServiceSucceed"), ("Normal", "DispatchEndpointSliceSucceed"))
    (event,) = ground.log.read("endpoints.>")
    assert isinstance(event, EndpointsCollected)
    refusal = WorkObserved(cluster="m2", key=slice_key("default", "m1-web-a"), uid=uid, message="it exists", at=2.0)
    await ground.observed(refusal)
    failed = {**both, "EndpointSliceDispatched": ("False", "EndpointSliceDispatchedFailed")}
    await comes_to("conditions", lambda: ground.conditions(SHARED_SERVICES), failed)


async def test_load_balancers_of_members_are_shown(ground: Ground) -> None:
    await share(ground, "LoadBalancer")
    status = Raw(b'{"loadBalancer":{"ingress":[{"ip":"1.2.3.4"}]}}')
    item = ClusterStatusItem(cluster="m1", applied=True, status=status)
    await ground.log.given(StatusRolledUp(key=SERVICE, uid="w1", items=(item,)))

    async def found() -> object:
        return await ground.status(SHARED_SERVICES)

    await comes_to("status", found, {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}})


async def test_a_large_workload_is_read_when_it_is_evicted(ground: Ground) -> None:
    await ground.control.create(IMPORTS, IMPORT)
    await ground.exports("m1", "10.1.0.1")
    await ground.exports("m2", "10.2.0.1")
    both = {"imported-m1-web-a": ["10.1.0.1"], "imported-m2-web-a": ["10.2.0.1"]}
    await comes_to("slices", ground.slices, both)
    key = ObjectKey("apps", "deployments", "default", "web")
    pods = {"template": {"metadata": {"labels": {"app": "web"}, "annotations": {"note": "x" * INLINE_BYTES}}}}
    digest = await Blobs(ground.log.logs["BLOBS"]).put(json.encode({"metadata": {"name": "web"}, "spec": pods}))
    selector = Raw(json.encode({"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}}}))
    task = EvictionTask(from_cluster="m2", reason="ApplicationFailure", producer="ResourceBindingApplicationFailover")
    placed = PlacementDecided(key=key, uid="u", clusters=(TargetCluster("m1"), TargetCluster("m2")))
    await ground.log.given(
        TemplateChanged(key=SERVICE, uid="s", api_version="v1", kind="Service", digest="d", manifest=selector),
        TemplateChanged(key=key, uid="u", api_version="apps/v1", kind="Deployment", digest=digest),
        placed,
        EvictionRequested(key=key, uid="u", tasks=(task,)),
    )
    await comes_to("slices", ground.slices, {"imported-m1-web-a": ["10.1.0.1"]})
    (gone,) = [event for event in ground.log.read("endpoints.>") if isinstance(event, EndpointsReleased)]
    assert (gone.reason, gone.gated) == ("Deployment web is being evicted from m2 (ApplicationFailure)", True)
