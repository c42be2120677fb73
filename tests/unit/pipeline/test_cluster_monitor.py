"""Probes and Cluster objects in, conditions, taints and facts out."""

from __future__ import annotations

from typing import Any

import msgspec

from schemas.agent import Expiry
from schemas.codec import subject_of
from schemas.events.cluster import ClusterChanged, ClusterRemoved
from services._rules.kubernetes.patch.json_patch import merge_patch
from services.cluster_monitor.decide import (
    FINALIZER,
    AddFinalizer,
    ClusterDecision,
    DropFinalizer,
    WriteSpec,
    WriteStatus,
    decide,
)
from services.cluster_monitor.state import MonitorState, Probe

T0 = 1_793_232_000.0
READY = {"kubernetesVersion": "v1.31.4", "apiEnablements": [{"groupVersion": "v1", "resources": []}]}


def capacity(allocated: str) -> dict[str, Any]:
    return {**READY, "resourceSummary": {"allocatable": {"cpu": "100"}, "allocated": {"cpu": allocated}}}


class World:
    """One member as the monitor sees it; writes come back as the control plane would return them."""

    def __init__(self) -> None:
        self.state = MonitorState(listed=True)
        self.cluster = self.state.of("m1")
        self.cluster.manifest = {
            "metadata": {"name": "m1", "uid": "c1", "generation": 1, "finalizers": [FINALIZER]},
            "spec": {"syncMode": "Push"},
        }
        self.seq = 0

    def probes(self, at: float, *, online: bool = True, summary: dict[str, Any] | None = None) -> ClusterDecision:
        healthy = online
        self.cluster.probe = Probe(
            at=T0 + at, online=online, healthy=healthy, summary=summary or (READY if healthy else None)
        )
        return self.decides(at)

    def decides(self, at: float = 0.0) -> ClusterDecision:
        verdict = decide(self.state, "m1", T0 + at)
        self.cluster.memory = verdict.memory or self.cluster.memory
        for event in verdict.events:
            self.seq += 1
            assert subject_of(event) == "cluster.m1"
            self.cluster.fact = event if isinstance(event, ClusterChanged) else None
        manifest = self.cluster.manifest
        for effect in verdict.effects:
            assert manifest is not None
            match effect:
                case WriteStatus():
                    manifest["status"] = merge_patch(manifest.get("status") or {}, effect.patch)
                case WriteSpec():
                    manifest["spec"]["taints"] = effect.taints
                case AddFinalizer():
                    manifest["metadata"]["finalizers"] = [FINALIZER]
                case DropFinalizer():
                    manifest["metadata"]["finalizers"] = []
        return verdict

    @property
    def ready(self) -> str:
        assert self.cluster.manifest is not None
        conditions = self.cluster.manifest.get("status", {}).get("conditions", [])
        return next((c["status"] for c in conditions if c["type"] == "Ready"), "")

    @property
    def taints(self) -> list[str]:
        assert self.cluster.manifest is not None
        return [taint["key"] for taint in self.cluster.manifest["spec"].get("taints", [])]


def test_a_new_cluster_is_taken_into_care_and_tainted_until_it_is_ready() -> None:
    world = World()
    assert world.cluster.manifest is not None
    world.cluster.manifest["metadata"]["finalizers"] = []
    verdict = world.decides()
    assert any(isinstance(effect, AddFinalizer) for effect in verdict.effects)
    assert world.taints == ["cluster.karmada.io/not-ready"]
    world.probes(0)
    assert world.ready == "True"
    assert world.taints == []


def test_deciding_again_says_nothing() -> None:
    world = World()
    world.probes(0)
    world.decides()
    verdict = world.decides()
    assert not verdict.events
    assert not verdict.effects


def test_a_failure_is_published_only_when_it_lasts() -> None:
    world = World()
    world.probes(0)
    world.probes(10, online=False)
    assert world.ready == "True"
    world.probes(30, online=False)
    assert world.ready == "True"
    world.probes(41, online=False)
    assert world.ready == "False"
    assert world.taints == ["cluster.karmada.io/not-ready"]


def test_nothing_is_due_between_two_probes() -> None:
    """The window ends while a probe waits for an answer: it is the next probe that ends the matter."""
    world = World()
    world.probes(0)
    world.probes(10, online=False)
    verdict = world.decides(41)
    assert verdict == ClusterDecision()
    assert world.ready == "True"


