"""Template status is written over the status it was decided on, and over no other."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw, json
from msgspec.structs import replace

from schemas.events.rollup import ClusterStatusItem, StatusRolledUp
from schemas.events.template import TemplateChanged, TemplateDeleted
from schemas.manifest import Manifest
from schemas.topology import BLOBS
from services._kit.base.clock import SystemClock
from services._kit.content.blobs import Blobs
from services._kit.interpretation.interpreter_levels import Interpreters
from services._kit.kube.client import ApiError, KubeClient, resource_path
from services.apiserver.core.request_context import Identity
from services.apiserver.kinds.kind_catalog import builtin_registry
from services.apiserver.server import ApiServer
from services.apiserver.settings import Settings
from services.apiserver.store.memory_store import MemoryStore
from services.status_aggregator.app import Retry, StatusAggregator
from services.status_aggregator.settings import AggregatorSettings
from services.status_aggregator.state import AggregatorState
from services.status_aggregator.template_status import Away, TemplateStatus
from tests.support.facts import KEY, binding, deployment, template
from tests.support.memory_log import MemoryLog

PATH = resource_path("apps", "v1", "deployments", "default", "nginx")


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[KubeClient]:
    """The control plane, with one Deployment."""
    tokens = {"admin": Identity("admin", "admin", ("system:masters",))}
    server = ApiServer(MemoryStore(), builtin_registry(), Settings(data_dir=tmp_path, tokens=tokens, tls=False))
    await server.start()
    made = KubeClient.from_token(server.url, "admin")
    await made.create(resource_path("apps", "v1", "deployments", "default"), deployment())
    yield made
    await made.close()
    await server.stop()


def rollup(uid: str, ready: int, replicas: int | None = None) -> StatusRolledUp:
    status = {
        "replicas": ready if replicas is None else replicas,
        "readyReplicas": ready,
        "observedGeneration": 1,
        "generation": 1,
    }
    item = ClusterStatusItem(cluster="m1", applied=True, status=Raw(json.encode(status)))
    return StatusRolledUp(key=KEY, uid=uid, items=(item,))


class Writer:
    """One aggregator's view of the Deployment."""

    def __init__(self, client: KubeClient, uid: str, *, prev: int = 0) -> None:
        self.state = AggregatorState()
        self.uid = uid
        reported = self.state.of(KEY)
        fact: TemplateChanged = replace(template(uid=uid), prev=prev)
        reported.template, reported.binding = fact, binding(uid=uid)
        self.status = TemplateStatus(client, self.state, Blobs(MemoryLog(BLOBS)), SystemClock(), Interpreters())

    async def write(self, ready: int) -> None:
        self.state.of(KEY).rollup = rollup(self.uid, ready)
        await self.status.write(KEY)


async def shown(client: KubeClient) -> int:
    return int(((await client.get(PATH)).get("status") or {}).get("readyReplicas", 0))


async def uid_of(client: KubeClient) -> str:
    return str((await client.get(PATH))["metadata"]["uid"])


async def test_a_new_object_is_written_without_being_read(client: KubeClient, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = Writer(client, await uid_of(client))

    async def never(path: str) -> Manifest:
        raise AssertionError(path)

    with monkeypatch.context() as blind:
        blind.setattr(client, "get", never)
        await writer.write(1)
    assert await shown(client) == 1


@pytest.mark.parametrize("prev", [0, 7])
async def test_each_sum_follows_the_last(client: KubeClient, prev: int) -> None:
    writer = Writer(client, await uid_of(client), prev=prev)
    for ready in (1, 3, 0, 2):
        await writer.write(ready)
        assert await shown(client) == ready


async def test_what_others_wrote_meanwhile_is_seen_and_replaced(client: KubeClient) -> None:
    writer = Writer(client, await uid_of(client))
    await writer.write(1)
    await client.patch(f"{PATH}/status", {"status": {"replicas": 9, "readyReplicas": 9}})
    await client.patch(PATH, {"metadata": {"labels": {"edited": "yes"}}})
    await writer.write(2)
    live = await client.get(PATH)
    assert live["status"]["readyReplicas"] == 2
    assert live["metadata"]["labels"]["edited"] == "yes"


@pytest.mark.parametrize("first", [None, 1])
async def test_a_request_of_a_replaced_writer_changes_nothing(
    client: KubeClient, first: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old writer's request arrives after its successor has written."""
    uid = await uid_of(client)
    old, new = Writer(client, uid), Writer(client, uid, prev=7)
    if first is not None:
        await old.write(first)
    patch, refused = client.patch, []

    async def late(path: str, body: Any, content_type: str = "") -> Manifest:
        monkeypatch.undo()
        await new.write(3)
        try:
            return await patch(path, body, content_type)
        except ApiError as error:
            refused.append(error.status)
            raise KeyboardInterrupt from error  # It was replaced: nothing of it goes on.

    monkeypatch.setattr(client, "patch", late)
    with pytest.raises(KeyboardInterrupt):
        await old.write(2)
    assert refused == [422]
    assert await shown(client) == 3


async def test_another_object_of_the_name_is_left_alone(client: KubeClient) -> None:
    with pytest.raises(Away):
        await Writer(client, "of an object that is gone").write(2)
    assert await shown(client) == 0


async def test_status_waits_for_the_known_control_plane(client: KubeClient, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = Writer(client, await uid_of(client))
    await writer.write(1)

    async def elsewhere(path: str, *_: Any, **__: Any) -> Manifest:
        raise ApiError(404, "NotFound", f"{path} is not there")

    with monkeypatch.context() as swapped:
        swapped.setattr(client, "patch", elsewhere)
        swapped.setattr(client, "get", elsewhere)
        with pytest.raises(Away):
            await writer.write(2)
    await writer.status.write(KEY)
    assert await shown(client) == 2


async def test_the_status_of_a_deleted_template_is_not_tried_again(client: KubeClient) -> None:
    writer = Writer(client, await uid_of(client))
    await client.delete(PATH)
    with pytest.raises(Away):
        await writer.write(2)
    writer.state.of(KEY).template = TemplateDeleted(key=KEY, uid=writer.uid, reason="deleted")
    await writer.write(2)


@pytest.mark.parametrize("problem", [Away("not there"), ApiError(401, "Unauthorized", "no")])
async def test_a_write_that_met_another_control_plane_is_repeated(
    problem: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(*_: object) -> None:
        raise problem

    monkeypatch.setattr(TemplateStatus, "write", refused)
    aggregator: Any = StatusAggregator(AggregatorSettings(control_kubeconfig="none"))
    aggregator._status = TemplateStatus.__new__(TemplateStatus)
    with pytest.raises(Retry):
        await aggregator._write(KEY)


async def test_a_status_that_is_refused_is_told_and_not_repeated(
    client: KubeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Writer(client, await uid_of(client))
    await writer.write(2)
    asked = []

    async def refuse(path: str, body: Any, content_type: str = "") -> Manifest:
        asked.append(path)
        raise ApiError(422, "Invalid", "status.readyReplicas: Invalid value", url=path)

    with monkeypatch.context() as refusing:
        refusing.setattr(client, "patch", refuse)
        with pytest.raises(ApiError):
            await writer.write(4)
    assert [path for path in asked if "dryRun" not in path] == [f"{PATH}/status"]
    await writer.write(1)
    assert await shown(client) == 1
