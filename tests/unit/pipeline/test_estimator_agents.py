"""Room in pull members as agents tell it: asked once, waited for a while, once; quotas, sets, what was given away."""

from __future__ import annotations

from typing import Any

import msgspec

from schemas.codec import Known, subject_of
from schemas.envelope import Provenance
from schemas.events.estimate import CapacityEstimated, ClusterEstimate
from schemas.events.lease import LeaseTaken
from schemas.events.placement import PlacementDecided, PlacementFailed, TargetCluster
from schemas.manifest import Manifest
from services._rules.capacity.replica_estimate import NO_OPINION, Answers, Picture, read_requirements, requirements_of
from services._rules.capacity.reserved import needs_of
from services.estimator.decide import EstimateDecision, ask, decide
from services.estimator.remote import FRESH_SECONDS, PROBE_SECONDS, Remote
from services.estimator.state import EstimatorState, fold
from tests.support.facts import KEY, binding, cluster

NOW = 1_793_232_000.0
AGGREGATED: Manifest = {
    "clusterAffinity": {"clusterNames": ["m1", "m3"]},
    "replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"},
}
ONE_CLUSTER: Manifest = {
    **AGGREGATED,
    "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}],
}
NEEDS: Manifest = {"replicaRequirements": {"resourceRequest": {"cpu": "3"}}}


def node(name: str, cpu: str = "4") -> Manifest:
    return {"metadata": {"name": name}, "spec": {}, "status": {"allocatable": {"cpu": cpu, "pods": "100"}}}


def quota(hard: Manifest, used: Manifest, namespace: str = "default", **spec: Any) -> Manifest:
    return {"metadata": {"name": "q", "namespace": namespace}, "spec": spec, "status": {"hard": hard, "used": used}}


def picture(nodes: int = 3, *quotas: Manifest) -> Picture:
    made = Picture()
    made.rooms.list_nodes([node(f"n{number}") for number in range(nodes)])
    made.rooms.list_pods([])
    made.quotas.list_quotas(quotas)
    return made


class Asking:
    """An estimator with a pull member m3."""

    def __init__(self, *events: Known) -> None:
        self.state = EstimatorState()
        self.seq = 0
        self.now = NOW
        self.given(LeaseTaken(service="estimator", instance="e"), cluster("m3", syncMode="Pull"), *events)
        self.state.remotes["m3"] = Remote()

    def given(self, *events: Known) -> None:
        for event in events:
            self.seq += 1
            list(fold(self.state, self.seq, subject_of(event), event, self.now))

    def decides(self) -> EstimateDecision:
        made = decide(self.state, KEY, self.now, 2.0)
        ask(self.state, KEY, made, self.now)
        return made

    def agent_says(self, *replicas: int) -> list[Manifest]:
        """The agent is asked and answers; what it was asked."""
        digests = self.remote.next_digests()
        question = self.remote.take_question(digests, self.state.ledger.taken("m3"), 1, True)
        self.remote.answered(digests, replicas or None, self.seq, self.now)
        return [msgspec.to_builtins(item) for item in question.taken]

    @property
    def remote(self) -> Remote:
        return self.state.remotes["m3"]

    def appends(self, made: EstimateDecision) -> dict[str, int]:
        (event,) = made.events
        assert isinstance(event, CapacityEstimated), event
        self.given(msgspec.structs.replace(event, provenance=Provenance(as_of=self.seq)))
        return {item.cluster: item.replicas for item in event.estimates}


def waits(made: EstimateDecision) -> float | None:
    assert not made.events
    return made.wake_at


def test_an_agent_is_asked_once_and_its_answer_is_kept_with_where_it_comes_from() -> None:
    asking = Asking(binding(4, AGGREGATED, **NEEDS))
    assert waits(asking.decides()) == NOW + 2.0
    assert asking.agent_says(5) == []
    made = asking.decides()
    (event,) = made.events
    assert isinstance(event, CapacityEstimated)
    assert event.estimates == (ClusterEstimate("m3", 5, "agent", 3, NOW),)
    asking.appends(made)
    assert asking.decides() == EstimateDecision()
    assert asking.remote.next_digests() == []


def test_another_request_needs_another_answer() -> None:
    asking = Asking(binding(4, AGGREGATED, **NEEDS))
    asking.decides()
    asking.agent_says(5)
    asking.appends(asking.decides())
    asking.given(binding(6, AGGREGATED, **NEEDS))
    assert waits(asking.decides())
    asking.agent_says(2)
    assert asking.appends(asking.decides()) == {"m3": 2}


def test_an_agent_that_is_away_is_waited_for_once_and_not_by_every_decision() -> None:
    asking = Asking(binding(4, AGGREGATED, **NEEDS))
    assert waits(asking.decides())
    asking.agent_says()
    assert asking.appends(asking.decides()) == {"m3": NO_OPINION}
    asking.now += PROBE_SECONDS
    asking.given(binding(5, AGGREGATED, **NEEDS))
    assert asking.appends(asking.decides()) == {"m3": NO_OPINION}
    assert len(asking.remote.next_digests()) == 1
    asking.given(binding(6, AGGREGATED, **NEEDS))
    assert asking.appends(asking.decides()) == {"m3": NO_OPINION}
    asking.agent_says(3)
    asking.given(binding(7, AGGREGATED, **NEEDS))
    assert waits(asking.decides())


