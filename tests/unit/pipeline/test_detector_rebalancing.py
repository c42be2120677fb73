"""WorkloadRebalancers: what they ask of bindings, what their status says, and when they go."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import Raw
from msgspec.structs import replace

from schemas.events.binding import BindingReleased, BindingRequested
from schemas.events.policy import PolicyChanged
from services._rules.interpreter.result_cache import ResultPending
from services.detector import decide as deciding
from services.detector import state as det
from services.detector.decide import decide_template
from services.detector.effects import DeleteRebalancer
from services.detector.rebalancing.rebalancer_decision import decide_rebalancer
from tests.support.detector_harness import policy
from tests.support.facts import KEY, NOW, deployment
from tests.support.rebalancing import CREATED, RebalancingHarness, bound_to, workload

WEB, API = bound_to("web"), bound_to("api")
CONFIG = bound_to("config", "ConfigMap", group="")
ROLE = bound_to("system:role", "ClusterRole", "", "rbac.authorization.k8s.io")


def test_bindings_are_asked_for_a_fresh_schedule() -> None:
    """given bindings of three kinds, when a rebalancer names them, then each holds its creation time and it is done."""
    fleet = RebalancingHarness(WEB, CONFIG, ROLE)
    names = [
        workload("web"),
        workload("system:role", "ClusterRole", "", "rbac.authorization.k8s.io/v1"),
        workload("config", "ConfigMap", api="v1"),
    ]
    all_of_them = fleet.creates("all", *names)
    fleet.rests(all_of_them)
    assert [fleet.triggered(fact) for fact in (WEB, CONFIG, ROLE)] == [(CREATED, ("all",))] * 3
    assert fleet.results(all_of_them) == ["web Successful", "system:role Successful", "config Successful"]
    assert fleet.status(all_of_them)["observedGeneration"] == 1
    assert fleet.status(all_of_them)["finishTime"] == "2026-10-29T00:00:00Z"
    assert fleet.writes == 1


def test_missing_binding_is_a_final_failure() -> None:
    fleet = RebalancingHarness(WEB)
    key = fleet.creates("all", workload("web"), workload("gone"), workload("x", "Nothing", "a"), workload("", ""))
    fleet.rests(key)
    assert fleet.results(key) == [
        "Failed ReferencedBindingNotFound",
        "gone Failed ReferencedBindingNotFound",
        "web Successful",
        "x Failed ReferencedBindingNotFound",
    ]
    assert "finishTime" in fleet.status(key)
    [(reason, message)] = set(fleet.notes)
    assert reason == "ReferencedBindingNotFound"
    assert "Deployment default/gone" in message
    assert "that a policy selects them" in message
    fleet.given(bound_to("gone"))
    fleet.creates("all", workload("web"), workload("gone"), workload("api"))
    fleet.rests(key)
    assert "gone Failed ReferencedBindingNotFound" in fleet.results(key)


def test_edit_keeps_what_succeeded_and_drops_what_failed() -> None:
    fleet = RebalancingHarness(WEB, API)
    key = fleet.creates("all", workload("web"), workload("gone"))
    fleet.rests(key)
    fleet.now += 60
    fleet.creates("all", workload("api"))
    fleet.rests(key)
    assert fleet.results(key) == ["api Successful", "web Successful"]
    assert fleet.status(key)["observedGeneration"] == 2
    assert fleet.status(key)["finishTime"] == "2026-10-29T00:01:00Z"


def test_failed_workload_is_tried_again_after_two_edits() -> None:
    fleet = RebalancingHarness(WEB)
    key = fleet.creates("all", workload("web"), workload("api"))
    fleet.rests(key)
    fleet.creates("all", workload("web"))
    fleet.rests(key)
    fleet.given(API)
    fleet.lists("deployments.apps")
    fleet.creates("all", workload("web"), workload("api"))
    fleet.rests(key)
    assert fleet.results(key) == ["api Successful", "web Successful"]


def test_duplicates_collapse_and_another_api_version_counts() -> None:
    fleet = RebalancingHarness(WEB)
    key = fleet.creates("all", workload("web"), workload("web"), workload("web", api="apps/v1beta1"))
    fleet.rests(key)
    assert fleet.results(key) == ["web Successful", "web Successful"]
    assert fleet.triggered(WEB) == (CREATED, ("all",))


def test_finished_object_goes_when_its_time_is_over() -> None:
    fleet = RebalancingHarness(WEB)
    key = fleet.creates("all", workload("web"), ttlSecondsAfterFinished=300)
    fleet.rests(key)
    assert fleet.rebalances(key).wake_at == NOW + 300
    assert not fleet.deleted
    fleet.now += 300
    view = fleet.state.policies[key]
    [gone] = fleet.rebalances(key).effects
    assert gone == DeleteRebalancer(key, view.uid, view.manifest["metadata"]["resourceVersion"])
    assert fleet.deleted == ["all"]


def test_edited_lifetime_counts_from_the_edit() -> None:
    fleet = RebalancingHarness(WEB)
    key = fleet.creates("all", workload("web"))
    fleet.rests(key)
    assert fleet.rebalances(key).wake_at is None
    fleet.now += 1000
    fleet.creates("all", workload("web"), ttlSecondsAfterFinished=0)
    fleet.rebalances(key)
    assert not fleet.deleted
    assert fleet.status(key)["finishTime"] == "2026-10-29T00:16:40Z"
    fleet.rebalances(key)
    assert fleet.deleted == ["all"]


def test_only_a_later_rebalancer_replaces_a_request() -> None:
    fleet = RebalancingHarness(WEB)
    late = fleet.creates("late", workload("web"), created="2026-10-29T00:00:09Z")
    fleet.rests(late)
    early = fleet.creates("early", workload("web"))
    fleet.rests(early)
    assert fleet.results(early) == ["web Successful"]
    assert fleet.triggered(WEB) == ("2026-10-29T00:00:09Z", ("late",))


def test_rebalancers_of_one_second_both_count() -> None:
    """given a request of a rebalancer, when another is created in the same second, then it is a request of its own."""
    fleet = RebalancingHarness(WEB)
    fleet.rests(fleet.creates("b", workload("web")))
    first = fleet.state.binding_facts[WEB.key]
    both = fleet.creates("a", workload("web")), fleet.creates("c", workload("web"))
    fleet.rests(*both)
    second = fleet.state.binding_facts[WEB.key]
    assert fleet.triggered(WEB) == (CREATED, ("a", "b", "c"))
    assert isinstance(first, BindingRequested)
    assert isinstance(second, BindingRequested)
    assert second.reschedule is not None
    assert second.generation == second.reschedule.generation == first.generation + 1


@pytest.mark.parametrize("served", [True, False])
def test_nothing_is_missing_before_its_kind_is_listed(served: bool) -> None:
    fleet = RebalancingHarness(WEB, listed=(), served=served)
    fleet.state.listed.discard("deployments.apps")
    key = fleet.creates("all", workload("web"), workload("api"))
    decision = fleet.rebalances(key)
    assert not fleet.status(key)
    for marked in decision.also:
        fleet.binds(marked)
    fleet.now += 5
    fleet.rebalances(key)
    assert fleet.results(key) == ["api", "web Successful"]
    assert "finishTime" not in fleet.status(key)
    if not served:
        assert fleet.state.rebalancing.serve((("Deployment", "apps", "deployments"),)) == [key]
    assert key in fleet.lists("deployments.apps")
    fleet.rests(key)
    assert fleet.results(key) == ["api Failed ReferencedBindingNotFound", "web Successful"]


def test_binding_on_its_way_is_waited_for() -> None:
    """given an object whose binding is yet to be decided, when a rebalancer names it, then it takes the request."""
    fleet = RebalancingHarness()
    fleet.takes(policy())
    fleet.sees(deployment())
    key = fleet.creates("all", workload("nginx"))
    fleet.rests(key)
    assert fleet.results(key) == ["nginx Successful"]
    bound = fleet.state.binding_facts[KEY]
    assert isinstance(bound, BindingRequested)
    assert fleet.triggered(bound) == (CREATED, ("all",))
    assert bound.generation == 1


def test_request_survives_changes_of_template_and_policy() -> None:
    fleet = RebalancingHarness()
    fleet.takes(policy())
    fleet.sees(deployment())
    fleet.settles()
    key = fleet.creates("all", workload("nginx"))
    fleet.rests(key)
    before = fleet.state.binding_facts[KEY]
    assert isinstance(before, BindingRequested)
    manifest = fleet.state.templates[KEY]
    edited = {**manifest["metadata"], "generation": 9}
    fleet.sees({**manifest, "metadata": edited, "spec": {**manifest["spec"], "replicas": 7}})
    fleet.decides()
    after = fleet.state.binding_facts[KEY]
    assert isinstance(after, BindingRequested)
    assert after.replicas == 7
    assert after.reschedule == before.reschedule
    assert fleet.triggered(after) == (CREATED, ("all",))
    assert not decide_template(fleet.state, KEY, NOW).events


def test_orphaned_suspended_and_lazy_bindings_take_requests() -> None:
    orphan = replace(bound_to("orphan"), policy=None)
    suspended = bound_to("suspended")
    spec = {**msgspec.json.decode(suspended.spec), "suspension": {"scheduling": True}}
    fleet = RebalancingHarness(orphan, replace(suspended, spec=Raw(msgspec.json.encode(spec))))
    key = fleet.creates("all", workload("orphan"), workload("suspended"))
    fleet.rests(key)
    assert fleet.results(key) == ["orphan Successful", "suspended Successful"]


def test_released_binding_and_namespace_are_not_found() -> None:
    namespace = replace(bound_to("team", "Namespace", "", ""), everywhere=True)
    fleet = RebalancingHarness(WEB, namespace)
    fleet.given(BindingReleased(key=WEB.key, uid=WEB.uid))
    fleet.state.templates.pop(WEB.key, None)
    key = fleet.creates("all", workload("web"), workload("team", "Namespace", ""))
    fleet.rests(key)
    assert {line.split()[1] for line in fleet.results(key)} == {"Failed"}


def test_kinds_without_bindings_are_forgotten_as_after_a_restart() -> None:
    released = BindingReleased(key=WEB.key, uid=WEB.uid)
    lived, restarted = RebalancingHarness(WEB, API, CONFIG), RebalancingHarness(API, CONFIG)
    for fleet in (lived, restarted):
        fleet.given(released)
    assert lived.state.rebalancing.resources == restarted.state.rebalancing.resources
    for fleet in (lived, restarted):
        fleet.given(BindingReleased(key=API.key, uid=API.uid))
        assert fleet.state.rebalancing.resources.keys() == {"configmap"}


def test_restart_in_the_middle_asks_for_nothing_twice() -> None:
    fleet = RebalancingHarness(WEB, API)
    key = fleet.creates("all", workload("web"), workload("api"))
    fleet.rebalances(key)
    fleet.binds(WEB.key)
    halfway = dict(fleet.state.binding_facts)
    other = RebalancingHarness(*[fact for fact in halfway.values() if isinstance(fact, BindingRequested)])
    other.creates("all", workload("web"), workload("api"))
    other.rests(key)
    assert other.results(key) == ["api Successful", "web Successful"]
    assert other.state.binding_facts[WEB.key] == halfway[WEB.key]
    written = other.writes
    other.rests(key)
    assert other.writes == written


def test_pending_interpretation_delays_no_request(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = RebalancingHarness(WEB)
    key = fleet.creates("all", workload("web"))
    fleet.rebalances(key)

    def pending(*_: Any) -> None:
        raise ResultPending(())

    monkeypatch.setattr(deciding, "_decided", pending)
    decision = decide_template(fleet.state, WEB.key, NOW)
    assert decision.also == (WEB.key,)
    fleet.given(*decision.events)
    fleet.rests(key)
    assert fleet.results(key) == ["web Successful"]
    with pytest.raises(ResultPending):
        decide_template(fleet.state, WEB.key, NOW)


def test_outcome_stands_in_the_history() -> None:
    fleet = RebalancingHarness(WEB)
    key = fleet.creates("all", workload("web"), workload("gone"))
    fleet.rests(key)
    fact = fleet.state.policy_facts[key]
    assert isinstance(fact, PolicyChanged)
    assert fact.outcome == (
        "a new schedule asked for 1 of 2 workloads; ReferencedBindingNotFound: Deployment default/gone"
    )
    fleet.now += 60
    fleet.creates("all", workload("web"))
    fleet.rests(key)
    fact = fleet.state.policy_facts[key]
    assert isinstance(fact, PolicyChanged)
    assert fact.outcome == "a new schedule asked for 1 of 1 workloads"


@pytest.mark.parametrize("spec", [{"workloads": "all"}, {"workloads": [{"name": 1}]}, {"ttlSecondsAfterFinished": "x"}])
def test_unreadable_spec_is_told_and_stops_nothing(spec: dict[str, Any]) -> None:
    fleet = RebalancingHarness(WEB)
    broken = fleet.creates("broken", **spec)
    good = fleet.creates("good", workload("web"))
    fleet.rebalances(broken)
    fleet.rests(good)
    assert [reason for reason, _ in fleet.notes] == ["InvalidSpec"]
    assert not fleet.status(broken)
    assert fleet.results(good) == ["web Successful"]


def test_deleted_rebalancer_withdraws_what_is_open() -> None:
    fleet = RebalancingHarness(WEB)
    key = fleet.creates("all", workload("web"))
    fleet.rebalances(key)
    det.take_policy(fleet.state, key, None)
    fleet.rebalances(key)
    assert not fleet.state.rebalancing.requests
    fleet.binds(WEB.key)
    assert fleet.triggered(WEB) == ("", ())


def test_ten_thousand_workloads_end_in_one_status() -> None:
    bound = [bound_to(f"w{number}") for number in range(5000)]
    fleet = RebalancingHarness(*bound)
    key = fleet.creates("all", *(workload(f"w{number}") for number in range(10_000)))
    decision = fleet.rebalances(key)
    assert len(decision.also) == 5000
    woken = []
    for fact in bound:
        for event in decide_template(fleet.state, fact.key, NOW).events:
            fleet.seq += 1
            woken += det.fold(fleet.state, fleet.seq, "binding", event)
    # It is looked at once, when the last of its requests is taken in.
    assert woken == [key]
    fleet.rests(key)
    results = fleet.status(key)["observedWorkloads"]
    assert [item["result"] for item in results].count("Successful") == 5000
    assert fleet.writes == 1
    assert results == sorted(results, key=lambda item: f"apps/v1 Deployment default {item['workload']['name']}")


def test_decision_is_the_same_twice() -> None:
    fleet = RebalancingHarness(WEB)
    key = fleet.creates("all", workload("web"), workload("gone"))
    first, second = (decide_rebalancer(fleet.state, key, NOW) for _ in range(2))
    assert first == second
