"""A control plane and members that outlive the log, and services on whichever log there is."""

from __future__ import annotations

import asyncio
import base64
import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from schemas.manifest import Manifest
from services._kit.content.master_keys import new_master_keys
from services._kit.kube.client import ApiError, KubeClient, resource_path
from services._kit.kube.list_watch import Decoded, Reflector
from services._kit.log import streams as topology
from services._kit.log.connection import Connection
from services.apiserver.kinds.kind_catalog import builtin_registry
from services.cli.common.logbook import LogAccess, open_log, streams
from services.cli.installation.install_crds import apply_definitions, needed_definitions
from services.cli.log.import_marking import standing
from services.cluster_monitor.app import ClusterMonitor
from services.cluster_monitor.settings import MonitorSettings
from services.detector.app import Detector
from services.detector.settings import DetectorSettings
from services.executor.app import Executor
from services.executor.settings import ExecutorSettings
from services.override_renderer.app import OverrideRenderer
from services.override_renderer.settings import RendererSettings
from services.scheduler.app import Scheduler
from services.scheduler.settings import SchedulerSettings
from tests.support.serving import api_server, run

TOKEN = secrets.token_urlsafe(16)
DEPLOYMENTS = resource_path("apps", "v1", "deployments", "default")
SECRETS = resource_path("", "v1", "secrets", "default")
POLICIES = resource_path("policy.karmada.io", "v1alpha1", "propagationpolicies", "default")
CLUSTERS = resource_path("cluster.karmada.io", "v1alpha1", "clusters")
MEMBERS = ("m1", "m2")


class Sampler:
    """Every state of the Deployments of one member, in order, as a watch shows them."""

    def __init__(self, client: KubeClient) -> None:
        self.states: list[tuple[str, str, int, str]] = []
        """Kind of the change, name, replicas, uid."""
        self._listed = asyncio.Event()
        reflector = Reflector(client, DEPLOYMENTS, self, Decoded(), api_version="apps/v1", kind="Deployment")
        self._task = asyncio.create_task(reflector.run())

    def listed(self, objects: list[Manifest]) -> None:
        """A list; only the first tells nothing new."""
        if self._listed.is_set():
            for manifest in objects:
                self.changed("LISTED", manifest)
        self._listed.set()

    def changed(self, kind: str, manifest: Manifest) -> None:
        """One change."""
        metadata = manifest["metadata"]
        self.states.append((kind, metadata["name"], manifest["spec"]["replicas"], metadata["uid"]))

    async def begin(self) -> Sampler:
        """Return once every later change is seen."""
        await self._listed.wait()
        return self

    async def close(self) -> None:
        """Stop."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


class Members:
    """Clusters that outlive whatever happens to Fleetlog; no controllers run there."""

    def __init__(self) -> None:
        self.members: dict[str, KubeClient] = {}
        self.urls: dict[str, str] = {}
        self.kubeconfigs: dict[str, Path] = {}

    async def held(self, name: str, path: str = DEPLOYMENTS) -> dict[str, Manifest]:
        """The object of a name in every member that has it."""
        found = {}
        for member, client in self.members.items():
            try:
                found[member] = await client.get(f"{path}/{name}")
            except ApiError as error:
                if error.status != 404:
                    raise
        return found

    async def replicas(self, name: str) -> dict[str, int]:
        """Replicas of a Deployment by member."""
        return {member: manifest["spec"]["replicas"] for member, manifest in (await self.held(name)).items()}

    async def uids(self) -> dict[tuple[str, str], str]:
        """The uid of every Deployment by member and name."""
        found = {}
        for member, client in self.members.items():
            for item in (await client.get(DEPLOYMENTS))["items"]:
                found[member, item["metadata"]["name"]] = item["metadata"]["uid"]
        return found

    @asynccontextmanager
    async def samplers(self) -> AsyncIterator[dict[str, Sampler]]:
        """Watches of all members."""
        made = {name: await Sampler(client).begin() for name, client in self.members.items()}
        try:
            yield made
        finally:
            for sampler in made.values():
                await sampler.close()


class World(Members):
    """Members, and a control plane that outlives the log as well; `kubeconfig` is the control plane's."""

    def __init__(self, control: KubeClient, kubeconfig: Path, key_file: Path) -> None:
        super().__init__()
        self.control = control
        self.kubeconfig = kubeconfig
        self.key_file = key_file


async def run_members(stack: AsyncExitStack, made: Members, directory: Path) -> None:
    """Start the members."""
    for name in MEMBERS:
        client, server, kubeconfig = await api_server(stack, directory / name, builtin_registry(), TOKEN)
        made.members[name] = client
        made.urls[name] = server.url
        made.kubeconfigs[name] = kubeconfig


@asynccontextmanager
async def members(directory: Path) -> AsyncIterator[Members]:
    """Two members without a control plane."""
    async with AsyncExitStack() as stack:
        made = Members()
        await run_members(stack, made, directory)
        yield made


