"""The services between a control plane and a member, in this process, with the control plane behind a proxy.

The address that the services know may be led to another API server, or to an earlier state of the same one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from schemas.codec import Known, decode, encode, subject_of
from schemas.events.cluster import ClusterRemoved
from schemas.events.control_plane import AbsenceConfirmed, AbsenceHeld
from schemas.events.template import TemplateDeleted
from schemas.events.work import WorkWithdrawn
from schemas.manifest import Manifest
from schemas.subjects import absence
from schemas.topology import FACTS, STREAMS
from services._kit.base.clock import SystemClock
from services._kit.base.metrics import KitMetrics
from services._kit.concurrency.supervision import Supervisor
from services._kit.concurrency.tasks import end
from services._kit.content.blobs import Blobs
from services._kit.kube.client import KubeClient, resource_path
from services._kit.log.stream_port import NewMessage
from services._kit.runtime.decision_loop import LoopOptions
from services._kit.runtime.runner import Runner
from services._kit.runtime.service import Context
from services.apiserver.core.request_context import Identity
from services.apiserver.kinds.kind_catalog import builtin_registry
from services.apiserver.server import ApiServer
from services.apiserver.settings import Settings
from services.apiserver.store.memory_store import MemoryStore
from services.cli.common.karmadactl_options import Traits
from services.cli.installation.install_crds import apply_definitions, needed_definitions
from services.cli.members.join import join
from services.cli.members.member_account import MemberAccess, cluster_id
from services.cluster_monitor.app import ClusterMonitor
from services.cluster_monitor.settings import MonitorSettings
from services.detector.app import Detector
from services.detector.settings import DetectorSettings
from services.executor.app import Executor
from services.executor.settings import ExecutorSettings
from services.override_renderer.app import OverrideRenderer
from services.scheduler.app import Scheduler
from services.scheduler.settings import SchedulerSettings
from tests.faults.proxy import Proxy
from tests.support.closing import closing
from tests.support.kubeconfigs import kubeconfig as kubeconfig_of
from tests.support.memory_bus import MemoryBus
from tests.support.memory_log import MemoryLog
from tests.support.waiting import eventually

QUICK = LoopOptions(heartbeat=0.02, takeover_after=30.0)
"""No second instance is started: a machine that stands still for a moment is to end no term."""
TOKEN = "admin"
POLICY: Manifest = {
    "apiVersion": "policy.karmada.io/v1alpha1",
    "kind": "PropagationPolicy",
    "metadata": {"name": "all", "namespace": "shop"},
    "spec": {
        "resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap"}],
        "placement": {"clusterAffinity": {"clusterNames": ["m1"]}},
    },
}


class Endpoint(Struct, frozen=True):
    """One API server with a client of its own."""

    server: ApiServer
    store: MemoryStore
    client: KubeClient

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.server.url.rpartition(":")[2])

    async def uid(self) -> str:
        """Its identity."""
        return await cluster_id(self.client)

    async def make(self, *names: str) -> None:
        """ConfigMaps of these names."""
        path = resource_path("", "v1", "configmaps", "shop")
        for name in names:
            await self.client.create(path, {"metadata": {"name": name}, "data": {"of": name}})

    async def held(self) -> dict[str, str]:
        """Uids of its ConfigMaps by name, but those that every namespace has."""
        listed = await self.client.get(resource_path("", "v1", "configmaps", "shop"))
        return {
            item["metadata"]["name"]: item["metadata"]["uid"]
            for item in listed["items"]
            if not item["metadata"]["name"].startswith("kube-")
        }


class Ground:
    """A control plane behind `proxy`, a member behind `member_proxy`, services, and the log between them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.logs = {stream.name: MemoryLog(stream) for stream in STREAMS}
        self.bus = MemoryBus()
        self.runners: dict[str, Runner[Any, Any]] = {}
        self.services: dict[str, Any] = {}
        self.stack = AsyncExitStack()
        self._running: dict[str, tuple[asyncio.Event, asyncio.Task[None]]] = {}
        self._leads_to: dict[str, int] = {}

    async def endpoint(self, store: MemoryStore | None = None) -> Endpoint:
        """Another API server."""
        store = store or MemoryStore()
        settings = Settings(
            data_dir=self.directory / "servers",
            tokens={TOKEN: Identity(TOKEN, TOKEN, ("system:masters",))},
            tls=False,
        )
        server = ApiServer(store, builtin_registry(), settings)
        await server.start()
        self.stack.push_async_callback(server.stop)
        client = KubeClient.from_token(server.url, TOKEN)
        self.stack.push_async_callback(client.close)
        return Endpoint(server, store, client)

    async def restored(self, store: MemoryStore) -> Endpoint:
        """An API server with the state of a backup."""
        return await self.endpoint(store)

    def lead(self, name: str, to: Endpoint) -> None:
        """Where new connections to an address lead from now on; those that are open go on."""
        self._leads_to[name] = to.port

    async def proxied(self, name: str, to: Endpoint) -> tuple[Proxy, str]:
        """An address that leads to an endpoint, as long as nobody says otherwise."""
        self.lead(name, to)
        proxy = await self.stack.enter_async_context(Proxy(lambda: self._leads_to[name]))
        return proxy, proxy.url.replace("nats://", "http://")

    async def serve(self, service: Any) -> None:
        """Run a service until the ground or the service is closed."""
        stop, ready = asyncio.Event(), asyncio.Event()
        task = asyncio.create_task(self._live(service, ready, stop))
        self._running[service.name] = stop, task
        waiting = asyncio.create_task(ready.wait())
        await asyncio.wait((task, waiting), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()

    async def _live(self, service: Any, ready: asyncio.Event, stop: asyncio.Event) -> None:
        metrics = KitMetrics(service.name)
        instance = f"{service.name}-0"
        runner: Runner[Any, Any] = Runner(service, self.logs, self.bus, instance, options=QUICK, metrics=metrics)
        async with Supervisor(runner.health, metrics.reads):
            context: Context[Any, Any] = Context(
                logs=self.logs,
                projection=runner.projection,
                mark=runner.mark,
                clock=SystemClock(),
                blobs=Blobs(self.logs["BLOBS"]),
                health=runner.health,
                metrics=metrics,
                appender=runner.appender,
                guard=runner.guard,
            )
            await service.start(context)
            self.runners[service.name], self.services[service.name] = runner, service
            task = asyncio.create_task(runner.run())
            ready.set()
            try:
                await stop.wait()
            finally:
                await end(task)
                await service.stop()

    async def stop(self, name: str) -> None:
        """End one service."""
        stop, task = self._running.pop(name)
        stop.set()
        await task

    async def detect(self, **settings: Any) -> None:
        """Run the detector."""
        chosen = DetectorSettings(control_kubeconfig=str(self.kubeconfig), discovery_period=5.0, **settings)
        await self.serve(Detector(chosen))

    async def monitor(self) -> None:
        """Run the cluster monitor."""
        chosen = MonitorSettings(
            control_kubeconfig=str(self.kubeconfig),
            cluster_status_update_frequency=0.2,
            cluster_success_threshold=0.1,
            cluster_failure_threshold=5.0,
        )
        await self.serve(ClusterMonitor(chosen))

    async def close(self) -> None:
        """End everything."""
        for name in list(self._running):
            await self.stop(name)
        await self.stack.aclose()

    @property
    def kubeconfig(self) -> Path:
        """The services' way to the control plane."""
        return self.directory / "control.kubeconfig"

    def write_kubeconfig(self, url: str) -> None:
        """Have the services use an address."""
        self.kubeconfig.write_bytes(msgspec.json.encode(kubeconfig_of(url, {"token": TOKEN})))

    async def facts(self) -> list[Known]:
        """Every fact on the log."""
        return [decode(message.subject, message.data) async for message in self.logs[FACTS.name].read([">"])]

    async def losses(self) -> list[Known]:
        """Everything on the log that takes something away."""
        return [
            fact for fact in await self.facts() if isinstance(fact, TemplateDeleted | ClusterRemoved | WorkWithdrawn)
        ]

    async def hold(self, scope: str = "templates") -> tuple[AbsenceHeld, int] | None:
        """What is held in a scope, and where that stands."""
        message = await self.logs[FACTS.name].last(absence(scope))
        event = decode(message.subject, message.data) if message is not None else None
        return (event, message.seq) if message is not None and isinstance(event, AbsenceHeld) else None

    async def until_held(
        self, holds: Callable[[AbsenceHeld], bool] = lambda _: True, scope: str = "templates"
    ) -> tuple[AbsenceHeld, int]:
        """What is held, once it is."""
        found: list[tuple[AbsenceHeld, int]] = []

        async def seen() -> bool:
            held = await self.hold(scope)
            if held is not None and holds(held[0]):
                found.append(held)
            return bool(found)

        await eventually(seen, f"something held in {scope}")
        return found[-1]

    async def until_released(self, scope: str = "templates") -> None:
        """Return once nothing is held."""

        async def free() -> bool:
            return await self.hold(scope) is None

        await eventually(free, f"nothing held in {scope}")

    async def confirm(self, held: AbsenceHeld, position: int) -> None:
        """What `fleetlog confirm-absence` writes."""
        event = AbsenceConfirmed(
            scope=held.scope,
            held_at=position,
            by="test",
            at=1.0,
            identity=held.identity,
            digest=held.digest,
            count=held.count,
        )
        await self.logs[FACTS.name].append([NewMessage(subject_of(event), encode(event), {})])


@asynccontextmanager
async def ground(directory: Path) -> AsyncIterator[tuple[Ground, Endpoint, Endpoint]]:
    """A ground with a control plane and a member m1 that holds ten ConfigMaps of namespace shop."""
    async with closing(Ground(directory)) as made:
        control, member = await made.endpoint(), await made.endpoint()
        made.proxy, url = await made.proxied("control", control)  # type: ignore[attr-defined]
        made.write_kubeconfig(url)
        await apply_definitions(control.client, needed_definitions())
        await control.client.create("/api/v1/namespaces", {"metadata": {"name": "shop"}})
        made.member_proxy, address = await made.proxied("member", member)  # type: ignore[attr-defined]
        access = MemberAccess(endpoint=address, token=TOKEN)
        await join(control.client, "m1", access, await member.uid(), Traits())
        await made.detect()
        await made.monitor()
        scheduler = SchedulerSettings()
        await made.serve(Scheduler(scheduler))
        await made.serve(OverrideRenderer())
        executor = ExecutorSettings(control_kubeconfig=str(made.kubeconfig))
        await made.serve(Executor(executor))
        policies = resource_path("policy.karmada.io", "v1alpha1", "propagationpolicies", "shop")
        await control.client.create(policies, POLICY)
        await control.make(*(f"c{number}" for number in range(10)))

        async def delivered() -> bool:
            try:
                return len(await member.held()) == 10
            except Exception:  # noqa: BLE001 - the namespace is not there yet
                return False

        await eventually(delivered, "ten copies")
        yield made, control, member


def backup(endpoint: Endpoint) -> MemoryStore:
    """The state of an API server as it is now, without its history."""
    of, store = endpoint.store, MemoryStore()
    for name, bucket in of.buckets.items():
        copied = store.bucket(*name)
        copied.floor = of.revision
        for entry in sorted(bucket.entries(""), key=lambda entry: entry.revision):
            copied.set(entry)
    store.revision = of.revision
    return store
