"""Kubelets: each runs the pods bound to its node as containers and reports what became of them.

They differ from those of Kubernetes: a container that ended is started again after 1, 2, 4 and up to 10 s; tokens are
not renewed, and files of Secrets not written again; the network of a pod is that of its only container.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec
import structlog
from docker.errors import APIError, NotFound
from docker.models.containers import Container

from schemas.manifest import Manifest
from services._kit.concurrency.tasks import first_of, set_within
from services._kit.kube.client import ApiError, KubeClient, Unreachable
from tests.containers.cluster.pod_options import Unsupported, check, engine_options, probe_of
from tests.containers.cluster.probes import asked, until_failed
from tests.containers.cluster.volumes import PodSources

log = structlog.get_logger(__name__)
PAUSES: Final = (1.0, 2.0, 4.0, 10.0)
_RETRY: Final = 1.0


class Engine(Protocol):
    """What kubelets need of the place where containers run."""

    def create(self, name: str, address: str, options: Mapping[str, Any]) -> Container:
        """Make a container in the network of pods."""

    def address(self) -> str:
        """An address of that network that no pod has had."""

    def unpack(self, directory: Path, packed: bytes, group: int) -> None:
        """Make a directory that is a group's from an archive, with the owners that stand there."""

    def hosts(self, pod: Manifest) -> Path:
        """The file with the names that a pod knows."""


