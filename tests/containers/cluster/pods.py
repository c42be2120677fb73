"""Makes the containers of one pod, runs them until it is deleted, and reports what became of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec
import structlog
from docker.errors import APIError
from docker.models.containers import Container

from schemas.manifest import Manifest
from services._kit.concurrency.tasks import set_within
from services._kit.kube.client import ApiError, KubeClient, Unreachable
from tests.containers.cluster.pod_containers import PodContainer, now
from tests.containers.cluster.pod_files import PodFiles, Unpacker
from tests.containers.cluster.pod_options import Unsupported, check, engine_options, needs_sandbox, sandbox_options
from tests.containers.cluster.volumes import PodSources

log = structlog.get_logger(__name__)
RETRY: Final = 1.0


class Engine(Unpacker, Protocol):
    """What kubelets need of the place where containers run."""

    def create(self, name: str, options: Mapping[str, Any], address: str | None) -> Container:
        """Make a container in the network of pods, or without an address in the network that its options name."""

    def address(self) -> str:
        """An address of that network that no pod has had."""

    def drop(self, volumes: Iterable[str]) -> None:
        """Remove volumes in memory."""

    def hosts(self, pod: Manifest) -> Path:
        """The file with the names that a pod knows."""


class Pod:
    """One pod from its binding to its end; `manifest` is the newest that is known of it."""

    def __init__(self, client: KubeClient, engine: Engine, manifest: Manifest, node_address: str, place: Path) -> None:
        self.manifest = manifest
        self.doomed = asyncio.Event()
        self.refusal = ""
        self._since: dict[str, tuple[str, str]] = {}
        self._client = client
        self._engine = engine
        self._place = place
        meta = manifest["metadata"]
        self.name = f"{meta['namespace']}_{meta['name']}_{meta['uid'][:8]}"
        self.files = PodFiles(engine, place, self.name)
        self._path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
        self._node_address = node_address
        self.address = engine.address()
        self.containers = [
            PodContainer(spec, f"{self.name}_{spec['name']}", self.address, self._report)
            for spec in manifest["spec"]["containers"]
        ]
        self._sandbox: Container | None = None
        self._reporting = asyncio.Lock()
        self._reported = b""

    def saw(self, manifest: Manifest) -> None:
        """A newer version of the pod."""
        self.manifest = manifest
        if "deletionTimestamp" in manifest["metadata"]:
            self.doomed.set()

    async def live(self) -> None:
        """Run until the pod is deleted, then take it away."""
        try:
            if await self._prepared():
                async with asyncio.TaskGroup() as group:
                    for container in self.containers:
                        group.create_task(container.run(self.doomed, self._grace))
        finally:
            await asyncio.to_thread(self._take_away)
        await self._gone()

    async def _prepared(self) -> bool:
        """Make the containers without starting them; False when the pod was deleted before they could be made."""
        while not self.doomed.is_set():
            try:
                await self._make()
            except (Unsupported, ApiError, Unreachable, APIError, KeyError) as error:
                # What a pod refers to may come after it; what cannot be done stays refused, and tests look for it.
                self.refusal = f"{type(error).__name__}: {error}"
                log.warning("a pod cannot be started", pod=self.name, reason=self.refusal)
                await self._report()
                await set_within(self.doomed, RETRY)
            else:
                self.refusal = ""
                return True
        return False

    async def _make(self) -> None:
        """Make what is not there yet."""
        check(self.manifest)
        facts = {"status.podIP": self.address, "status.hostIP": self._node_address}
        sources = PodSources(self._client, self.manifest, facts)
        places = await self.files.made(sources, self.manifest)
        address: str | None = self.address
        if needs_sandbox(self.manifest):
            if self._sandbox is None:
                options = sandbox_options(self.manifest, self.files.shared.values())
                self._sandbox = await asyncio.to_thread(self._engine.create, self.name, options, address)
            # Only one that runs can be joined.
            await asyncio.to_thread(self._sandbox.start)
            address = None
        for container in self.containers:
            if container.made is None:
                variables = {
                    "KUBERNETES_SERVICE_HOST": "kubernetes.default.svc",
                    "KUBERNETES_SERVICE_PORT": "443",
                    **await sources.variables(container.spec),
                }
                sandbox = self._sandbox.id if self._sandbox else None
                options = engine_options(self.manifest, container.spec, variables, places, sandbox)
                options["volumes"].append(f"{self._engine.hosts(self.manifest)}:/etc/hosts:ro")
                container.made = await asyncio.to_thread(self._engine.create, container.name, options, address)

    def _grace(self) -> float:
        meta = self.manifest["metadata"]
        given = meta.get("deletionGracePeriodSeconds")
        return float(self.manifest["spec"].get("terminationGracePeriodSeconds", 30) if given is None else given)

    def _take_away(self) -> None:
        logs = self._place / "logs"
        logs.mkdir(exist_ok=True)
        for container in self.containers:
            if container.made is not None:
                (logs / f"{container.name}.log").write_bytes(container.made.logs())
                container.made.remove(force=True, v=True)
        if self._sandbox is not None:
            self._sandbox.remove(force=True, v=True)
        self._engine.drop(self.files.shared.values())

    async def _gone(self) -> None:
        meta = self.manifest["metadata"]
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": meta["uid"]}}
        body = {"apiVersion": "v1", "kind": "DeleteOptions", **options}
        while True:
            try:
                await self._client.request("DELETE", self._path, body=body)
            except ApiError as error:
                if error.status in (404, 409):
                    return
                log.warning("a pod cannot be deleted", pod=self.name, reason=str(error))
                await asyncio.sleep(RETRY)
            else:
                return

    async def _report(self) -> None:
        # Each of the containers tells of changes; a status that is late must not take the place of a newer one.
        async with self._reporting:
            while True:
                body = {"status": self._status()}
                encoded = msgspec.json.encode(body)
                if encoded == self._reported:
                    return
                try:
                    await self._client.patch(f"{self._path}/status", body)
                except ApiError as error:
                    if error.status == 404:
                        return
                    log.warning("a status is refused", pod=self.name, reason=str(error))
                    await asyncio.sleep(RETRY)
                else:
                    self._reported = encoded
                    return

    def _status(self) -> Manifest:
        begun = all(container.made is not None for container in self.containers)
        ready = all(container.ready for container in self.containers)
        facts = {
            "PodReadyToStartContainers": begun,
            "Initialized": True,
            "ContainersReady": ready,
            "Ready": ready,
            "PodScheduled": True,
        }
        return {
            "phase": "Running" if begun and any(container.began for container in self.containers) else "Pending",
            "conditions": [self._condition(kind, "True" if true else "False") for kind, true in facts.items()],
            "containerStatuses": [container.status(self.refusal) for container in self.containers],
            "hostIP": self._node_address,
            "podIP": self.address,
            "podIPs": [{"ip": self.address}],
        }

    def _condition(self, kind: str, status: str) -> Manifest:
        before = self._since.get(kind)
        if before is None or before[0] != status:
            before = self._since[kind] = status, now()
        return {"type": kind, "status": status, "lastTransitionTime": before[1]}
