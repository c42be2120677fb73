"""Given shares of a FederatedResourceQuota in members, when its status is decided, then it says what is used."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from schemas.codec import Known, subject_of
from schemas.events.observed import WorkObserved
from schemas.keys import ObjectKey
from schemas.manifest import Manifest
from services._rules.quota.usage_index import UsageIndex
from services.status_aggregator.quota_status import QuotaView, is_usage_key
from services.status_aggregator.quota_writer import QuotaStatusWriter
from services.status_aggregator.state import AggregatorState, fold
from tests.support.facts import asked, binding, cluster, placement, quota, quota_gone, raw, released, removed, work

KEY = ObjectKey("", "resourcequotas", "default", "all")
SHARES = {"m2": {"cpu": "50"}, "m1": {"cpu": "20"}}


class Summing:
    """The aggregator's state after facts, and what it says of the quota."""

    def __init__(self, *events: Known, enforced: bool = False) -> None:
        self.state = AggregatorState()
        if enforced:
            self.state.limited.usage = UsageIndex()
        self.seq = 0
        self.given(*events)

    def given(self, *events: Known) -> set[ObjectKey]:
        marked: set[ObjectKey] = set()
        for event in events:
            self.seq += 1
            marked |= set(fold(self.state, self.seq, subject_of(event), event))
        return marked

    def view(self) -> QuotaView:
        none: Any = None
        found = QuotaStatusWriter(none, self.state, none).wanted(KEY)
        assert found is not None
        return found

    @property
    def status(self) -> Manifest:
        return self.view().status


def share(name: str, **fields: Any) -> Known:
    return work(name, key=KEY, uid="q1", api_version="v1", kind="ResourceQuota", **fields)


def held(name: str, used: Manifest, hard: Manifest | None = None, **fields: Any) -> WorkObserved:
    status = raw({"hard": hard or SHARES.get(name, {}), "used": used})
    return WorkObserved(cluster=name, key=KEY, **{"uid": "q1", "applied": True, "status": status, **fields})


def shared(**more: Any) -> Summing:
    facts = (cluster("m1"), cluster("m2"), quota(cpu="100", assigned=SHARES), share("m1"), share("m2"))
    return Summing(*facts, **more)


def test_used_amounts_of_members_are_summed_by_cluster() -> None:
    summing = shared()
    marked = summing.given(held("m2", {"cpu": "1500m"}), held("m1", {"cpu": "500m", "pods": "3"}))
    assert marked == {KEY}
    assert summing.status == {
        "overall": {"cpu": "100"},
        "overallUsed": {"cpu": "2", "pods": "3"},
        "aggregatedStatus": [
            {"clusterName": "m1", "hard": {"cpu": "20"}, "used": {"cpu": "500m", "pods": "3"}},
            {"clusterName": "m2", "hard": {"cpu": "50"}, "used": {"cpu": "1500m"}},
        ],
    }


def test_only_what_is_held_for_the_quota_counts() -> None:
    summing = shared()
    summing.given(held("m1", {"cpu": "1"}, uid="other"), held("m2", {"cpu": "1"}, applied=False, message="no room"))
    assert summing.status == {"overall": {"cpu": "100"}}
    assert summing.view().unsynced == "cluster m2: no room"
    summing.given(held("m1", {"cpu": "1"}), removed("m1"))
    assert "aggregatedStatus" not in summing.status


def test_usage_of_bindings_counts_with_the_gate() -> None:
    """given enforcement, when bindings are placed, then their usage of the quota's resources is the overall one."""
    both = binding(2, replicaRequirements={"resourceRequest": {"cpu": "2", "memory": "1Gi"}})
    summing = shared(enforced=True)
    summing.given(held("m1", {"cpu": "9"}), both)
    assert "overallUsed" not in summing.status
    marked = summing.given(placement(m1=1, m2=2))
    assert any(is_usage_key(key) for key in marked)
    assert summing.status["overallUsed"] == {"cpu": "6"}
    assert summing.status["aggregatedStatus"][0]["used"] == {"cpu": "9"}
    assert any(is_usage_key(key) for key in summing.given(released()))
    assert "overallUsed" not in summing.status


def test_usage_counts_the_requests_that_were_admitted() -> None:
    summing = shared(enforced=True)
    summing.given(asked("nginx", 2), replace(placement(m1=2), requests={"cpu": "1"}), asked("nginx", 2, cpu=9))
    assert summing.status["overallUsed"] == {"cpu": "2"}


def test_hostile_reports_are_left_out() -> None:
    for wrong in ({"cpu": "lots"}, {"cpu": "-1"}, ["cpu"], {f"r{number}": "1" for number in range(500)}, {"cpu": []}):
        summing = shared()
        summing.given(held("m1", {"cpu": "1"}), held("m2", wrong))  # type: ignore[arg-type]
        assert summing.status["overallUsed"] == {"cpu": "1"}
        assert summing.view().unread.startswith("cluster m2: ")
    summing.given(held("m2", {}, status=raw([1])))
    assert summing.view().unread.startswith("cluster m2: ")


def test_problems_name_the_field_and_what_to_do() -> None:
    summing = Summing(cluster("m1"), quota(cpu="lots", memory="-1", assigned={"m1": {"cpu": "x"}, "m9": {}}))
    view = summing.view()
    assert view.status == {"overall": {}}
    for words in ("spec.overall[cpu]", "write digits", "spec.overall[memory]", "write 0 or more"):
        assert words in view.unused
    for words in ("spec.staticAssignments[0].hard[cpu]", "no member named m9", "waits until it joins"):
        assert words in view.unsynced
    assert KEY in summing.given(cluster("m9"))
    assert "m9" not in summing.view().unsynced


def test_propagated_quota_of_the_name_is_a_problem() -> None:
    summing = shared()
    bound = replace(binding(0), key=KEY, api_version="v1", kind="ResourceQuota", workload=False)
    summing.given(bound)
    assert "a policy propagates ResourceQuota default/all" in summing.view().unsynced


def test_quota_that_is_gone_or_ends_has_no_status() -> None:
    summing = shared()
    none: Any = None
    writer = QuotaStatusWriter(none, summing.state, none)
    assert writer.differs(KEY)
    summing.given(replace(quota(cpu="100"), deleting=True))
    assert writer.wanted(KEY) is None
    summing.given(quota_gone())
    assert writer.wanted(KEY) is None
    assert not summing.state.limited.in_namespace
