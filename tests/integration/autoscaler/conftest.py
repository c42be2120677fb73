"""A control plane, two simulated members and a source of metrics for all tests; the service and its log for each."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp
import pytest_asyncio
from msgspec.structs import replace

from schemas.events.cluster import ClusterChanged
from schemas.keys import ObjectKey
from schemas.manifest import Manifest
from services._kit.kube.client import ApiError, KubeClient, resource_path
from services.apiserver.core.request_context import Identity
from services.apiserver.kinds.kind_catalog import builtin_registry
from services.apiserver.server import ApiServer
from services.apiserver.settings import Settings
from services.apiserver.store.memory_store import MemoryStore
from services.autoscaler.app import Autoscaler
from services.autoscaler.reading.metric_source import ControlPlaneMetrics
from services.autoscaler.settings import AutoscalerSettings
from services.cli.installation.install_crds import apply_definitions, needed_definitions
from services.member_sim.app import Running, run_member
from services.member_sim.settings import MemberSettings
from tests.support import facts
from tests.support.memory_installation import MemoryInstallation
from tests.support.metric_member import MetricMember, metric_member
from tests.support.waiting import comes_to, eventually

AUTOSCALING = "autoscaling.karmada.io/v1alpha1"
MEMBERS = ("m1", "m2")
CPU: Manifest = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
}
_NUMBERS = count(1)


class SetClock:
    """The machine's clock, which a test sets; implements the port Clock."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def now(self) -> float:
        """Seconds since 1970."""
        return time.time() + self.ahead

    def monotonic(self) -> float:
        """Seconds on a clock that never jumps."""
        return time.monotonic()

    def set(self, now: float) -> None:
        """Let it be that time."""
        self.ahead = now - time.time()


class Ground:
    """Everything that the service talks to."""

    def __init__(
        self, control: KubeClient, kubeconfig: Path, members: dict[str, Running], source: MetricMember
    ) -> None:
        self.control = control
        self.members = members
        self.source = source
        self.clients: dict[str, KubeClient] = {}
        self._kubeconfig = kubeconfig

    def path(self, name: str = "", subresource: str = "") -> str:
        """URL path of Deployments."""
        return resource_path("apps", "v1", "deployments", "default", name, subresource)

    def scaling(self, plural: str, name: str = "") -> str:
        """URL path of FederatedHPAs or CronFederatedHPAs."""
        return resource_path("autoscaling.karmada.io", "v1alpha1", plural, "default", name)

    def cluster(self, name: str, *, ready: bool = True) -> ClusterChanged:
        """The fact about a member."""
        reference = {"namespace": "default", "name": name}
        url = self.members[name].url
        fact = facts.cluster(name, apiEndpoint=url, secretRef=reference, insecureSkipTLSVerification=True)
        conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
        return facts.edited(fact, status={"conditions": conditions})  # type: ignore[no-any-return]

    async def ask(self, member: str, path: str, **body: Any) -> None:
        """Have a member play something."""
        running = self.members[member]
        headers = {"Authorization": f"Bearer {running.token}"}
        async with (
            aiohttp.ClientSession() as session,
            session.post(running.admin_url + path, json=body, headers=headers) as answer,
        ):
            assert answer.status == 200, await answer.text()

    async def use(self, name: str, cpu: str) -> None:
        """Let each pod of a Deployment use a share of what it requests, in both members."""
        for member in MEMBERS:
            await self.ask(member, "/load", kind="Deployment", namespace="default", name=name, cpu=cpu)

    async def replicas(self, name: str) -> int:
        """Replicas of a template."""
        return int((await self.control.get(self.path(name)))["spec"]["replicas"])

    async def autoscaler(self, name: str, target: str = "", metrics: Sequence[Manifest] = (CPU,), **spec: Any) -> None:
        """A FederatedHPA, of the Deployment of its name unless another is named."""
        reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": target or name}
        fields = {"scaleTargetRef": reference, "minReplicas": 1, "maxReplicas": 10, "metrics": list(metrics), **spec}
        await self.control.create(self.scaling("federatedhpas"), {"metadata": {"name": name}, "spec": fields})

    async def schedule(self, name: str, *rules: Manifest) -> None:
        """A CronFederatedHPA of the Deployment of its name."""
        reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
        spec = {"scaleTargetRef": reference, "rules": list(rules)}
        await self.control.create(self.scaling("cronfederatedhpas"), {"metadata": {"name": name}, "spec": spec})

    async def conditions(self, name: str) -> dict[str, tuple[str, str, str]]:
        """Status, reason and message of the conditions of a FederatedHPA."""
        status = (await self.control.get(self.scaling("federatedhpas", name))).get("status") or {}
        return {
            item["type"]: (item["status"], item["reason"], item["message"]) for item in status.get("conditions") or ()
        }

    async def says(self, name: str, kind: str, reason: str) -> str:
        """The message of a condition, once it has this reason."""

        async def look() -> object:
            return (await self.conditions(name)).get(kind, ("", "", ""))[1]

        await comes_to(f"condition {kind} of {name}", look, reason)
        return (await self.conditions(name))[kind][2]

    async def come_to(self, name: str, replicas: int) -> None:
        """Return once a template has so many replicas."""
        await comes_to(f"replicas of {name}", lambda: self.replicas(name), replicas)

    async def warnings(self, name: str) -> dict[str, str]:
        """Messages of the Events about an object, by reason."""
        listed = await self.control.get(resource_path("", "v1", "events", "default"))
        return {item["reason"]: item["message"] for item in listed["items"] if item["involvedObject"]["name"] == name}

    async def clear(self) -> None:
        """Take away what a test has made."""
        for plural in ("federatedhpas", "cronfederatedhpas"):
            for item in (await self.control.get(self.scaling(plural)))["items"]:
                await self.control.delete(self.scaling(plural, item["metadata"]["name"]))
        for client in (self.control, *self.clients.values()):
            for item in (await client.get(self.path()))["items"]:
                await client.delete(self.path(item["metadata"]["name"]))
        for member in MEMBERS:
            await self.ask(member, "/faults", mode="none")
        self.source.hangs = False


