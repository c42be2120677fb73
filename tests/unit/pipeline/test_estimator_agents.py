"""Room in pull members as agents tell it: asked once, waited for a while, once; quotas, sets, what was given away."""

from __future__ import annotations

from typing import Any

import msgspec

from schemas.codec import Known
from schemas.events.binding import BindingRequested
from schemas.events.estimate import CapacityEstimated, ClusterEstimate
from schemas.events.lease import LeaseTaken
from schemas.events.placement import PlacementDecided, PlacementFailed, TargetCluster
from schemas.manifest import Manifest
from services._rules.capacity.replica_estimate import NO_OPINION, Answers, Picture, read_requirements, requirements_of
from services._rules.capacity.reserved import needs_of
from services.estimator.decide import EstimateDecision, ask, decide
from services.estimator.remote import FRESH_SECONDS, PROBE_SECONDS, MemberAnswers, Remote
from tests.support.facts import AGGREGATED, KEY, NOW, ONE_CLUSTER, binding, cluster, cpus, node, only
from tests.support.harness import ESTIMATOR, ESTIMATOR_PATIENCE, Harness

PULLED: Manifest = {**AGGREGATED, **only("m1", "m3")}
NEEDS = cpus(3)


def quota(hard: Manifest, used: Manifest, namespace: str = "default", **spec: Any) -> Manifest:
    return {"metadata": {"name": "q", "namespace": namespace}, "spec": spec, "status": {"hard": hard, "used": used}}


def picture(nodes: int = 3, *quotas: Manifest) -> Picture:
    made = Picture()
    made.rooms.list_nodes([node(f"n{number}") for number in range(nodes)])
    made.rooms.list_pods([])
    made.quotas.list_quotas(quotas)
    return made


def requested(replicas: int) -> BindingRequested:
    return binding(replicas, PULLED, **NEEDS)


class Asking(Harness):
    """An estimator with a pull member m3."""

    def __init__(self, *events: Known) -> None:
        self.members = MemberAnswers()
        super().__init__(ESTIMATOR, LeaseTaken(service="estimator", instance="e"), cluster("m3", syncMode="Pull"))
        self.given(*events)
        self.members.agents["m3"] = Remote()

    def asks(self) -> EstimateDecision:
        made = decide(self.state, self.members, KEY, self.now, ESTIMATOR_PATIENCE)
        ask(self.members, KEY, made, self.now)
        return made

    def waits(self) -> float | None:
        """When it asks again, unless it has an estimate."""
        made = self.asks()
        assert not made.events
        return made.wake_at

    def agent_says(self, *replicas: int) -> list[Manifest]:
        """The agent is asked and answers; what it was asked."""
        digests = self.remote.next_digests()
        question = self.remote.take_question(digests, self.state.ledger.taken("m3"), 1, True)
        self.remote.answered(digests, replicas or None, self.seq, self.now)
        return [msgspec.to_builtins(item) for item in question.taken]

    @property
    def remote(self) -> Remote:
        return self.members.agents["m3"]

    def estimates(self) -> dict[str, int]:
        """Append the estimate; its replicas by cluster."""
        (event,) = self.asks().events
        assert isinstance(event, CapacityEstimated), event
        self.takes([event])
        return {item.cluster: item.replicas for item in event.estimates}


def test_agent_is_asked_once_and_its_answer_recorded() -> None:
    asking = Asking(requested(4))
    assert asking.waits() == NOW + 2.0
    assert asking.agent_says(5) == []
    (event,) = asking.asks().events
    assert isinstance(event, CapacityEstimated)
    assert event.estimates == (ClusterEstimate("m3", 5, "agent", 3, NOW),)
    asking.takes([event])
    assert asking.asks() == EstimateDecision()
    assert asking.remote.next_digests() == []


def test_changed_binding_needs_another_answer() -> None:
    asking = Asking(requested(4))
    asking.asks()
    asking.agent_says(5)
    asking.estimates()
    asking.given(requested(6))
    assert asking.waits()
    asking.agent_says(2)
    assert asking.estimates() == {"m3": 2}


def test_absent_agent_is_waited_for_once() -> None:
    asking = Asking(requested(4))
    assert asking.waits()
    asking.agent_says()
    assert asking.estimates() == {"m3": NO_OPINION}
    asking.now += PROBE_SECONDS
    asking.given(requested(5))
    assert asking.estimates() == {"m3": NO_OPINION}
    assert len(asking.remote.next_digests()) == 1
    asking.given(requested(6))
    assert asking.estimates() == {"m3": NO_OPINION}
    asking.agent_says(3)
    asking.given(requested(7))
    assert asking.waits()


