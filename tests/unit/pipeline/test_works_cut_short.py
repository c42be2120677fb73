"""Manifests that a service does not keep are read from the log when they are needed after all."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from msgspec import UNSET, Raw

from schemas.codec import Known, encode, subject_of
from schemas.events.observed import WorkObserved
from schemas.events.work import WorkRendered
from services._kit.base.log_errors import LogError, Refused, Unavailable
from services._kit.content.blobs import BlobMissing
from services._kit.content.envelope_encryption import KeyUnavailable
from services._kit.delivery.lane_parts import WorkSource
from services._kit.log.stream_port import NewMessage
from services.executor.app import Executor
from services.executor.settings import ExecutorSettings
from services.executor.state import ExecutorState, cut, fold
from services.override_renderer.app import Fetch, OverrideRenderer
from tests.support.facts import KEY, cluster
from tests.support.memory_log import MemoryLog

MANIFEST = b'{"kind":"Deployment","metadata":{"name":"nginx"}}'
WORK = WorkRendered(
    cluster="m1", key=KEY, uid="u1", api_version="apps/v1", kind="Deployment", digest="d", manifest=Raw(MANIFEST)
)
SHARED = msgspec.structs.replace(WORK, manifest=UNSET, shared=True)


def member(mode: str) -> Known:
    """The fact about m1 with this way of being served."""
    event = cluster("m1")
    manifest = msgspec.json.decode(event.manifest)
    manifest["spec"]["syncMode"] = mode
    return msgspec.structs.replace(event, manifest=Raw(msgspec.json.encode(manifest)))


def executor_with(*events: Known) -> ExecutorState:
    state = ExecutorState()
    for seq, event in enumerate(events, 1):
        list(fold(state, seq, subject_of(event), event))
    return state


@pytest.mark.parametrize("events", [(member("Pull"), WORK), (WORK, member("Pull"))], ids=["first", "after"])
def test_of_pull_members_no_manifest_is_kept(events: tuple[Known, ...]) -> None:
    state = executor_with(*events)
    (work, position) = state.of("m1").works[KEY]
    assert isinstance(work, WorkRendered)
    assert work.manifest is UNSET
    assert cut(state.of("m1")) == {"d": position}


def test_of_push_members_it_is() -> None:
    state = executor_with(member("Push"), WORK)
    (work, _) = state.of("m1").works[KEY]
    assert isinstance(work, WorkRendered)
    assert isinstance(work.manifest, Raw)
    assert bytes(work.manifest) == MANIFEST
    assert cut(state.of("m1")) == {}


def test_shared_bytes_are_elsewhere_anyway() -> None:
    assert cut(executor_with(member("Pull"), SHARED).of("m1")) == {}


class Blobs:
    def __init__(self, trouble: LogError | None = None) -> None:
        self._trouble = trouble

    async def get(self, digest: str) -> bytes:
        if self._trouble is not None:
            raise self._trouble
        return b"blob of " + digest.encode()


async def stored(*events: Known) -> MemoryLog:
    log = MemoryLog()
    await log.append([NewMessage(subject_of(event), encode(event), {}) for event in events])
    return log


async def source_of(state: ExecutorState, blobs: Blobs, *events: Known) -> WorkSource:
    """Where the lane of m1 finds its works."""
    inside: Any = Executor(ExecutorSettings(control_kubeconfig="none"))
    inside._context = SimpleNamespace(
        projection=SimpleNamespace(state=state),
        logs={"FACTS": await stored(*events)},
        blobs=blobs,
        clock=SimpleNamespace(now=lambda: 0.0, monotonic=lambda: 0.0),
    )
    inside._reports = SimpleNamespace(report=None, latest=lambda *_: None)
    source: WorkSource = inside._source("m1")
    return source


async def test_a_member_that_is_served_from_here_from_now_on_gets_its_manifests_from_the_log() -> None:
    events = member("Pull"), WORK, member("Push")
    source = await source_of(executor_with(*events), Blobs(), *events)
    assert await source.blob("d") == MANIFEST
    assert await source.blob("other") == b"blob of other"


LATER = msgspec.structs.replace(SHARED, digest="later")
HELD = WorkObserved(
    cluster="m1", key=KEY, uid="u1", work_seq=2, digest="d", applied=True, health="Healthy", status=UNSET, at=1.0
)


@pytest.mark.parametrize(
    "lost", [BlobMissing(0, "no blob d"), KeyUnavailable(0, "its key was dropped")], ids=["blob", "key"]
)
async def test_a_work_is_delivered_although_the_manifest_before_it_is_lost(lost: LogError) -> None:
    state = executor_with(member("Push"), SHARED, HELD, LATER)
    events = member("Push"), SHARED, LATER
    source = await source_of(state, Blobs(), *events)
    assert await source.previous(KEY, LATER) == b"blob of d"
    source = await source_of(state, Blobs(lost), *events)
    assert await source.previous(KEY, LATER) is None


async def test_a_work_waits_for_the_manifest_before_it_while_the_log_does_not_answer() -> None:
    state = executor_with(member("Push"), SHARED, HELD, LATER)
    for trouble in (Unavailable("no leader"), Refused(10008, "JetStream not available")):
        source = await source_of(state, Blobs(trouble), member("Push"), SHARED, LATER)
        with pytest.raises(LogError):
            await source.previous(KEY, LATER)


def renderer(log: MemoryLog) -> tuple[OverrideRenderer, Any]:
    inside: Any = OverrideRenderer()
    state = inside.new_state()
    marked: list[object] = []
    inside._context = SimpleNamespace(
        projection=SimpleNamespace(state=state),
        logs={"FACTS": log},
        mark=marked.extend,
        clock=SimpleNamespace(now=lambda: 0.0, monotonic=lambda: 0.0),
    )
    return inside, SimpleNamespace(state=state, marked=marked)


async def test_what_stays_in_force_is_read_from_the_work_that_says_so() -> None:
    made, inside = renderer(await stored(WORK))
    await made.perform([Fetch(KEY, (), inline=(("d", 1),))])
    assert made.at_hand.blobs == {"d": MANIFEST}
    assert inside.marked == [KEY]


async def test_a_work_that_was_replaced_meanwhile_is_looked_for_again_later() -> None:
    made, inside = renderer(await stored(msgspec.structs.replace(WORK, digest="another")))
    with pytest.raises(LogError):
        await made._fetch(Fetch(KEY, (), inline=(("d", 1),)))
    await made.perform([Fetch(KEY, (), inline=(("d", 1),))])
    assert made.at_hand.blobs == {}
    assert made.decide(inside.state, KEY, 0.0).wake_at