class Scaled:
    """One Deployment, and the facts about it that other services would write."""

    def __init__(self, ground: Ground, house: MemoryInstallation, name: str) -> None:
        self.name = name
        self.key = ObjectKey("apps", "deployments", "default", name)
        self.uid = ""
        self._ground = ground
        self._house = house
        self._generation = 0

    async def create(self, m1: int, m2: int) -> None:
        """Let it run in both members."""
        template = await self._ground.control.create(self._ground.path(), _deployment(self.name, m1 + m2))
        self.uid = template["metadata"]["uid"]
        for member, replicas in (("m1", m1), ("m2", m2)):
            await self._ground.clients[member].create(self._ground.path(), _deployment(self.name, replicas))
        await self._run(m1, m2)
        await self.divided(m1, m2)

    async def _run(self, m1: int, m2: int) -> None:
        for member, replicas in (("m1", m1), ("m2", m2)):
            await comes_to(f"pods in {member}", partial(self._ready, member), replicas)

    async def _ready(self, member: str) -> int:
        live = await self._ground.clients[member].get(self._ground.path(self.name))
        return int((live.get("status") or {}).get("readyReplicas") or 0)

    async def divided(self, m1: int, m2: int) -> None:
        """Say that its present replicas are divided like this, and that the members have as many."""
        self._generation += 1
        of: Manifest = {"key": self.key, "uid": self.uid}
        await self._house.given(
            replace(facts.template(), generation=self._generation, **of),
            replace(facts.binding(m1 + m2), generation=self._generation, **of),
            replace(facts.placement(m1=m1, m2=m2), binding_generation=self._generation, **of),
            replace(facts.rollup(m1={"replicas": m1}, m2={"replicas": m2}), **of),
        )

    async def follows(self, m1: int, m2: int) -> None:
        """Have the members run so many, as the template says."""
        for member, replicas in (("m1", m1), ("m2", m2)):
            patch = {"spec": {"replicas": replicas}}
            await self._ground.clients[member].patch(self._ground.path(self.name), patch)
        await self._run(m1, m2)
        await self.divided(m1, m2)