def test_one_good_probe_restarts_the_window() -> None:
    world = World()
    world.probes(0)
    world.probes(10, online=False)
    world.probes(20)
    world.probes(30, online=False)
    world.probes(45, online=False)
    assert world.ready == "True"


def test_recovery_has_to_last_too() -> None:
    world = World()
    world.probes(0, online=False)
    assert world.ready == "False"
    world.probes(10)
    assert world.ready == "False"
    world.probes(41)
    assert world.ready == "True"


def test_an_unreachable_cluster_keeps_what_was_known_of_it() -> None:
    world = World()
    world.probes(0)
    world.probes(1, online=False)
    world.probes(32, online=False)
    assert world.cluster.manifest is not None
    assert world.cluster.manifest["status"]["kubernetesVersion"] == "v1.31.4"


def test_a_cluster_that_got_empty_holds_nothing_of_what_was_said_before() -> None:
    world = World()
    world.probes(0, summary=capacity("30"))
    full = capacity("30")
    del full["resourceSummary"]["allocated"]
    world.probes(10, summary=full)
    assert world.cluster.manifest is not None
    assert "allocated" not in world.cluster.manifest["status"]["resourceSummary"]
    # A restart starts from the object alone: it must say what the last fact says.
    world.cluster.probe = None
    assert not world.decides(20).events


def test_small_moves_of_capacity_are_no_facts() -> None:
    world = World()
    world.probes(0, summary=capacity("10"))
    world.decides()
    verdict = world.probes(10, summary=capacity("12"))
    assert any(isinstance(effect, WriteStatus) for effect in verdict.effects)
    assert not verdict.events
    verdict = world.probes(20, summary=capacity("30"))
    (event,) = verdict.events
    assert isinstance(event, ClusterChanged)
    summary = msgspec.json.decode(event.manifest)["status"]["resourceSummary"]
    assert summary["allocated"] == {"cpu": "30"}


def test_labels_and_taints_are_facts() -> None:
    world = World()
    world.probes(0)
    world.decides()
    assert world.cluster.manifest is not None
    world.cluster.manifest["metadata"]["labels"] = {"tier": "gold"}
    assert world.decides().events


def test_a_leaving_cluster_is_let_go_when_it_is_empty_or_out_of_reach() -> None:
    for online in (True, False):
        world = World()
        world.probes(0, online=online)
        assert world.cluster.manifest is not None
        world.cluster.manifest["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        verdict = world.decides()
        assert any(isinstance(event, ClusterChanged) and event.deleting for event in verdict.events)
        assert any(isinstance(effect, DropFinalizer) for effect in verdict.effects) is not online
        world.cluster.empty = True
        verdict = world.decides()
        if online:
            assert any(isinstance(effect, DropFinalizer) for effect in verdict.effects)


def test_a_removed_cluster_is_said_to_be_gone_only_after_a_complete_list() -> None:
    world = World()
    world.probes(0)
    world.cluster.manifest = None
    world.state.listed = False
    assert not decide(world.state, "m1", T0).events
    world.state.listed = True
    (event,) = decide(world.state, "m1", T0).events
    assert isinstance(event, ClusterRemoved)


def test_a_cluster_without_probes_is_unknown_until_it_is_probed_again() -> None:
    world = World()
    world.probes(0)
    assert world.ready == "True"
    world.cluster.unprobed = True
    world.decides(200)
    assert world.ready == "Unknown"
    assert world.taints == ["cluster.karmada.io/unreachable"]
    world.cluster.unprobed = False
    world.probes(210)
    world.probes(250)
    assert world.ready == "True"
    assert world.taints == []


def test_credentials_that_expire_soon_are_a_condition_and_a_fact() -> None:
    world = World()
    world.probes(0)
    expiry = Expiry(at=T0 + 86_400, since=T0 - 300 * 86_400, what="the client certificate in Secret a/m1")
    world.cluster.probe = Probe(at=T0 + 10, online=True, healthy=True, summary=READY, expiry=expiry)
    verdict = world.decides(10)
    assert world.cluster.manifest is not None
    found = [c for c in world.cluster.manifest["status"]["conditions"] if c["type"] == "CredentialsExpiring"]
    assert [(c["status"], c["reason"]) for c in found] == [("True", "ExpiresSoon")]
    assert "the client certificate in Secret a/m1 expires at" in found[0]["message"]
    assert len(verdict.events) == 1
    assert not world.decides(10).events
