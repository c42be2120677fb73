"""An aggregator on a log in memory, and a control plane with kinds of users' own whose status it sums."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
from msgspec import Raw

from schemas.codec import Known, encode, subject_of
from schemas.events.observed import WorkObserved
from schemas.events.policy import PolicyChanged, PolicyDeleted
from schemas.events.work import WorkRendered
from schemas.keys import ObjectKey, PolicyKey
from schemas.manifest import Manifest
from schemas.shard_groups import WHOLE
from schemas.topology import STREAMS
from services._kit.base.clock import SystemClock
from services._kit.base.metrics import ReadCollector
from services._kit.content.blobs import Blobs
from services._kit.interpretation.interpreter_levels import Interpreters
from services._kit.interpretation.lua.pool import LuaPool
from services._kit.kube.client import KubeClient, resource_path
from services._kit.log.stream_port import NewMessage
from services._kit.runtime.decision_loop import LoopOptions
from services._kit.runtime.outbox import stream_of
from services._kit.runtime.runner import Runner
from services._rules.interpreter.configuration import CUSTOMIZATION
from services.apiserver.core.request_context import Identity
from services.apiserver.kinds.kind_catalog import builtin_registry
from services.apiserver.server import ApiServer
from services.apiserver.settings import Settings
from services.apiserver.store.memory_store import MemoryStore
from services.status_aggregator.app import StatusAggregator
from services.status_aggregator.settings import AggregatorSettings
from tests.support.facts import binding, cluster, placement, template
from tests.support.kubeconfigs import kubeconfig as kubeconfig_of
from tests.support.memory_bus import MemoryBus
from tests.support.memory_log import MemoryLog
from tests.support.waiting import eventually

GROUP = "example.io"
QUICK = LoopOptions(heartbeat=0.02, takeover_after=30.0)
SUMS = """
function AggregateStatus(desired, items)
  local ready = 0
  for _, item in ipairs(items or {}) do ready = ready + ((item.status or {}).ready or 0) end
  desired.status = {ready = ready, by = "script"}
  return desired
end
"""


def key_of(kind: str, name: str) -> ObjectKey:
    """The key of an object of a user's kind."""
    return ObjectKey(GROUP, f"{kind.lower()}s", "default", name)


def definition(kind: str, *, status: bool = True, fields: Manifest | None = None) -> Manifest:
    """The definition of a kind, with a status subresource or without; `fields` are those a status may have."""
    plural = f"{kind.lower()}s"
    schema: Manifest = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    if fields is not None:
        schema = {"type": "object", "properties": {"status": {"type": "object", "properties": fields}}}
    version: Manifest = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    if status:
        version["subresources"] = {"status": {}}
    names = {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]},
    }


def customization(kind: str, script: str) -> PolicyChanged:
    """The fact that a script sums the statuses of a kind."""
    manifest = {
        "metadata": {"name": kind.lower()},
        "spec": {
            "target": {"apiVersion": f"{GROUP}/v1", "kind": kind},
            "customizations": {"statusAggregation": {"luaScript": script}},
        },
    }
    return configured(CUSTOMIZATION, kind.lower(), manifest)


def configured(kind: str, name: str, manifest: Manifest) -> PolicyChanged:
    """The fact about an object that configures interpretation."""
    return PolicyChanged(key=PolicyKey(kind, "", name), uid="c", manifest=Raw(msgspec.json.encode(manifest)))


def removed(fact: PolicyChanged) -> PolicyDeleted:
    """The fact that it is gone."""
    return PolicyDeleted(key=fact.key, uid=fact.uid)