def test_what_could_not_be_placed_is_asked_about_again_after_a_while() -> None:
    asking = Asking(binding(4, AGGREGATED, **NEEDS))
    asking.decides()
    asking.agent_says(2)
    asking.appends(asking.decides())
    asking.given(PlacementFailed(key=KEY, uid="u1", reason="Unschedulable", message="no room"))
    assert waits(asking.decides())
    asking.agent_says(2)
    assert waits(asking.decides()) == asking.now + FRESH_SECONDS
    assert asking.remote.next_digests() == []
    asking.now += FRESH_SECONDS + 1
    assert waits(asking.decides())
    asking.agent_says(4)
    assert asking.appends(asking.decides()) == {"m3": 4}


def test_the_agent_hears_of_pods_that_its_member_was_given_and_does_not_show() -> None:
    other = msgspec.structs.replace(binding(2, AGGREGATED, **NEEDS), key=msgspec.structs.replace(KEY, name="other"))
    placed = PlacementDecided(key=other.key, uid="u1", clusters=(TargetCluster("m3", 2),), scheduled_at=NOW, replicas=2)
    asking = Asking(other, placed, binding(4, AGGREGATED, **NEEDS))
    asking.decides()
    assert asking.agent_says(5) == [{"count": 2, "namespace": "default", "requests": {"cpu": "3"}}]


def test_a_member_that_is_no_pull_member_any_more_is_not_spoken_of() -> None:
    asking = Asking(binding(4, AGGREGATED, **NEEDS))
    assert asking.state.pull == {"m3"}
    asking.given(cluster("m3"))
    assert asking.state.pull == set()


def test_pods_given_away_take_their_place_on_nodes_and_in_quotas_before_anything_is_measured() -> None:
    taken = dict(needs_of({"resource": {"namespace": "default"}, "replicas": 1, **NEEDS}, detailed=True))
    wanted = requirements_of({"resource": {"namespace": "default"}, **NEEDS})
    answers = Answers(picture(3))
    assert answers.replicas(wanted) == 3
    assert answers.replicas(wanted, dict.fromkeys(taken, 2), 1) == 1
    limited = Answers(picture(3, quota({"cpu": "9"}, {"cpu": "3"})))
    assert limited.replicas(wanted) == 2
    assert limited.replicas(wanted, dict.fromkeys(taken, 1), 1) == 1
    assert limited.replicas(wanted, dict.fromkeys(taken, 9), 2) == 0


def test_quotas_limit_the_requests_of_their_namespace_and_class() -> None:
    wanted: Manifest = {"resource": {"namespace": "default"}, **NEEDS}
    high: Manifest = {**NEEDS["replicaRequirements"], "priorityClassName": "high"}
    scope = {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]}
    scoped = quota({"requests.cpu": "4"}, {"requests.cpu": "0"}, scopeSelector=scope)
    for found, spec, expected in (
        (quota({"cpu": "7"}, {"cpu": "1"}), wanted, 2),
        (quota({"cpu": "7"}, {"cpu": "1"}, "other"), wanted, 3),
        (quota({"cpu": "3"}, {"cpu": "9"}), wanted, 0),
        (quota({"limits.cpu": "3", "pods": "1"}, {"limits.cpu": "0", "pods": "0"}), wanted, 3),
        (quota({"cpu": "no number"}, {"cpu": "0"}), wanted, 3),
        (scoped, wanted, 3),
        (scoped, {**wanted, "replicaRequirements": high}, 1),
    ):
        assert Answers(picture(3, found)).replicas(requirements_of(spec)) == expected, found


def test_a_quota_that_changes_or_goes_changes_the_answer() -> None:
    seen = picture(3, quota({"cpu": "3"}, {"cpu": "0"}))
    answers, wanted = Answers(seen), requirements_of({"resource": {"namespace": "default"}, **NEEDS})
    assert answers.replicas(wanted) == 1
    seen.quotas.put(quota({"cpu": "6"}, {"cpu": "0"}))
    assert answers.replicas(wanted) == 2
    seen.quotas.drop("default", "q")
    assert answers.replicas(wanted) == 3


def test_a_member_that_does_not_show_quotas_is_not_waited_for() -> None:
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


def test_sets_that_go_to_one_cluster_are_asked_about() -> None:
    components = [component("leader", 1, "1"), component("worker", 2, "3")]
    asking = Asking(binding(0, ONE_CLUSTER, components=components))
    assert waits(asking.decides())
    asking.agent_says(1)
    assert asking.appends(asking.decides()) == {"m3": 1}
    assert Asking(binding(0, AGGREGATED, components=components)).decides() == EstimateDecision()
