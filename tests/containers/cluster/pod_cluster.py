"""One cluster of three nodes on this machine: its control plane in a thread, its pods in containers."""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
import traceback
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any, Final, Self

import docker
import structlog
from docker.errors import APIError, ImageNotFound, NotFound
from docker.models.containers import Container
from docker.types import IPAMConfig, IPAMPool

from k8s.shared import IMAGE
from schemas.manifest import Manifest
from services._kit.kube.client import KubeClient
from services._rules.kubernetes.rbac.user_names import MASTERS
from services.apiserver.core.request_context import Identity
from services.apiserver.kinds.kind_catalog import builtin_registry
from services.apiserver.server import ApiServer
from services.apiserver.settings import Settings
from services.apiserver.store.memory_store import MemoryStore
from services.member_sim.controllers.kubelet import decide_pod
from services.member_sim.decide import decide
from services.member_sim.embedded import Embedded
from services.member_sim.loop import Loop
from services.member_sim.world.world_model import NODES, NOTHING, PODS, Config, Decision, Key, Turn
from services.member_sim.world.world_state import State
from tests.containers.cluster.followers import Place, Saw, follow
from tests.containers.cluster.kubelet import Kubelet
from tests.containers.cluster.names import known_names
from tests.containers.cluster.node_ports import NodePorts
from tests.containers.cluster.pods import Pod
from tests.e2e.fleet import Failed, Kubectl
from tests.e2e.reading import forget_readers

log = structlog.get_logger(__name__)
NODE_COUNT: Final = 3
_NODES: Final = "system:nodes"
_API: Final = "kubernetes.default.svc"
_LABEL: Final = "fleetlog.test.cluster"
_SUBNETS: Final = [IPv4Network((f"10.{213 + number // 64}.{number % 64 * 4}.0", 22)) for number in range(128)]
_START_SECONDS: Final = 60.0
_LETTING_GO_SECONDS: Final = 10.0
_CALLS: Final = 64
"""Calls of the engine at a time."""
_ENDING: Final = "die"
_FORWARD: Final = Path(__file__).with_name("forwarding.py")
"""The address at which pods reach the API of their cluster; it listens on this machine."""


def without_kubelet(state: State, key: Key, turn: Turn) -> Decision:
    """What the controllers of a cluster do, but for what a kubelet does with pods of its node."""
    if key.resource == PODS:
        pod = state.find(key)
        if pod is not None and state.get(NODES, "", pod["spec"].get("nodeName") or "") is not None:
            return NOTHING
        return decide_pod(state, key, turn)
    return decide(state, key, turn)


