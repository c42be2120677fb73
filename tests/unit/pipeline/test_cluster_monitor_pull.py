"""Readiness of pull clusters: what agents say, and what is published when they say nothing."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from schemas.agent import Sample
from schemas.events.cluster import ClusterChanged
from schemas.manifest import Manifest
from services.cluster_monitor.decide import ClusterDecision, DropFinalizer, WriteSpec, WriteStatus, decide
from services.cluster_monitor.heartbeats import LARGEST, PER_SECOND, HeartbeatRate, Malformed, heard
from services.cluster_monitor.readiness import ANSWERS, find_condition
from services.cluster_monitor.state import ClusterState, MonitorState

CREATED = "2026-11-21T06:00:00Z"
BORN = 1795240800.0
SUMMARY: Manifest = {
    "kubernetesVersion": "v1.34.0",
    "apiEnablements": [{"groupVersion": "v1", "resources": [{"name": "pods", "kind": "Pod"}]}],
    "nodeSummary": {"totalNum": 2, "readyNum": 1},
    "resourceSummary": {"allocatable": {"cpu": "4"}, "allocated": {"cpu": "1"}},
}


def cluster(status: Manifest | None = None, **metadata: Any) -> MonitorState:
    """One pull cluster under our finalizer."""
    manifest = {
        "metadata": {
            "name": "m3",
            "uid": "u",
            "resourceVersion": "1",
            "creationTimestamp": CREATED,
            "finalizers": ["karmada.io/cluster-controller"],
            **metadata,
        },
        "spec": {"syncMode": "Pull"},
    }
    if status is not None:
        manifest["status"] = status
    return MonitorState(clusters={"m3": ClusterState(name="m3", manifest=manifest, heard_at=BORN)}, listed=True)


def ready(status: str, reason: str = "ClusterReady") -> Manifest:
    entry = {"type": "Ready", "status": status, "reason": reason, "message": "", "lastTransitionTime": CREATED}
    return {"conditions": [entry]}


def published(verdict: ClusterDecision) -> Manifest | None:
    """The Ready condition that is written."""
    for effect in verdict.effects:
        if isinstance(effect, WriteStatus):
            return find_condition(effect.patch.get("conditions") or [], "Ready")
    return None


def taints(verdict: ClusterDecision) -> list[str]:
    return [taint["key"] for effect in verdict.effects if isinstance(effect, WriteSpec) for taint in effect.taints]


def test_first_sample_of_an_agent_is_published() -> None:
    state = cluster()
    state.of("m3").probe = Sample(at=BORN + 5, online=True, healthy=True, summary=SUMMARY)
    verdict = decide(state, "m3", BORN + 5)
    condition = published(verdict)
    assert condition is not None
    assert (condition["status"], condition["reason"]) == ("True", "ClusterReady")
    [fact] = verdict.events
    assert isinstance(fact, ClusterChanged)
    assert msgspec.json.decode(fact.manifest)["status"]["nodeSummary"] == {"totalNum": 2, "readyNum": 1}
    assert verdict.wake_at == BORN + 60


@pytest.mark.parametrize(
    ("status", "ends", "reason"),
    [(None, 60.0, "ClusterStatusNeverUpdated"), (ready("True"), 40.0, "ClusterStatusUnknown")],
)
def test_silent_agent_makes_the_cluster_unknown(status: Manifest | None, ends: float, reason: str) -> None:
    state = cluster(status)
    before = decide(state, "m3", BORN + ends - 0.1)
    assert published(before) is None
    assert before.wake_at == BORN + ends
    condition = published(after := decide(state, "m3", BORN + ends))
    assert condition is not None
    assert (condition["status"], condition["reason"]) == ("Unknown", reason)
    assert taints(after) == ["cluster.karmada.io/unreachable"]


@pytest.mark.parametrize(
    ("answers", "status", "words"),
    [(None, "", ""), ("", "False", "FLEETLOG_AGENT_REQUESTS is not set"), ("read", "True", "requests of people: read")],
)
def test_what_an_agent_answers_is_a_condition(answers: str | None, status: str, words: str) -> None:
    state = cluster()
    state.of("m3").probe = Sample(at=BORN + 5, online=True, healthy=True, summary=SUMMARY, answers=answers)
    (write,) = [effect for effect in decide(state, "m3", BORN + 5).effects if isinstance(effect, WriteStatus)]
    found = find_condition(write.patch["conditions"], ANSWERS) or {"status": "", "message": ""}
    assert found["status"] == status
    assert words in found["message"]


def test_heartbeats_alone_keep_the_cluster_ready() -> None:
    state = cluster(ready("True"))
    state.of("m3").heard_at = BORN + 1000
    verdict = decide(state, "m3", BORN + 1039)
    assert published(verdict) is None
    assert verdict.wake_at == BORN + 1040


def test_returned_agent_is_published_at_once() -> None:
    state = cluster(ready("Unknown", "ClusterStatusUnknown"))
    state.of("m3").heard_at = BORN + 500
    state.of("m3").probe = Sample(at=BORN + 500, online=True, healthy=True, summary=SUMMARY)
    condition = published(decide(state, "m3", BORN + 500))
    assert condition is not None
    assert condition["status"] == "True"


def test_member_its_agent_cannot_reach_becomes_not_ready() -> None:
    state = cluster(ready("True"))
    for at, wanted in ((10.0, None), (39.0, None), (41.0, "False")):
        state.of("m3").heard_at = BORN + at
        state.of("m3").probe = Sample(at=BORN + at, online=False)
        verdict = decide(state, "m3", BORN + at)
        state.of("m3").memory = verdict.memory or state.of("m3").memory
        condition = published(verdict)
        assert (condition and condition["status"]) == wanted


def test_leaving_cluster_with_silent_agent_is_released() -> None:
    state = cluster(ready("True"), deletionTimestamp=CREATED)
    assert DropFinalizer("m3") not in decide(state, "m3", BORN + 39).effects
    assert DropFinalizer("m3") in decide(state, "m3", BORN + 40).effects


def greeting(**fields: Any) -> bytes:
    return msgspec.json.encode({"cluster": "m3", "instance": "a", "at": 1.0, **fields})


def test_heartbeat_takes_our_time_and_known_fields_only() -> None:
    assert heard(greeting(), 7.0) is None
    more = {**SUMMARY, "conditions": [{"type": "Ready", "status": "True"}]}
    sample = heard(greeting(sample={"at": 1e12, "online": True, "healthy": True, "summary": more}), 7.0)
    assert sample is not None
    assert (sample.at, sample.online) == (7.0, True)
    assert sample.summary == SUMMARY


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[" * 100_000,
        b" " * (LARGEST + 1),
        greeting(sample={"at": 1, "summary": {"nodeSummary": {"totalNum": -1}}}),
        greeting(sample={"at": 1, "summary": {"resourceSummary": {"allocated": {"cpu": "much"}}}}),
        greeting(sample={"at": 1, "summary": {"apiEnablements": [{"groupVersion": "v" * 1000}]}}),
    ],
)
def test_invalid_heartbeat_is_refused(data: bytes) -> None:
    with pytest.raises(Malformed):
        heard(data, 7.0)


def test_flood_of_heartbeats_is_not_read() -> None:
    pace = HeartbeatRate()
    assert [pace.allows(5.0) for _ in range(PER_SECOND + 1)] == [True] * PER_SECOND + [False]
    assert pace.allows(6.0)