class Stage:
    """A ground with an empty log on which the service runs."""

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        self.clock = SetClock()
        self.house = MemoryInstallation(self.clock)
        self.rounds = 0
        """Rounds of all autoscalers that have ended."""

    async def target(self, m1: int = 2, m2: int = 2) -> Scaled:
        """A Deployment that runs in both members."""
        made = Scaled(self.ground, self.house, f"web-{next(_NUMBERS)}")
        await made.create(m1, m2)
        return made

    @asynccontextmanager
    async def service(self) -> AsyncIterator[Autoscaler]:
        """The service, reading twice in a second, without windows."""
        settings = AutoscalerSettings(
            control_kubeconfig=str(self.ground._kubeconfig),
            horizontal_pod_autoscaler_sync_period=0.5,
            horizontal_pod_autoscaler_downscale_stabilization=0.0,
            horizontal_pod_autoscaler_cpu_initialization_period=0.0,
            horizontal_pod_autoscaler_initial_readiness_delay=0.0,
            metrics_timeout=2.0,
        )
        service = Autoscaler(settings)
        client = KubeClient(self.ground.source.url, ssl_context=None, headers={})
        try:
            async with self.house.running(service):
                # Beside the control plane, as behind an APIService of it.
                service._reader._source = ControlPlaneMetrics(client, settings.metrics_timeout, 4)
                ended = service._metrics.round_ended

                def counted(seconds: float, *, succeeded: bool) -> None:
                    ended(seconds, succeeded=succeeded)
                    self.rounds += succeeded

                service._metrics.round_ended = counted  # type: ignore[method-assign]
                yield service
        finally:
            await client.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ground(tmp_path_factory: Any) -> AsyncIterator[Ground]:
    """All of it, without the rules of admission: a control plane that lacks our webhook lets everything in."""
    place = tmp_path_factory.mktemp("autoscaler")
    async with AsyncExitStack() as stack:
        tokens = {"root": Identity("root", "", ("system:masters",))}
        chosen = Settings(data_dir=place, tokens=tokens, tls=False, controllers=False, admission=False)
        server = ApiServer(MemoryStore(), builtin_registry(), chosen)
        await server.start()
        stack.push_async_callback(server.stop)
        server.write_kubeconfig(place / "kubeconfig")
        control = await KubeClient.from_kubeconfig(place / "kubeconfig")
        stack.push_async_callback(control.close)
        await apply_definitions(control, needed_definitions())
        members = {name: await _member(stack, name, place / name) for name in MEMBERS}
        source = await stack.enter_async_context(metric_member())
        made = Ground(control, place / "kubeconfig", members, source)
        for name, running in members.items():
            client = made.clients[name] = await KubeClient.from_kubeconfig(running.kubeconfig)
            stack.push_async_callback(client.close)
            data = {"token": base64.b64encode(running.token.encode()).decode()}
            await control.create(
                resource_path("", "v1", "secrets", "default"), {"metadata": {"name": name}, "data": data}
            )

        async def served() -> bool:
            try:
                return bool(await control.get(made.scaling("federatedhpas")))
            except ApiError:
                return False

        await eventually(served, "the definitions")
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def stage(ground: Ground) -> AsyncIterator[Stage]:
    """An empty log that knows both members."""
    made = Stage(ground)
    await made.house.given(*(ground.cluster(name) for name in MEMBERS))
    yield made
    await ground.clear()


async def _member(stack: AsyncExitStack, name: str, directory: Path) -> Running:
    stop, ready = asyncio.Event(), asyncio.get_running_loop().create_future()
    settings = MemberSettings(name=name, nodes=1, data_dir=directory)
    task = asyncio.create_task(run_member(settings, ready.set_result, stop))

    async def end() -> None:
        stop.set()
        await task

    stack.push_async_callback(end)
    await asyncio.wait((task, ready), return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        task.result()
    found: Running = await ready
    return found


def _deployment(name: str, replicas: int) -> Manifest:
    labels = {"app": name}
    container = {"name": "main", "image": "nginx:1.27", "resources": {"requests": {"cpu": "100m"}}}
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }
