"""A manifest of almost 1.5 MiB for twenty clusters: it lies on the log once, arrives byte for byte, and goes."""

from __future__ import annotations

import asyncio
import base64
import random
import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec
import pytest

from schemas.codec import encode, subject_of
from schemas.manifest import Manifest
from services._kit.kube.client import ApiError, KubeClient, resource_path
from services._kit.log import streams as topology
from services._kit.log.connection import Connection
from services._kit.log.jetstream import JetStreamLog
from services._kit.log.stream_port import NewMessage
from services.apiserver.kinds.kind_catalog import builtin_registry
from services.cli.installation.install_crds import apply_definitions, needed_definitions
from services.detector.app import Detector
from services.detector.settings import DetectorSettings
from services.executor.app import Executor
from services.executor.settings import ExecutorSettings
from services.janitor.blob_gc import BlobCollector
from services.override_renderer.app import OverrideRenderer
from services.scheduler.app import Scheduler
from services.scheduler.settings import SchedulerSettings
from tests.natsserver import Server
from tests.support.facts import cluster
from tests.support.manual_clock import ManualClock
from tests.support.serving import api_server, run
from tests.support.waiting import comes_to

MEMBERS = [f"m{number}" for number in range(1, 21)]
MIB = 1 << 20
LOG_STREAMS = ("FACTS", "OBSERVED", "HISTORY", "BLOBS", "PARKED", "EXPLAINED")
TOKEN = secrets.token_urlsafe(16)
PATH = resource_path("", "v1", "configmaps", "default", "large")


class Hub:
    """A control plane, its services, and twenty members, all in this process; the log's server is a real one."""

    def __init__(self, control: KubeClient, connection: Connection) -> None:
        self.control = control
        self.connection = connection
        self.members: dict[str, KubeClient] = {}

    async def contents(self) -> int:
        """Bytes of the contents that are stored apart, each once."""
        return sum([len(message.data) async for message in JetStreamLog(self.connection, "BLOBS").read([">"])])

    async def longest_event(self) -> int:
        """Bytes of the largest message on the other streams, HISTORY's copies of FACTS included."""
        logs = [JetStreamLog(self.connection, name) for name in LOG_STREAMS if name != "BLOBS"]
        return max([len(message.data) for log in logs async for message in log.read([">"])])

    async def held(self, field: str) -> set[str | None]:
        """What the members hold under a key of the ConfigMap."""
        found = await asyncio.gather(*(self._held(client, field) for client in self.members.values()))
        return set(found)

    async def _held(self, client: KubeClient, field: str) -> str | None:
        try:
            manifest = await client.get(PATH)
        except ApiError as error:
            if error.status != 404:
                raise
            return None
        return str(manifest["binaryData"][field])


@pytest.fixture
async def hub(tmp_path: Path, nats_server: Server) -> AsyncIterator[Hub]:
    async with AsyncExitStack() as stack:
        connection = await Connection.open(nats_server.url)
        stack.push_async_callback(connection.close)
        await topology.apply(connection)
        control, _, kubeconfig = await api_server(stack, tmp_path / "control", builtin_registry(), TOKEN)
        await apply_definitions(control, needed_definitions())
        made = Hub(control, connection)
        facts = JetStreamLog(connection, "FACTS")
        shared = builtin_registry()
        await control.create(resource_path("", "v1", "namespaces"), _body("v1", "Namespace", "credentials"))
        access = {**_object("v1", "Secret", "access"), "data": {"token": base64.b64encode(TOKEN.encode()).decode()}}
        await control.create(resource_path("", "v1", "secrets", "credentials"), msgspec.json.encode(access))
        for name in MEMBERS:
            client, server, _ = await api_server(stack, tmp_path / name, shared, TOKEN)
            made.members[name] = client
            ref = {"namespace": "credentials", "name": "access"}
            fact = cluster(name, apiEndpoint=server.url, secretRef=ref)
            await facts.append([NewMessage(subject_of(fact), encode(fact), {})])
        common = {"nats_url": nats_server.url, "http_port": -1}
        path = str(kubeconfig)
        await run(stack, Detector(s := DetectorSettings(control_kubeconfig=path, **common)), s)
        await run(stack, Scheduler(t := SchedulerSettings(**common)), t)
        await run(stack, OverrideRenderer(), t)
        await run(stack, Executor(e := ExecutorSettings(control_kubeconfig=path, **common)), e)
        yield made


def _object(api_version: str, kind: str, name: str) -> Manifest:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}}


def _body(api_version: str, kind: str, name: str) -> bytes:
    return msgspec.json.encode(_object(api_version, kind, name))