def test_unschedulable_is_asked_about_again_later() -> None:
    asking = Asking(requested(4))
    asking.asks()
    asking.agent_says(2)
    asking.estimates()
    asking.given(PlacementFailed(key=KEY, uid="u1", reason="Unschedulable", message="no room"))
    assert asking.waits()
    asking.agent_says(2)
    assert asking.waits() == asking.now + FRESH_SECONDS
    assert asking.remote.next_digests() == []
    asking.now += FRESH_SECONDS + 1
    assert asking.waits()
    asking.agent_says(4)
    assert asking.estimates() == {"m3": 4}


def test_agent_is_sent_the_reservations_of_its_member() -> None:
    other = binding(2, PULLED, name="other", **NEEDS)
    placed = PlacementDecided(key=other.key, uid="u1", clusters=(TargetCluster("m3", 2),), scheduled_at=NOW, replicas=2)
    asking = Asking(other, placed, requested(4))
    asking.asks()
    assert asking.agent_says(5) == [{"count": 2, "namespace": "default", "requests": {"cpu": "3"}}]


def test_member_that_became_push_is_not_asked() -> None:
    asking = Asking(requested(4))
    assert asking.state.pull == {"m3"}
    asking.given(cluster("m3"))
    assert asking.state.pull == set()


def test_reservations_take_from_nodes_and_quotas() -> None:
    taken = dict(needs_of({"resource": {"namespace": "default"}, "replicas": 1, **NEEDS}, detailed=True))
    wanted = requirements_of({"resource": {"namespace": "default"}, **NEEDS})
    answers = Answers(picture(3))
    assert answers.replicas(wanted) == 3
    assert answers.replicas(wanted, dict.fromkeys(taken, 2), 1) == 1
    limited = Answers(picture(3, quota({"cpu": "9"}, {"cpu": "3"})))
    assert limited.replicas(wanted) == 2
    assert limited.replicas(wanted, dict.fromkeys(taken, 1), 1) == 1
    assert limited.replicas(wanted, dict.fromkeys(taken, 9), 2) == 0


def test_changed_quota_changes_the_answer() -> None:
    seen = picture(3, quota({"cpu": "3"}, {"cpu": "0"}))
    answers, wanted = Answers(seen), requirements_of({"resource": {"namespace": "default"}, **NEEDS})
    assert answers.replicas(wanted) == 1
    seen.quotas.put(quota({"cpu": "6"}, {"cpu": "0"}))
    assert answers.replicas(wanted) == 2
    seen.quotas.drop("default", "q")
    assert answers.replicas(wanted) == 3


def test_member_without_quotas_is_not_waited_for() -> None:
    seen = Picture()
    seen.rooms.list_nodes([node("n")])
    seen.rooms.list_pods([])
    wanted = requirements_of({"resource": {"namespace": "default"}, **NEEDS})
    assert Answers(seen).replicas(wanted) == NO_OPINION
    seen.quotas.refused()
    assert Answers(seen).replicas(wanted) == 1


def component(name: str, replicas: int, cpu: str) -> Manifest:
    return {"name": name, "replicas": replicas, "replicaRequirements": {"resourceRequest": {"cpu": cpu}}}


def test_sets_of_components_are_counted_whole() -> None:
    spec: Manifest = {
        "resource": {"namespace": "default"},
        "components": [component("leader", 1, "1"), component("worker", 2, "3")],
    }
    wanted = requirements_of(spec)
    assert Answers(picture(3)).replicas(wanted) == 1
    assert Answers(picture(4)).replicas(wanted) == 2
    assert Answers(picture(4, quota({"cpu": "10"}, {"cpu": "0"}))).replicas(wanted) == 1
    assert Answers(picture(0)).replicas(wanted) == 0
    assert read_requirements(wanted.stated).digest == wanted.digest


def test_component_sets_of_one_cluster_are_asked_about() -> None:
    components = [component("leader", 1, "1"), component("worker", 2, "3")]
    asking = Asking(binding(0, {**PULLED, **ONE_CLUSTER}, components=components))
    assert asking.waits()
    asking.agent_says(1)
    assert asking.estimates() == {"m3": 1}
    assert Asking(binding(0, PULLED, components=components)).asks() == EstimateDecision()
