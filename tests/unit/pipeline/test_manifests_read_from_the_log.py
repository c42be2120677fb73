"""Manifests that a service does not keep are read from the log when they are needed after all."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import UNSET, Raw
from msgspec.structs import replace

from schemas.codec import Known
from schemas.events.work import WorkRendered
from schemas.shard_groups import WHOLE
from services._kit.base.log_errors import LogError, Refused, Unavailable
from services._kit.content.blobs import BlobMissing
from services._kit.content.envelope_encryption import KeyUnavailable
from services._kit.delivery.lane_parts import WorkSource
from services.executor.app import Executor
from services.executor.settings import ExecutorSettings
from services.executor.state import ExecutorState, cut
from services.override_renderer.app import Fetch, OverrideRenderer
from tests.support.facts import KEY, cluster, seen, work
from tests.support.harness import EXECUTOR, Harness
from tests.support.memory_log import MemoryLog

MANIFEST = b'{"kind":"Deployment","metadata":{"name":"nginx"}}'
WORK = work("m1", manifest=Raw(MANIFEST))
SHARED = replace(WORK, manifest=UNSET, shared=True)


def mode(name: str) -> Known:
    """The fact about m1 with this sync mode."""
    return cluster("m1", syncMode=name)


def executor_with(*events: Known) -> ExecutorState:
    found: ExecutorState = Harness(EXECUTOR, *events).state
    return found


@pytest.mark.parametrize("events", [(mode("Pull"), WORK), (WORK, mode("Pull"))], ids=["first", "after"])
def test_no_manifest_of_pull_members_is_kept(events: tuple[Known, ...]) -> None:
    state = executor_with(*events)
    (found, position) = state.of("m1").works[KEY]
    assert isinstance(found, WorkRendered)
    assert found.manifest is UNSET
    assert cut(state.of("m1")) == {"d": position}


def test_manifests_of_push_members_are_kept() -> None:
    state = executor_with(mode("Push"), WORK)
    (found, _) = state.of("m1").works[KEY]
    assert isinstance(found, WorkRendered)
    assert isinstance(found.manifest, Raw)
    assert bytes(found.manifest) == MANIFEST
    assert cut(state.of("m1")) == {}


def test_shared_manifests_are_not_cut() -> None:
    assert cut(executor_with(mode("Pull"), SHARED).of("m1")) == {}


class Blobs:
    def __init__(self, trouble: LogError | None = None) -> None:
        self._trouble = trouble

    async def get(self, digest: str) -> bytes:
        if self._trouble is not None:
            raise self._trouble
        return b"blob of " + digest.encode()


async def stored(*events: Known) -> MemoryLog:
    log = MemoryLog()
    await log.given(*events)
    return log


async def source_of(state: ExecutorState, blobs: Blobs, *events: Known) -> WorkSource:
    """Where the lane of m1 finds its works."""
    inside: Any = Executor(ExecutorSettings(control_kubeconfig="none"))
    inside._context = SimpleNamespace(
        group=WHOLE,
        projection=SimpleNamespace(state=state),
        logs={"FACTS": await stored(*events)},
        blobs=blobs,
        clock=SimpleNamespace(now=lambda: 0.0, monotonic=lambda: 0.0),
    )
    inside._reports = SimpleNamespace(report=None, latest=lambda *_: None)
    source: WorkSource = inside._source("m1")
    return source


async def test_member_turned_push_gets_manifests_from_the_log() -> None:
    events = mode("Pull"), WORK, mode("Push")
    source = await source_of(executor_with(*events), Blobs(), *events)
    assert await source.blob("d") == MANIFEST
    assert await source.blob("other") == b"blob of other"


LATER = replace(SHARED, digest="later")
HELD = seen("m1", work_seq=2, status=UNSET, at=1.0)


@pytest.mark.parametrize(
    "lost", [BlobMissing(0, "no blob d"), KeyUnavailable(0, "its key was dropped")], ids=["blob", "key"]
)
async def test_work_is_delivered_without_its_lost_predecessor(lost: LogError) -> None:
    state = executor_with(mode("Push"), SHARED, HELD, LATER)
    events = mode("Push"), SHARED, LATER
    source = await source_of(state, Blobs(), *events)
    assert await source.previous(KEY, LATER) == b"blob of d"
    source = await source_of(state, Blobs(lost), *events)
    assert await source.previous(KEY, LATER) is None


async def test_work_waits_for_its_predecessor_of_a_silent_log() -> None:
    state = executor_with(mode("Push"), SHARED, HELD, LATER)
    for trouble in (Unavailable("no leader"), Refused(10008, "JetStream not available")):
        source = await source_of(state, Blobs(trouble), mode("Push"), SHARED, LATER)
        with pytest.raises(LogError):
            await source.previous(KEY, LATER)


def renderer(log: MemoryLog) -> tuple[OverrideRenderer, Any]:
    inside: Any = OverrideRenderer()
    state = inside.new_state()
    marked: list[object] = []
    inside._context = SimpleNamespace(
        group=WHOLE,
        projection=SimpleNamespace(state=state),
        logs={"FACTS": log},
        mark=marked.extend,
        clock=SimpleNamespace(now=lambda: 0.0, monotonic=lambda: 0.0),
    )
    return inside, SimpleNamespace(state=state, marked=marked)


async def test_manifest_in_force_is_read_from_its_work() -> None:
    made, inside = renderer(await stored(WORK))
    await made.perform([Fetch(KEY, (), inline=(("d", 1),))])
    assert made.at_hand.blobs == {"d": MANIFEST}
    assert inside.marked == [KEY]


async def test_replaced_work_is_read_again_later() -> None:
    made, inside = renderer(await stored(replace(WORK, digest="another")))
    with pytest.raises(LogError):
        await made._fetch(Fetch(KEY, (), inline=(("d", 1),)))
    await made.perform([Fetch(KEY, (), inline=(("d", 1),))])
    assert made.at_hand.blobs == {}
    assert made.decide(inside.state, KEY, 0.0).wake_at
