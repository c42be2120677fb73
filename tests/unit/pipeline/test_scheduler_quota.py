"""Given FederatedResourceQuotas and their gate, when placements are decided, then no quota is exceeded by them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.codec import Known
from schemas.events.placement import PlacementDecided, PlacementFailed, TargetCluster
from services._rules.quota.binding_usage import requests_of
from services._rules.quota.usage_index import UsageIndex
from services.scheduler.app import Scheduler
from services.scheduler.namespace_quotas import waiting_key
from services.scheduler.placement_admission import REQUESTS_CHANGED
from services.scheduler.settings import SchedulerSettings
from tests.support.facts import asked, binding, edited, evicted, key, member, quota, quota_gone, released, targets
from tests.support.harness import Harness, running

GATE = ("FederatedQuotaEnforcement=true",)
WAITING = waiting_key("default")


class Limited(Harness):
    """A scheduler that enforces quotas, over members with room for everything."""

    def __init__(self, *events: Known, gates: tuple[str, ...] = GATE) -> None:
        members = (member("m1", 1000), member("m2", 1000))
        super().__init__(running(Scheduler(SchedulerSettings(feature_gates=gates))), *members, *events)
        self.state.watch.begin()

    def refused(self, name: str) -> PlacementFailed:
        event = self.decides(name)
        assert isinstance(event, PlacementFailed), event
        assert event.reason == "QuotaExceeded"
        return event

    def placed(self, name: str) -> PlacementDecided:
        event = self.decides(name)
        assert isinstance(event, PlacementDecided), event
        return event

    def tried_again(self) -> set[str]:
        """Who is decided again for what became free."""
        return {found.name for found in self.decision(WAITING).also} if WAITING in self.marked else set()


def used(scheduler: Harness) -> dict[str, str]:
    return {name: str(amount) for name, amount in scheduler.state.quotas.usage.total("default").items()}


def test_limit_equal_to_the_sum_passes() -> None:
    scheduler = Limited(quota(cpu="10"), asked("one", 8), asked("two", 2))
    assert scheduler.placed("one").replicas == 8
    assert scheduler.placed("two").requests == {"cpu": "1"}
    assert used(scheduler) == {"cpu": "10"}


def test_placement_above_the_limit_is_refused() -> None:
    scheduler = Limited(quota(cpu="100"), asked("one", 20), asked("two", 81))
    scheduler.placed("one")
    refused = scheduler.refused("two")
    assert refused.clusters == ()
    assert refused.refusal is not None
    assert (refused.refusal.resource, refused.refusal.requested, refused.refusal.limit) == ("cpu", "101", "100")
    for word in ("default/all", "101 cpu", "100", "raise spec.overall.cpu"):
        assert word in refused.message
    assert used(scheduler) == {"cpu": "20"}


def test_nothing_is_limited_without_the_gate() -> None:
    scheduler = Limited(quota(cpu="1"), asked("one", 8), gates=())
    assert scheduler.placed("one").requests is None


def test_refused_scale_up_keeps_the_placement() -> None:
    scheduler = Limited(quota(cpu="10"), asked("one", 2), asked("other", 6))
    before = scheduler.placed("one")
    scheduler.placed("other")
    scheduler.given(asked("one", 5))
    refused = scheduler.refused("one")
    assert refused.clusters == before.clusters
    assert used(scheduler) == {"cpu": "8"}
    scheduler.given(asked("one", 4))
    assert sum(targets(scheduler.placed("one")).values()) == 4  # type: ignore[arg-type]


def test_scale_down_that_stays_above_is_refused() -> None:
    scheduler = Limited(quota(cpu="10"), asked("one", 8))
    scheduler.placed("one")
    scheduler.given(quota(cpu="4"), asked("one", 5))
    scheduler.refused("one")
    scheduler.given(asked("one", 4))
    assert scheduler.placed("one").replicas == 4


def test_lowered_memory_refuses_a_change_of_cpu() -> None:
    """given memory above its limit, when only other resources change, then the change is refused all the same."""
    both = binding(2, name="one", replicaRequirements={"resourceRequest": {"cpu": "1", "memory": "1Gi"}})
    scheduler = Limited(quota(cpu="10", memory="2Gi"), both, asked("two", 1))
    scheduler.placed("one")
    scheduler.given(quota(cpu="10", memory="1Gi"))
    assert scheduler.refused("two").refusal.resource == "memory"  # type: ignore[union-attr]


def test_moving_replicas_is_no_change_of_usage() -> None:
    scheduler = Limited(quota(cpu="10"), asked("one", 8))
    first = scheduler.placed("one")
    scheduler.given(quota(cpu="4"))
    gone = first.clusters[0].name
    spec = edited(
        asked("one", 8),
        "spec",
        placement={
            "clusterAffinity": {"exclude": [gone]},
            "replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"},
        },
    )
    scheduler.given(spec)
    assert gone not in targets(scheduler.placed("one"))


@pytest.mark.parametrize("second", [{"cpu": "3"}, {"cpu": "3", "memory": "1Gi"}])
def test_two_quotas_must_both_pass(second: dict[str, str]) -> None:
    scheduler = Limited(quota(cpu="10"), quota("small", uid="q2", **second), asked("one", 4))
    assert scheduler.refused("one").refusal.quota == "small"  # type: ignore[union-attr]
    scheduler.given(quota_gone("small", "q2"))
    assert scheduler.tried_again() == {"one"}
    scheduler.placed("one")


def test_quota_of_other_resources_is_skipped() -> None:
    """given a quota whose resources do not change, when it is exceeded already, then it does not count."""
    scheduler = Limited(quota(memory="1Gi"), quota("cpus", uid="q2", **{"requests.cpu": "1"}), asked("one", 4))
    scheduler.placed("one")


def test_burst_takes_no_amount_twice() -> None:
    scheduler = Limited(quota(cpu="100"), *(asked(f"w{number}", 3) for number in range(60)))
    made = [scheduler.decided(f"w{number}") for number in range(60)]
    placed = [event for event in made if isinstance(event, PlacementDecided)]
    assert len(placed) == 33
    assert used(scheduler) == {"cpu": "99"}


def test_waiting_are_tried_only_where_they_fit() -> None:
    scheduler = Limited(quota(cpu="10"), asked("big", 10), *(asked(f"w{number}", 3) for number in range(5)))
    scheduler.placed("big")
    for number in range(5):
        scheduler.refused(f"w{number}")
    scheduler.given(asked("big", 8))
    scheduler.placed("big")
    assert scheduler.tried_again() == set()
    scheduler.given(released("big"))
    assert scheduler.tried_again() == {"w0", "w1", "w2"}


def test_refusal_is_not_repeated_for_other_sums() -> None:
    scheduler = Limited(quota(cpu="10"), asked("one", 20))
    scheduler.refused("one")
    scheduler.given(asked("two", 2))
    scheduler.placed("two")
    assert scheduler.decides("one") is None
    scheduler.given(quota(cpu="11"))
    assert scheduler.refused("one").refusal.limit == "11"  # type: ignore[union-attr]


def test_eviction_frees_usage() -> None:
    scheduler = Limited(quota(cpu="10"), asked("one", 10), asked("two", 3))
    first = scheduler.placed("one")
    scheduler.refused("two")
    for target in first.clusters:
        scheduler.given(evicted(target.name, name="one"))
    assert scheduler.tried_again() == {"two"}


def test_restart_counts_the_same() -> None:
    scheduler = Limited(quota(cpu="10"), asked("one", 6), asked("two", 6))
    scheduler.placed("one")
    scheduler.refused("two")
    again = scheduler.restarted()
    assert again.state.quotas == scheduler.state.quotas
    assert again.decides("two") is None
    assert used(again) == {"cpu": "6"}
    again.given(released("one"))
    assert WAITING in again.marked


def test_greater_requests_are_admitted_first() -> None:
    """given a placement, when its pods ask for more, then it is recorded if quotas pass, and refused otherwise."""
    scheduler = Limited(quota(cpu="10"), asked("one", 4))
    before = scheduler.placed("one")
    scheduler.given(asked("one", 4, cpu=2))
    raised = scheduler.placed("one")
    assert (raised.trigger, raised.clusters) == (REQUESTS_CHANGED, before.clusters)
    assert raised.requests == {"cpu": "2"}
    scheduler.given(asked("one", 4, cpu=3))
    refused = scheduler.refused("one")
    assert refused.requests == {"cpu": "2"}
    assert used(scheduler) == {"cpu": "8"}
    assert scheduler.restarted().decides("one") is None
    scheduler.given(asked("one", 4, cpu=1))
    assert scheduler.placed("one").requests == {"cpu": "1"}


def test_gate_turned_on_records_what_stands() -> None:
    """given placements of before the gate, when it is on, then each is recorded once, above the limit as well."""
    before = Limited(quota(cpu="2"), asked("one", 8), gates=())
    before.placed("one")
    after = Limited(gates=GATE)
    after.given(*(event for _, event in before.log))
    assert after.placed("one").requests == {"cpu": "1"}
    assert after.decides("one") is None
    assert used(after) == {"cpu": "8"}


@pytest.mark.parametrize("amount", ["lots", "-1", [], {"a": 1}, "1e9999"])
def test_unreadable_limit_blocks_nothing(amount: Any) -> None:
    scheduler = Limited(quota(cpu=amount, memory="1Gi"), asked("one", 4))
    scheduler.placed("one")


def test_thousands_of_quotas_answer_by_the_lowest() -> None:
    scheduler = Limited(*(quota(f"q{number}", uid=f"u{number}", cpu=str(10 + number)) for number in range(3000)))
    scheduler.given(asked("one", 11))
    assert scheduler.refused("one").refusal.quota == "q0"  # type: ignore[union-attr]
    scheduler.given(quota_gone("q0", "u0"))
    scheduler.placed("one")


_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), st.integers(0, 4), st.integers(0, 6), st.integers(1, 3)),
        st.tuples(st.just("decide"), st.integers(0, 4)),
        st.tuples(st.just("quota"), st.integers(0, 20)),
        st.tuples(st.just("release"), st.integers(0, 4)),
    ),
    max_size=30,
)


@settings(max_examples=60, deadline=None)
@given(_STEPS)
def test_usage_is_a_recount_and_never_grows_above(steps: list[tuple[Any, ...]]) -> None:
    """given any order of requests and quotas, then usage is what a recount finds, and no decision exceeds a limit."""
    scheduler, limit = Limited(quota(cpu="10")), 10
    for step in steps:
        match step:
            case ("ask", number, replicas, cpu):
                scheduler.given(asked(f"w{number}", replicas, cpu=cpu))
            case ("quota", limit):
                scheduler.given(quota(cpu=str(limit)))
            case ("release", number):
                scheduler.given(released(f"w{number}"))
            case (_, number):
                before = scheduler.state.quotas.usage.total("default").get("cpu")
                event = scheduler.decides(f"w{number}")
                after = scheduler.state.quotas.usage.total("default").get("cpu")
                if isinstance(event, PlacementDecided) and after is not None:
                    grew = after.nano - (before.nano if before is not None else 0)
                    assert grew <= 0 or after.value() <= limit
    recount = UsageIndex()
    for name, scheduled in scheduler.state.objects.items():
        if scheduled.spec is not None:
            recount.stands(name, scheduled.in_force, scheduled.targets)
    assert recount == scheduler.state.quotas.usage
    assert scheduler.restarted().state.quotas.usage == scheduler.state.quotas.usage


def test_components_use_one_set_in_each_cluster() -> None:
    part = {"replicas": 2, "replicaRequirements": {"resourceRequest": {"cpu": "500m"}}}
    index, requests = UsageIndex(), requests_of({"components": [part, part]})
    index.stands(key("one"), requests, (TargetCluster("m1"), TargetCluster("m2")))
    assert {name: str(amount) for name, amount in index.total("default").items()} == {"cpu": "4"}
