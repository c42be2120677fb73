"""Runs one simulated member: its API server, the loop that plays the cluster, and the fault port."""

import asyncio
import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import structlog

from services._kit.concurrency.supervision import Supervisor
from services._kit.concurrency.tasks import child, first_of
from services._rules.kubernetes.rbac.user_names import MASTERS
from services.apiserver.core.request_context import Identity
from services.apiserver.kinds.kind_catalog import builtin_registry
from services.apiserver.server import ApiServer
from services.apiserver.settings import Settings
from services.apiserver.store.store_port import Store, StoreReplaced
from services.member_sim.admin import Admin
from services.member_sim.containers.simulated_containers import SimulatedContainers
from services.member_sim.embedded import Embedded
from services.member_sim.loop import Loop
from services.member_sim.request_gate import Gate
from services.member_sim.settings import MemberSettings
from services.member_sim.usage.cluster_usage import ClusterUsage
from services.member_sim.usage.metric_values import MetricValues
from services.member_sim.usage.metrics_kinds import READERS, add_metrics
from services.member_sim.usage.value_groups import add_values, lookup_in
from services.member_sim.world.quota_admission import Quotas
from services.member_sim.world.world_state import State

log = structlog.get_logger(__name__)


class Running(msgspec.Struct, frozen=True, kw_only=True):
    """Where a running member can be reached."""

    name: str
    url: str
    kubeconfig: Path
    admin_url: str
    token: str


async def run_member(settings: MemberSettings, ready: Callable[[Running], None] | None, stop: asyncio.Event) -> None:
    """Run a member until ``stop`` is set; ``ready`` is called once it serves and has its nodes.

    Raises ValueError for settings that cannot work and OSError when a port is taken.
    """
    settings.check()
    async with Supervisor():
        await _run(settings, ready, stop)


async def _run(settings: MemberSettings, ready: Callable[[Running], None] | None, stop: asyncio.Event) -> None:
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    token = settings.token or _kept_token(settings.data_dir / "token")
    kubeconfig = settings.kubeconfig or settings.data_dir / "kubeconfig"
    server = ApiServer(
        store_of(settings),
        builtin_registry(),
        Settings(
            data_dir=settings.data_dir,
            git_version=settings.version,
            tokens={token: Identity("admin", "admin", (MASTERS,))},
            audit_log=settings.audit_log,
            public_url=settings.public_url,
            tls_names=(settings.public_host,) if settings.public_host else (),
            authorization=settings.authorization,
            admission=False,
            # The loop does it, by the clock of the member.
            finished_jobs=False,
            namespace_objects=False,
            quotas=False,
            protect_volumes=True,
            service_accounts=True,
            # The cluster that is simulated lives on this machine, its webhooks included.
            allow_local_extensions=("1",),
        ),
    )
    # By what is there at this moment of the member's clock, and by its spec.
    server.objects.admission.plugins.append(Quotas(server.store))
    state = State()
    usage = ClusterUsage(state)
    add_metrics(server.registry, usage, time.time)
    values = MetricValues(usage, lookup_in(server), time.time)
    add_values(server, values)
    containers = SimulatedContainers(state, time.time)
    server.connections.runtime = containers
    gate = Gate(server, settings.host)
    await server.start(settings.host, settings.port)
    loop_stop = asyncio.Event()
    try:
        ca = server.authority.ca_pem.decode() if server.authority is not None else ""
        loop = Loop(Embedded(server), settings.config(ca), time.time, state)
        await _allow_metrics(server)
        containers.mark = loop.mark
        playing = child(loop.run(loop_stop))
        admin = Admin(loop, usage, values, settings.admin_token or token, gate.set)
        try:
            await admin.start(settings.admin_port)
            await _until_settled(loop, playing)
            server.write_kubeconfig(kubeconfig, name=settings.name, address=settings.public_url)
            _keep(settings.data_dir / "admin.url", admin.url)
            log.info("member ready", member=settings.name, url=server.url, faults=admin.url)
            if ready is not None:
                running = Running(
                    name=settings.name, url=server.url, kubeconfig=kubeconfig, admin_url=admin.url, token=token
                )
                ready(running)
            await _first(stop, playing, server.store)
        finally:
            loop_stop.set()
            await admin.stop()
            await playing
    finally:
        await server.stop()


async def _allow_metrics(server: ApiServer) -> None:
    """Let those who may view objects read what they use, unless a role of that name is there."""
    version, plural = str(READERS["apiVersion"]), "clusterroles"
    if server.local.get(version, plural, "", READERS["metadata"]["name"]) is None:
        await server.local.create(version, plural, READERS)


def store_of(settings: MemberSettings) -> Store:
    """Return the member's store: JetStream when a server is given, memory otherwise."""
    if settings.nats_url:
        from services.apiserver.store.jetstream_store import JetStreamStore
        from services.apiserver.store.secret_encryption import sealing_of

        prefix = f"obj-{settings.name}"
        return JetStreamStore(
            settings.nats_url,
            stream=settings.stream,
            prefix=prefix,
            replicas=settings.replicas,
            connect_options=settings.log_access(),
            # A cluster of its own keeps keys of its own.
            sealing=sealing_of("", settings.data_dir),
        )
    from services.apiserver.store.memory_store import MemoryStore

    return MemoryStore()


async def _until_settled(loop: Loop, playing: asyncio.Task[None]) -> None:
    """Wait until the nodes are there and ready, so that the first pods find them."""
    await first_of(loop.settled(), asyncio.wait({playing}))
    if playing.done():
        await playing


async def _first(stop: asyncio.Event, playing: asyncio.Task[None], store: Store) -> None:
    """Wait for the stop signal, or for the loop to break; its error is raised then.

    Raises StoreReplaced when the objects held are not those stored any more.
    """
    reason = await first_of(store.lost(), stop.wait(), asyncio.wait({playing}))
    if playing.done():
        await playing
    if isinstance(reason, str):
        raise StoreReplaced(reason)


def _kept_token(path: Path) -> str:
    """Return the token of earlier runs, or draw one and keep it readable by the owner only."""
    if path.exists():
        return path.read_text(encoding="utf-8").strip()
    token = secrets.token_urlsafe(24)
    _keep(path, token)
    return token


def _keep(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