class Pod:
    """One pod from its binding to its end; `manifest` is the newest that is known of it."""

    def __init__(self, client: KubeClient, engine: Engine, manifest: Manifest, node_address: str, place: Path) -> None:
        self.manifest = manifest
        self.doomed = asyncio.Event()
        self.died = asyncio.Event()
        self.code = 0
        self.restarts = 0
        self.refusal = ""
        self.ready = False
        self.started = False
        self.running = False
        self._since: dict[str, tuple[str, str]] = {}
        self._last: Manifest = {}
        self._began = ""
        self._client = client
        self._engine = engine
        self._place = place
        meta = manifest["metadata"]
        self.name = f"{meta['namespace']}_{meta['name']}_{meta['uid'][:8]}"
        self._path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
        self._node_address = node_address
        self.address = ""
        self._container: Container | None = None
        self._reported = b""

    @property
    def spec(self) -> Manifest:
        """The pod's only container."""
        found: Manifest = self.manifest["spec"]["containers"][0]
        return found

    def saw(self, manifest: Manifest) -> None:
        """A newer version of the pod."""
        self.manifest = manifest
        if "deletionTimestamp" in manifest["metadata"]:
            self.doomed.set()

    def ended(self, code: int) -> None:
        """The engine says that the container ended."""
        self.code = code
        self.running = False
        self.died.set()

    async def live(self) -> None:
        """Run until the pod is deleted, then take it away."""
        self.address = self._engine.address()
        try:
            container = await self._prepared()
            if container is not None:
                await self._run(container)
        finally:
            if self._container is not None:
                await asyncio.to_thread(self._take_away, self._container)
        await self._gone()

    async def _prepared(self) -> Container | None:
        """The container, not started; None when the pod was deleted before it could be made."""
        while not self.doomed.is_set():
            try:
                check(self.manifest)
                facts = {"status.podIP": self.address, "status.hostIP": self._node_address}
                sources = PodSources(self._client, self.manifest, facts)
                variables = {
                    "KUBERNETES_SERVICE_HOST": "kubernetes.default.svc",
                    "KUBERNETES_SERVICE_PORT": "443",
                    **await sources.variables(),
                }
                options = engine_options(self.manifest, variables, await self._volumes(sources))
                hosts = self._engine.hosts(self.manifest)
                options["volumes"].append(f"{hosts}:/etc/hosts:ro")
                made = await asyncio.to_thread(self._engine.create, self.name, self.address, options)
            except (Unsupported, ApiError, Unreachable, APIError, KeyError) as error:
                # What a pod refers to may come after it; what cannot be done stays refused, and tests look for it.
                self.refusal = f"{type(error).__name__}: {error}"
                log.warning("a pod cannot be started", pod=self.name, reason=self.refusal)
                await self._report()
                await set_within(self.doomed, _RETRY)
            else:
                self.refusal = ""
                self._container = made
                return made
        return None

    async def _volumes(self, sources: PodSources) -> dict[str, str]:
        group = (self.manifest["spec"].get("securityContext") or {}).get("fsGroup", 0)
        places = {}
        for volume in self.manifest["spec"].get("volumes") or ():
            packed = await sources.packed(volume, group)
            if packed is None:
                continue
            claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
            space = self.manifest["metadata"]["namespace"]
            place = self._place / (f"claims/{space}_{claim}" if claim else f"pods/{self.name}/{volume['name']}")
            await asyncio.to_thread(self._engine.unpack, place, packed, group)
            places[volume["name"]] = str(place)
        return places

    async def _run(self, container: Container) -> None:
        while not self.doomed.is_set():
            self.died.clear()
            self.running, self.ready, self.started = True, False, probe_of(self.spec, "startupProbe") is None
            self._began = _now()
            await asyncio.to_thread(container.start)
            await self._report()
            reason = await first_of(self._probed(container), _named(self.died, ""), _named(self.doomed, ""))
            self.ready = False
            if self.doomed.is_set():
                break
            if reason:
                log.warning("a container is ended by its probe", pod=self.name, probe=reason)
                await self._end(container, self._grace())
            ended = {"exitCode": self.code, "reason": reason or "Error", "startedAt": self._began, "finishedAt": _now()}
            self._last = {"terminated": ended}
            self.restarts += 1
            await self._report()
            log.warning("a container ended", pod=self.name, code=self.code, restarts=self.restarts)
            await set_within(self.doomed, PAUSES[min(self.restarts, len(PAUSES)) - 1])
        if self.running:
            await self._report()
            await self._end(container, self._grace())

    def _grace(self) -> float:
        meta = self.manifest["metadata"]
        given = meta.get("deletionGracePeriodSeconds")
        return float(self.manifest["spec"].get("terminationGracePeriodSeconds", 30) if given is None else given)

    async def _probed(self, container: Container) -> str:
        """The name of the probe that failed for good; changes of readiness are reported."""
        startup = probe_of(self.spec, "startupProbe")
        if startup is not None:
            ask = partial(self._asked, container, startup.asks, startup.timeout)
            if not await until_failed(startup, ask, first=True):
                return "startupProbe"
            self.started = True
        liveness, readiness = probe_of(self.spec, "livenessProbe"), probe_of(self.spec, "readinessProbe")

        async def look() -> str:
            good = bad = 0
            while True:
                well = readiness is None or await self._asked(container, readiness.asks, readiness.timeout)
                good, bad = (good + 1, 0) if well else (0, bad + 1)
                before = self.ready
                if readiness is None or good >= readiness.successes:
                    self.ready = True
                elif bad >= readiness.failures:
                    self.ready = False
                if self.ready is not before or good + bad == 1:
                    await self._report()
                await asyncio.sleep(readiness.period if readiness else 3600)

        async def live() -> str:
            if liveness is None:
                await asyncio.Event().wait()
                raise AssertionError
            await until_failed(liveness, partial(self._asked, container, liveness.asks, liveness.timeout), first=False)
            return "livenessProbe"

        return await first_of(look(), live())

    async def _asked(self, container: Container, asks: Manifest, seconds: float) -> bool:
        return await asked(asks, self.spec, self.address, container, seconds)

    async def _end(self, container: Container, grace: float) -> None:
        """The hook, the signal to end, and the end, all within the grace period."""
        until = time.monotonic() + grace
        hook = (self.spec.get("lifecycle") or {}).get("preStop")
        if hook and self.running and grace:
            await first_of(self._hooked(container, hook), _named(self.died, None), seconds=grace)
        await asyncio.to_thread(_signal, container, "SIGTERM")
        if not await set_within(self.died, max(until - time.monotonic(), 0)):
            log.warning("a container did not end in its grace period", pod=self.name, seconds=grace)
            await asyncio.to_thread(_signal, container, "SIGKILL")
            await self.died.wait()

    async def _hooked(self, container: Container, hook: Manifest) -> None:
        if "exec" not in hook:
            raise Unsupported("preStop: exec only")
        try:
            code, output = await asyncio.to_thread(container.exec_run, hook["exec"]["command"])
        except APIError as error:
            code, output = 1, str(error).encode()
        if code:
            log.warning("a hook failed", pod=self.name, code=code, output=output.decode(errors="replace"))

    def _take_away(self, container: Container) -> None:
        logs = self._place / "logs"
        logs.mkdir(exist_ok=True)
        (logs / f"{self.name}.log").write_bytes(container.logs())
        container.remove(force=True, v=True)

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
                await asyncio.sleep(_RETRY)
            else:
                return

    async def _report(self) -> None:
        body = {"status": self._status()}
        encoded = msgspec.json.encode(body)
        if encoded == self._reported:
            return
        while True:
            try:
                await self._client.patch(f"{self._path}/status", body)
            except ApiError as error:
                if error.status == 404:
                    return
                log.warning("a status is refused", pod=self.name, reason=str(error))
                await asyncio.sleep(_RETRY)
            else:
                self._reported = encoded
                return

    def _status(self) -> Manifest:
        if self.running:
            state: Manifest = {"running": {"startedAt": self._began}, "waiting": None}
        elif self.refusal:
            state = {"waiting": {"reason": "CreateContainerConfigError", "message": self.refusal}, "running": None}
        else:
            reason = "CrashLoopBackOff" if self.restarts else "ContainerCreating"
            state = {"waiting": {"reason": reason}, "running": None}
        image = self.spec["image"]
        container = {
            "name": self.spec["name"],
            "image": image,
            "imageID": image,
            "state": state,
            "lastState": self._last,
            "ready": self.ready,
            "started": self.started and self.running,
            "restartCount": self.restarts,
            "containerID": f"docker://{self._container.id}" if self._container else "",
        }
        begun = self._container is not None
        facts = {
            "PodReadyToStartContainers": begun,
            "Initialized": True,
            "ContainersReady": self.ready,
            "Ready": self.ready,
            "PodScheduled": True,
        }
        return {
            "phase": "Running" if begun and self._began else "Pending",
            "conditions": [self._condition(kind, "True" if true else "False") for kind, true in facts.items()],
            "containerStatuses": [container],
            "hostIP": self._node_address,
            "podIP": self.address,
            "podIPs": [{"ip": self.address}],
        }

    def _condition(self, kind: str, status: str) -> Manifest:
        before = self._since.get(kind)
        if before is None or before[0] != status:
            before = self._since[kind] = status, _now()
        return {"type": kind, "status": status, "lastTransitionTime": before[1]}