class PodCluster:
    """Started by `with`; needs a container engine whose containers reach this machine, as on Linux."""

    def __init__(self, place: Path, name: str) -> None:
        self.place = place
        self.name = name
        self.kubeconfig = place / "cluster.kubeconfig"
        self._engine = docker.from_env(max_pool_size=_CALLS)
        self._ready = threading.Event()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._main, name=name, daemon=True)
        self._failure: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._kubelets: list[Kubelet] = []
        self._names: dict[str, dict[str, list[str]]] = {}
        self._network: Any = None
        self._addresses: Any = iter(())
        self._gateway = ""
        self._api_address = ""
        self._helper: Container | None = None

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def _start(self) -> None:
        for directory in ("hosts", "volumes", "control"):
            (self.place / directory).mkdir()
        self._network, subnet = self._new_network()
        found = subnet.hosts()
        self._gateway = str(next(found))
        self._ports = NodePorts(self._gateway, lambda space, name: self._names.get(space, {}).get(name, []))
        self._addresses = map(str, found)
        self._api_address = self.address()
        bind = f"{self.place / 'volumes'}:/volumes"
        self._helper = self._engine.containers.run(
            IMAGE, ["infinity"], entrypoint=["sleep"], user="0:0", volumes=[bind], detach=True, labels=self._labels()
        )
        self._thread.start()
        while not self._ready.wait(0.05):
            if self._stopped.is_set():
                raise RuntimeError(f"the cluster did not start: {self.unwell()}")

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End everything and remove what was made in the engine."""
        # Its connections would be open when the server of the other end has gone.
        forget_readers()
        if self._loop is not None and self._stop is not None and not self._stopped.is_set():
            self._loop.call_soon_threadsafe(self._stop.set)
        if self._thread.ident is not None:
            self._thread.join(_START_SECONDS)
        if self._helper is not None:
            # Files there belong to users of pods.
            self._helper.exec_run(["sh", "-c", "cp -r /volumes/logs /tmp; rm -rf /volumes/*; mv /tmp/logs /volumes/"])
        for container in self.containers(stopped=True):
            with suppress(NotFound):
                container.remove(force=True, v=True)
        for volume in self._engine.volumes.list(filters={"label": f"{_LABEL}={self.name}"}):
            volume.remove()
        if self._network is not None:
            self._remove_network()
        self._engine.close()

    def _remove_network(self) -> None:
        # The engine lets go of a container's address after the container; Docker 20.10 now and then never does.
        patience = time.monotonic() + _LETTING_GO_SECONDS
        while True:
            try:
                self._network.remove()
            except APIError as error:
                if error.status_code != HTTPStatus.FORBIDDEN:
                    raise
                if time.monotonic() > patience:
                    log.warning("a network stays", network=self._network.name, reason=str(error))
                    return
                time.sleep(0.2)
            else:
                return

    def kubectl(self) -> Kubectl:
        """kubectl of this machine as the cluster's administrator."""
        return Kubectl(self.kubeconfig)

    def containers(self, *, stopped: bool = False) -> list[Container]:
        """Those of the pods, and what the cluster itself needs."""
        return list(self._engine.containers.list(all=stopped, filters={"label": f"{_LABEL}={self.name}"}))

    @property
    def node_address(self) -> str:
        """The address of this machine that stands for all nodes: ports of nodes are there."""
        return self._gateway

    def container(self, pod: str, namespace: str) -> Container:
        """The only container of a pod; raises Failed where there is none."""
        (found,) = self.containers_of(pod, namespace).values()
        return found

    def containers_of(self, pod: str, namespace: str) -> dict[str, Container]:
        """The containers of a pod by the names that they have in it; raises Failed where there is none."""
        prefix = f"{self.name}_{namespace}_{pod}_"
        named = {"name": prefix, "label": f"{_LABEL}={self.name}"}
        listed = {one.name.removeprefix(prefix): one for one in self._engine.containers.list(filters=named)}
        # What is left is the pod's uid and its container; a sandbox has no name in the pod.
        if found := {name.partition("_")[2]: one for name, one in listed.items() if "_" in name}:
            return found
        raise Failed(f"pod {namespace}/{pod} has no container")

    def counted(self) -> str:
        """How many pods and containers there are, for messages."""
        return f"pods: {len(self._pods())}, containers: {len(self.containers())}"

    def address_of(self, service: str, namespace: str) -> str:
        """Where the first ready pod of a Service is reached; raises Failed where none is ready."""
        if self._failure is not None:
            raise RuntimeError(self.unwell())
        found = self._names.get(namespace, {}).get(service)
        if not found:
            raise Failed(f"Service {namespace}/{service} has no ready pod; {self.unwell()}")
        return found[0]

    def unwell(self) -> str:
        """What stands in the way of pods, for messages: refusals, restarts, and a cluster that ended."""
        if self._failure is not None:
            return "".join(traceback.format_exception(self._failure))
        told = [f"{name} was started {number} times more" for name, number in self.restarts().items() if number]
        return "; ".join([*(f"{pod.name}: {pod.refusal}" for pod in self._pods() if pod.refusal), *told])

    def restarts(self) -> dict[str, int]:
        """How often each container of pods was started again."""
        return {container.name: container.restarts for pod in self._pods() for container in pod.containers}

    # What kubelets ask for.

    def create(self, name: str, options: Mapping[str, Any], address: str | None) -> Container:
        """Make a container in the network of pods, or without an address in the network that its options name."""
        where: dict[str, Any] = {}
        if address is not None:
            endpoint = self._engine.api.create_endpoint_config(ipv4_address=address)
            where = {"network": self._network.name, "networking_config": {self._network.name: endpoint}}
        try:
            return self._engine.containers.create(
                **options, **where, name=f"{self.name}_{name}", labels=self._labels(), detach=True
            )
        except ImageNotFound as error:
            # Nothing is fetched: the answer is the same as without a registry.
            raise APIError(f"the engine has no image {options['image']}") from error

    def address(self) -> str:
        """An address of the network that no pod has had."""
        return str(next(self._addresses))

    def unpack(self, directory: Path, packed: bytes, group: int) -> None:
        """Make a directory that is a group's from an archive, with the owners that stand there."""
        inside = f"/volumes/{directory.relative_to(self.place / 'volumes')}"
        assert self._helper is not None
        # As in a cluster: open to all, and what is written into it is the group's.
        made = f"mkdir -p {inside} && chgrp {group} {inside} && chmod 2777 {inside}"
        code, out = self._helper.exec_run(["sh", "-c", made])
        assert code == 0, out
        assert self._helper.put_archive(inside, packed)

    def in_memory(self, name: str, options: str) -> str:
        """Make a volume that containers share in memory, unless it is there; what the engine calls it."""
        made = {"type": "tmpfs", "device": "tmpfs", "o": options}
        return str(self._engine.volumes.create(f"{self.name}_{name}", driver_opts=made, labels=self._labels()).name)

    def drop(self, volumes: Iterable[str]) -> None:
        """Remove volumes in memory."""
        for name in volumes:
            self._engine.volumes.get(name).remove()

    def hosts(self, pod: Manifest) -> Path:
        """The file with the names that a pod knows."""
        meta = pod["metadata"]
        path = self.place / "hosts" / f"{meta['namespace']}_{meta['uid']}"
        path.touch()
        self._write(path)
        return path

    def _labels(self) -> dict[str, str]:
        return {_LABEL: self.name}

    def _new_network(self) -> tuple[Any, IPv4Network]:
        begin = secrets.randbelow(len(_SUBNETS))
        for subnet in _SUBNETS[begin:] + _SUBNETS[:begin]:
            pool = IPAMPool(subnet=str(subnet), gateway=str(next(subnet.hosts())))
            with suppress(APIError):
                ipam = IPAMConfig(pool_configs=[pool])
                # One that an earlier run could not remove has another name.
                name = f"{self.name}-{secrets.token_hex(3)}"
                return self._engine.networks.create(name, ipam=ipam, labels=self._labels()), subnet
        raise Failed("the engine has no room for one more network")

    def _main(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - the thread that started this one tells it
            self._failure = error
        finally:
            self._stopped.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        # Probes and hooks of many pods wait for the engine at the same time.
        self._loop.set_default_executor(ThreadPoolExecutor(_CALLS))
        self._stop = asyncio.Event()
        names = [f"{self.name}-node-{number}" for number in range(1, NODE_COUNT + 1)]
        tokens = {secrets.token_hex(16): name for name in names}
        identities = {token: Identity(f"system:node:{name}", name, (_NODES,)) for token, name in tokens.items()}
        server = ApiServer(
            MemoryStore(),
            builtin_registry(),
            Settings(
                data_dir=self.place / "control",
                git_version="v1.31.4",
                tokens=identities,
                tls_names=(_API, self._gateway),
                authorization="Node,RBAC",
                admission=False,
                # The controllers of the loop do it.
                finished_jobs=False,
                namespace_objects=False,
                quotas=False,
                service_accounts=True,
            ),
        )
        await server.start(self._gateway)
        stop = asyncio.Event()
        clients: list[KubeClient] = []
        try:
            server.write_kubeconfig(self.kubeconfig, name=self.name, groups=(MASTERS,))
            assert server.authority is not None
            ca = server.authority.ca_pem.decode()
            config = Config(member=self.name, nodes=NODE_COUNT, cpu="64", memory="256Gi", ca=ca, terminate_delay=0.0)
            loop = Loop(Embedded(server), config, time.time, decide=without_kubelet)
            self._forwarder(server.port)
            async with asyncio.TaskGroup() as group:
                group.create_task(loop.run(stop))
                await loop.loaded.wait()
                await loop.settled()
                for token, name in tokens.items():
                    client = KubeClient.from_token(server.url, token, ca_pem=ca)
                    clients.append(client)
                    kubelet = Kubelet(client, name, self._gateway, self, self.place / "volumes")
                    self._kubelets.append(kubelet)
                running = [group.create_task(kubelet.run()) for kubelet in self._kubelets]
                followed: dict[str, Saw] = {
                    "/api/v1/endpoints": self._saw_endpoints,
                    "/api/v1/services": self._saw_services,
                    "/api/v1/secrets": partial(self._saw_files, "secret"),
                    "/api/v1/configmaps": partial(self._saw_files, "configMap"),
                }
                running += [group.create_task(follow(self.kubeconfig, path, saw)) for path, saw in followed.items()]
                ends = threading.Thread(target=self._hear, daemon=True)
                ends.start()
                self._ready.set()
                await self._stop.wait()
                for task in running:
                    task.cancel()
                await asyncio.gather(*running, return_exceptions=True)
                self._ports.close()
                stop.set()
        finally:
            for client in clients:
                await client.close()
            await server.stop()

    def _forwarder(self, port: int) -> None:
        options = {
            "image": IMAGE,
            "entrypoint": ["python", "-c", _FORWARD.read_text()],
            "command": ["0.0.0.0", "443", self._gateway, str(port)],
            "sysctls": {"net.ipv4.ip_unprivileged_port_start": "0"},
        }
        self.create("kubernetes", options, self._api_address).start()

    def _hear(self) -> None:
        """Tell pods that their containers ended, for as long as the engine has a connection."""
        wanted = {"label": f"{_LABEL}={self.name}", "event": _ENDING}
        for event in self._engine.events(decode=True, filters=wanted):
            loop = self._loop
            if loop is None or loop.is_closed():
                return
            attributes = event["Actor"]["Attributes"]
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._ended, attributes["name"], int(attributes.get("exitCode", 1)))

    def _ended(self, name: str, code: int) -> None:
        for pod in self._pods():
            for container in pod.containers:
                if name == f"{self.name}_{container.name}":
                    container.ended(code)

    def _pods(self) -> list[Pod]:
        return [pod for kubelet in self._kubelets for pod in list(kubelet.pods.values())]

    async def _saw_endpoints(self, known: Mapping[Place, Manifest], _: set[Place]) -> None:
        """Keep the names of Services in the files of all pods; they lead to pods, ports are not translated."""
        self._names = known_names(known.values())
        for path in (self.place / "hosts").iterdir():
            self._write(path)

    async def _saw_services(self, known: Mapping[Place, Manifest], _: set[Place]) -> None:
        await self._ports.set(known.values())

    async def _saw_files(self, kind: str, known: Mapping[Place, Manifest], changed: set[Place]) -> None:
        for namespace, name in changed & known.keys():
            for kubelet in self._kubelets:
                await kubelet.changed(namespace, kind, name)

    def _write(self, path: Path) -> None:
        """In place: a container sees the file itself, not its name."""
        namespace = path.name.partition("_")[0]
        lines = ["127.0.0.1 localhost", f"{self._api_address} {_API} {_API}.cluster.local kubernetes.default"]
        for space, names in self._names.items():
            for name, addresses in names.items():
                short = f" {name}" if space == namespace else ""
                told = f"{name}.{space}.svc {name}.{space}.svc.cluster.local {name}.{space}{short}"
                lines += [f"{address} {told}" for address in addresses]
        path.write_text("\n".join([*lines, ""]))