@asynccontextmanager
async def world(directory: Path) -> AsyncIterator[World]:
    """A control plane with definitions, and two members without controllers."""
    async with AsyncExitStack() as stack:
        key_file = directory.with_name("keys.json")
        new_master_keys().save(key_file)
        control, kubeconfig = await control_plane(stack, directory / "control")
        made = World(control, kubeconfig, key_file)
        await run_members(stack, made, directory)
        await join(made)
        yield made


async def control_plane(stack: AsyncExitStack, directory: Path) -> tuple[KubeClient, Path]:
    """A control plane with nothing but the definitions."""
    control, _, kubeconfig = await api_server(stack, directory, builtin_registry(), TOKEN)
    await apply_definitions(control, needed_definitions())
    return control, kubeconfig


async def allow(control: KubeClient) -> None:
    """Give a control plane the credentials of the members."""
    for name in MEMBERS:
        ref = {"namespace": "karmada-cluster", "name": name}
        access = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": ref,
            "data": {"token": base64.b64encode(TOKEN.encode()).decode()},
        }
        await control.create(resource_path("", "v1", "secrets", "karmada-cluster"), access)


async def join(made: World) -> None:
    """Make members of the clusters."""
    control = made.control
    await control.create(
        resource_path("", "v1", "namespaces"),
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "karmada-cluster"}},
    )
    await allow(control)
    for name in MEMBERS:
        ref = {"namespace": "karmada-cluster", "name": name}
        spec = {"syncMode": "Push", "apiEndpoint": made.urls[name], "secretRef": ref}
        cluster = {
            "apiVersion": "cluster.karmada.io/v1alpha1",
            "kind": "Cluster",
            "metadata": {"name": name},
            "spec": {**spec, "insecureSkipTLSVerification": True},
        }
        await control.create(CLUSTERS, cluster)


class BlindDetector(Detector):
    """A detector to which the control plane does not offer some kinds (plural names)."""

    def __init__(self, settings: DetectorSettings, hidden: frozenset[str]) -> None:
        super().__init__(settings)
        self._hidden = hidden

    async def start(self, context: Any) -> None:
        """Open the control plane, and leave kinds out of its discovery from now on."""
        await super().start(context)
        client: Any = self._client
        discover = client.discover

        async def discover_less(**options: Any) -> list[Any]:
            return [resource for resource in await discover(**options) if resource.name not in self._hidden]

        client.discover = discover_less


@asynccontextmanager
async def services(
    world: World, url: str, hidden: frozenset[str] = frozenset(), *, schedules: bool = True
) -> AsyncIterator[dict[str, Any]]:
    """The services between a control plane and members, on one log; their runners by name.

    Kinds that are `hidden` are not offered to the detector. Without a scheduler no restore comes to its end.
    """
    async with AsyncExitStack() as stack:
        connection = await Connection.open(url)
        stack.push_async_callback(connection.close)
        await topology.apply(connection)
        common = {"nats_url": url, "http_port": -1}
        keyed = {**common, "secrets_key_file": str(world.key_file)}
        path = str(world.kubeconfig)
        made = {}
        made["executor"] = await run(stack, Executor(e := ExecutorSettings(control_kubeconfig=path, **keyed)), e)
        made["override_renderer"] = await run(stack, OverrideRenderer(), RendererSettings(**keyed))
        if schedules:
            scheduler = SchedulerSettings(enable_scheduler_estimator=False, **common)
            made["scheduler"] = await run(stack, Scheduler(scheduler), scheduler)
        monitor = MonitorSettings(control_kubeconfig=path, cluster_status_update_frequency=1.0, **common)
        made["cluster_monitor"] = await run(stack, ClusterMonitor(monitor), monitor)
        d = DetectorSettings(control_kubeconfig=path, **keyed)
        made["detector"] = await run(stack, BlindDetector(d, hidden), d)
        yield made


async def is_over(url: str) -> bool:
    """Whether no restore is under way on a log."""
    async with open_log(LogAccess(url)) as connection:
        found, _ = await standing(streams(connection)["FACTS"])
        return not found.holds


def deployment(name: str, replicas: int) -> Manifest:
    """A Deployment of one container."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": name}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "web", "image": "registry.example/web:1"}]},
            },
        },
    }


POLICY: Manifest = {
    "apiVersion": "policy.karmada.io/v1alpha1",
    "kind": "PropagationPolicy",
    "metadata": {"name": "everywhere", "namespace": "default"},
    "spec": {
        "resourceSelectors": [
            {"apiVersion": "apps/v1", "kind": "Deployment"},
            {"apiVersion": "v1", "kind": "Secret"},
        ],
        "placement": {"clusterAffinity": {"clusterNames": list(MEMBERS)}},
    },
}


async def scale(client: KubeClient, name: str, replicas: int) -> None:
    """Change the replicas of a Deployment."""
    await client.patch(f"{DEPLOYMENTS}/{name}", {"spec": {"replicas": replicas}})