def large(seed: int, size: int = MIB - 1024) -> Manifest:
    """A ConfigMap of the greatest content that Kubernetes takes, and a long annotation: 1.5 MiB of JSON."""
    content = random.Random(seed)
    data = base64.b64encode(content.randbytes(size)).decode()
    manifest = _object("v1", "ConfigMap", "large")
    manifest["metadata"]["annotations"] = {"example.com/notes": base64.b64encode(content.randbytes(100 << 10)).decode()}
    return {**manifest, "binaryData": {"blob": data, "version": ""}}


POLICY = {
    **_object("policy.karmada.io/v1alpha1", "PropagationPolicy", "large"),
    "spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "large"}], "placement": {}},
}


@pytest.mark.long
async def test_large_manifest_is_stored_once_and_arrives_whole(hub: Hub) -> None:
    policies = resource_path("policy.karmada.io", "v1alpha1", "propagationpolicies", "default")
    await hub.control.create(policies, msgspec.json.encode(POLICY))
    manifest = large(1)
    body = msgspec.json.encode(manifest)
    assert 1.45 * MIB < len(body) < 1.5 * MIB
    await hub.control.create(resource_path("", "v1", "configmaps", "default"), body)
    await comes_to("the ConfigMap in all members", lambda: hub.held("blob"), {manifest["binaryData"]["blob"]})
    assert await hub.contents() < 1.1 * len(body), "one copy for the template and twenty clusters"
    # However many events there are: none holds the content itself.
    assert await hub.longest_event() < 0.25 * len(body)

    # Twenty other copies share the template's bytes: what an override changes is all that is new.
    overrides = resource_path("policy.karmada.io", "v1alpha1", "overridepolicies", "default")
    await hub.control.create(overrides, msgspec.json.encode(override()))
    await comes_to("the overridden ConfigMap", lambda: hub.held("version"), {_text(name) for name in MEMBERS})
    assert await hub.contents() < 1.1 * len(body)
    assert await hub.longest_event() < 0.25 * len(body)
    assert await hub.held("blob") == {manifest["binaryData"]["blob"]}

    changed = large(2)
    await hub.control.update(PATH, msgspec.json.encode(changed))
    await comes_to("the changed ConfigMap", lambda: hub.held("blob"), {changed["binaryData"]["blob"]})
    assert await hub.contents() < 2.2 * len(body), "one new copy"
    assert await hub.longest_event() < 0.25 * len(body)

    await hub.control.delete(PATH)
    await comes_to("the ConfigMap gone", lambda: hub.held("blob"), {None})
    await collected(hub)


async def collected(hub: Hub) -> None:
    """What the janitor does in 90 days: events end, then nothing names the bytes, then they go."""
    logs = {name: JetStreamLog(hub.connection, name) for name in LOG_STREAMS}
    assert (await logs["BLOBS"].counts("blob.*")) != {}
    clock = ManualClock()
    clock.advance(await _now(logs["BLOBS"]) - clock.now() + 3 * 3600)

    async def left() -> dict[str, int]:
        # HISTORY copies what FACTS holds in its own time, and services may still have something to say.
        for stream, pattern in (("FACTS", "template.>"), ("FACTS", "work.>"), ("HISTORY", ">")):
            await logs[stream].purge(pattern, 2**60)
        collector = BlobCollector(logs, clock, 3600.0)
        await collector.collect()
        await collector.collect()
        return await logs["BLOBS"].counts("blob.*")

    await comes_to("no bytes that nothing names", left, {})


async def _now(log: JetStreamLog) -> float:
    return max([message.time async for message in log.read([">"])])


def _text(name: str) -> str:
    return base64.b64encode(name.encode()).decode()


def override() -> Manifest:
    """Each member's copy says which it is."""
    rules = [
        {
            "targetCluster": {"clusterNames": [name]},
            "overriders": {"plaintext": [{"path": "/binaryData/version", "operator": "replace", "value": _text(name)}]},
        }
        for name in MEMBERS
    ]
    selectors = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "large"}]
    spec = {"resourceSelectors": selectors, "overrideRules": rules}
    return {**_object("policy.karmada.io/v1alpha1", "OverridePolicy", "large"), "spec": spec}


async def test_what_is_over_a_limit_is_refused_with_the_limit(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        client, _, _ = await api_server(stack, tmp_path, builtin_registry(), TOKEN)
        configmaps = resource_path("", "v1", "configmaps", "default")
        with pytest.raises(ApiError, match="1048576 bytes") as refused:
            await client.create(configmaps, msgspec.json.encode(large(1, MIB + 1)))
        assert refused.value.status == 422
        with pytest.raises(ApiError, match="limit is 3145728") as refused:
            await client.create(configmaps, msgspec.json.encode(large(1, 4 * MIB)))
        assert refused.value.status == 413