class Control:
    """The control plane, and a log to speak on."""

    def __init__(self, client: KubeClient, kubeconfig: Path) -> None:
        self.client = client
        self.kubeconfig = kubeconfig
        self.logs = {stream.name: MemoryLog(stream) for stream in STREAMS}
        self.uids: dict[ObjectKey, str] = {}
        self.written: list[str] = []
        self._said = count()

    async def say(self, *events: Known) -> None:
        """Append facts and observations."""
        for event in events:
            subject = subject_of(event)
            await self.logs[stream_of(subject)].append([NewMessage(subject, encode(event), {})])

    async def make(self, kind: str, name: str) -> None:
        """An object that is placed on m1 and m2."""
        key, api_version = key_of(kind, name), f"{GROUP}/v1"
        manifest = {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": "default"}}
        live = await self.client.create(resource_path(GROUP, "v1", key.resource, "default"), manifest)
        uid = self.uids[key] = str(live["metadata"]["uid"])
        of: Manifest = {"key": key, "uid": uid}
        kinds: Manifest = {**of, "api_version": api_version, "kind": kind}
        replace = msgspec.structs.replace
        works = [WorkRendered(cluster=member, digest="d", **kinds) for member in ("m1", "m2")]
        await self.say(
            replace(template(manifest, uid), **of),
            replace(binding(0, uid=uid), **kinds),
            replace(placement(m1=0, m2=0), **of),
            *works,
        )

    async def report(self, kind: str, name: str, **ready: int) -> None:
        """Members say how many are ready: report("Widget", "w", m1=1, m2=2). No report is that of before."""
        key = key_of(kind, name)
        for member, number in ready.items():
            status = Raw(msgspec.json.encode({"ready": number, "said": next(self._said)}))
            await self.say(
                WorkObserved(
                    cluster=member,
                    key=key,
                    uid=self.uids[key],
                    digest="d",
                    applied=True,
                    health="Healthy",
                    status=status,
                )
            )

    async def status(self, kind: str, name: str) -> Manifest | None:
        """The status that users see."""
        key = key_of(kind, name)
        live = await self.client.get(resource_path(GROUP, "v1", key.resource, "default", name))
        found: Manifest | None = live.get("status")
        return found

    async def shows(self, kind: str, name: str, **wanted: Any) -> None:
        """Return once users see this status."""

        async def shown() -> bool:
            return await self.status(kind, name) == wanted

        await eventually(shown)

    async def warnings(self, name: str) -> list[str]:
        """What the Warning Events about an object say."""
        listed = await self.client.get(resource_path("", "v1", "events", "default"))
        return [
            event["message"]
            for event in listed["items"]
            if event["involvedObject"]["name"] == name and event["reason"] == "AggregateStatusFailed"
        ]

    async def warned(self, name: str, *words: str) -> None:
        """Return once a Warning Event about an object has all these words."""

        async def told() -> bool:
            return any(all(word in message for word in words) for message in await self.warnings(name))

        await eventually(told)

    @asynccontextmanager
    async def aggregator(self) -> AsyncIterator[Runner[Any, Any]]:
        """A running aggregator; its writes of statuses are noted in `written`."""
        service = StatusAggregator(AggregatorSettings(control_kubeconfig=str(self.kubeconfig)))
        service._interpreters = Interpreters(LuaPool(2, seconds=0.2, strikes=2))
        runner: Runner[Any, Any] = Runner(service, self.logs, MemoryBus(), "status-0", options=QUICK)
        reads = ReadCollector("status_aggregator")
        context = SimpleNamespace(
            group=WHOLE,
            projection=runner.projection,
            blobs=Blobs(self.logs["BLOBS"]),
            clock=SystemClock(),
            guard=None,
            metrics=SimpleNamespace(reads=reads),
        )
        await service.start(context)  # type: ignore[arg-type]
        assert service._client is not None
        patch = service._client.patch

        async def noted(path: str, *arguments: Any, **named: Any) -> Manifest:
            if path.endswith("/status"):
                self.written.append(path.split("/")[-2])
            return await patch(path, *arguments, **named)

        service._client.patch = noted  # type: ignore[method-assign]
        task = asyncio.create_task(runner.run())
        try:
            yield runner
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await service.stop()


@asynccontextmanager
async def control_plane(directory: Path, *definitions: Manifest) -> AsyncIterator[Control]:
    """A control plane that serves the kinds, and two clusters."""
    tokens = {"admin": Identity("admin", "admin", ("system:masters",))}
    server = ApiServer(MemoryStore(), builtin_registry(), Settings(data_dir=directory, tokens=tokens, tls=False))
    await server.start()
    kubeconfig = directory / "kubeconfig"
    kubeconfig.write_bytes(msgspec.json.encode(kubeconfig_of(server.url, {"token": "admin"})))
    client = KubeClient.from_token(server.url, "admin")
    control = Control(client, kubeconfig)
    try:
        for made in definitions:
            await client.create(resource_path("apiextensions.k8s.io", "v1", "customresourcedefinitions"), made)

        async def served() -> bool:
            return {made["spec"]["names"]["kind"] for made in definitions} <= {
                resource.kind for resource in await client.discover()
            }

        await eventually(served)
        await control.say(cluster("m1"), cluster("m2"))
        yield control
    finally:
        await client.close()
        await server.stop()
