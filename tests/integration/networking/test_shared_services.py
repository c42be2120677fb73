"""The networking service beside a control plane with a MultiClusterService: facts in, its status and Events out."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw
from msgspec.structs import replace

from schemas.codec import Known, encode, subject_of
from schemas.endpoints import ServiceSlice, SliceEndpoint
from schemas.events.binding import BindingReleased, BindingRequested, PolicyRef
from schemas.events.endpoints import EndpointsCollected, EndpointsReleased
from schemas.events.observed import WorkObserved
from schemas.events.rollup import ClusterStatusItem, StatusRolledUp
from schemas.events.work import WorkRendered, WorkWithdrawn
from schemas.keys import ObjectKey
from services._kit.kube.client import KubeClient, resource_path
from services._kit.log.stream_port import NewMessage
from services._rules.endpoints.multi_cluster_services import marker_key
from services.apiserver.kinds.kind_catalog import builtin_registry
from services.cli.installation.install_crds import apply_definitions, needed_definitions
from services.networking.app import Networking
from services.networking.settings import NetworkingSettings
from tests.support.facts import SHARED, shared, standing
from tests.support.memory_installation import MemoryInstallation
from tests.support.serving import api_server
from tests.support.waiting import comes_to

API = "networking.karmada.io/v1alpha1"
PATH = resource_path("networking.karmada.io", "v1alpha1", "multiclusterservices", "default")
MARKER, SERVICE = marker_key("default", "web"), ObjectKey("", "services", "default", "web")


class Ground:
    """The control plane, a log in memory, and the service between them."""

    def __init__(self, control: KubeClient, kubeconfig: Path) -> None:
        self.control = control
        self.log = MemoryInstallation()
        self.service = Networking(NetworkingSettings(control_kubeconfig=str(kubeconfig)))
        self.uid = ""

    async def create(self, kind: str) -> None:
        """A user creates the MultiClusterService, and the detector records it."""
        spec = {"types": [kind], "providerClusters": [{"name": "m1"}], "consumerClusters": [{"name": "m2"}]}
        body = {"apiVersion": API, "kind": "MultiClusterService", "metadata": {"name": "web"}, "spec": spec}
        made = await self.control.create(PATH, body)
        self.uid = made["metadata"]["uid"]
        await self.log.given(standing("m1"), standing("m2"), shared(("m1",), ("m2",), uid=self.uid, type=kind))

    async def observed(self, event: Known) -> None:
        """Append an observation."""
        await self.log.logs["OBSERVED"].append([NewMessage(subject_of(event), encode(event), {})])

    async def status(self) -> dict[str, Any]:
        """Status of the MultiClusterService."""
        return (await self.control.get(f"{PATH}/web")).get("status") or {}

    async def conditions(self) -> object:
        """Its conditions by type."""
        return {item["type"]: item["reason"] for item in (await self.status()).get("conditions") or ()}

    async def reasons(self) -> set[str]:
        """Reasons of the Events about it."""
        found = await self.control.get(resource_path("", "v1", "events", "default"))
        return {item["reason"] for item in found["items"] if item["involvedObject"]["kind"] == "MultiClusterService"}


@pytest.fixture
async def ground(tmp_path: Path) -> AsyncIterator[Ground]:
    """A running service beside an empty control plane."""
    async with AsyncExitStack() as stack:
        control, _, kubeconfig = await api_server(stack, tmp_path, builtin_registry(), "root")
        await apply_definitions(control, needed_definitions())
        made = Ground(control, kubeconfig)
        await stack.enter_async_context(made.log.running(made.service))
        yield made


async def test_endpoints_are_collected_and_its_status_follows(ground: Ground) -> None:
    await ground.create("CrossCluster")
    work = WorkRendered(
        cluster="m1",
        key=MARKER,
        uid=ground.uid,
        api_version=API,
        kind="MultiClusterService",
        digest="d",
        suspended=True,
    )
    request = BindingRequested(
        key=SERVICE,
        uid="w1",
        api_version="v1",
        kind="Service",
        spec=Raw(b"{}"),
        policy=PolicyRef(SHARED, "id-1", 1),
    )
    await ground.log.given(work, request)
    slices = (ServiceSlice("web-a", "IPv4", (SliceEndpoint(("10.1.0.1",)),)),)
    await ground.observed(WorkObserved(cluster="m1", key=MARKER, uid=ground.uid, endpoints=slices, at=1.0))
    both = {"ServiceApplied": "ServiceAppliedSucceed", "EndpointSliceDispatched": "EndpointSliceDispatchedSucceed"}
    await comes_to("conditions", ground.conditions, both)
    await comes_to("events", ground.reasons, {"SyncServiceSucceed", "DispatchEndpointSliceSucceed"})
    (event,) = ground.log.read("endpoints.>")
    assert isinstance(event, EndpointsCollected)
    # A consumer refuses the slice; later the Service is gone, and then the provider.
    key = ObjectKey("discovery.k8s.io", "endpointslices", "default", "m1-web-a")
    refusal = WorkObserved(cluster="m2", key=key, uid=ground.uid, reason="AppliedFailed", message="it exists", at=2.0)
    await ground.observed(refusal)
    await comes_to(
        "conditions", ground.conditions, {**both, "EndpointSliceDispatched": "EndpointSliceDispatchedFailed"}
    )
    await ground.observed(replace(refusal, applied=True, message="", reason=""))
    await comes_to("conditions", ground.conditions, both)
    await ground.log.given(BindingReleased(key=SERVICE, uid="w1"))
    await comes_to("conditions", ground.conditions, {**both, "ServiceApplied": "ServiceAppliedFailed"})
    await ground.log.given(
        WorkWithdrawn(cluster="m1", key=MARKER, uid=ground.uid, api_version=API, kind="MultiClusterService")
    )

    async def released() -> object:
        return [type(event) for event in ground.log.read("endpoints.>")][-1]

    await comes_to("released", released, EndpointsReleased)


async def test_load_balancers_of_members_are_shown(ground: Ground) -> None:
    await ground.create("LoadBalancer")
    status = Raw(b'{"loadBalancer":{"ingress":[{"ip":"1.2.3.4"}]}}')
    await ground.log.given(
        StatusRolledUp(key=SERVICE, uid="w1", items=(ClusterStatusItem(cluster="m1", applied=True, status=status),))
    )

    async def ingress() -> object:
        return ((await ground.status()).get("loadBalancer") or {}).get("ingress")

    await comes_to("ingress", ingress, [{"ip": "1.2.3.4"}])