class Kubelet:
    """Follows the pods of one node."""

    def __init__(self, client: KubeClient, node: str, address: str, engine: Engine, place: Path) -> None:
        self._client = client
        self._node = node
        self._address = address
        self._engine = engine
        self._place = place
        self.pods: dict[str, Pod] = {}
        """By uid."""
        self._ended: set[str] = set()

    async def run(self) -> None:
        """Follow until cancelled; the containers of pods are removed then. Raises what a pod's task raised."""
        async with asyncio.TaskGroup() as group:
            while True:
                try:
                    await self._follow(group)
                except (ApiError, Unreachable) as error:
                    log.warning("pods are listed again", node=self._node, reason=str(error))
                    await asyncio.sleep(_RETRY)

    async def _follow(self, group: asyncio.TaskGroup) -> None:
        path = "/api/v1/pods"
        mine = {"fieldSelector": f"spec.nodeName={self._node}"}
        listed = await self._client.get(path, params=mine)
        for pod in listed.get("items") or ():
            self._saw(group, pod)
        version = listed["metadata"]["resourceVersion"]
        async for events in self._client.watch(path, version, params=mine):
            for event in events:
                if event.type in ("ADDED", "MODIFIED"):
                    self._saw(group, msgspec.json.decode(event.object))
                elif event.type == "DELETED" and (
                    gone := self.pods.get(msgspec.json.decode(event.object)["metadata"]["uid"])
                ):
                    gone.doomed.set()

    def _saw(self, group: asyncio.TaskGroup, manifest: Manifest) -> None:
        uid = manifest["metadata"]["uid"]
        if uid in self._ended:
            return
        pod = self.pods.get(uid)
        if pod is None:
            pod = self.pods[uid] = Pod(self._client, self._engine, manifest, self._address, self._place)
            group.create_task(self._lived(uid, pod))
        pod.saw(manifest)

    async def _lived(self, uid: str, pod: Pod) -> None:
        try:
            await pod.live()
        finally:
            self._ended.add(uid)
            del self.pods[uid]


async def _named(event: asyncio.Event, name: Any) -> Any:
    await event.wait()
    return name


def _signal(container: Container, name: str) -> None:
    try:
        container.kill(name)
    except (APIError, NotFound) as error:
        # It ended meanwhile: that is seen by its end.
        log.info("a signal came too late", container=container.name, reason=str(error))


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
