"""Quotas of a namespace against bindings: what passes, what is refused, what is written."""

from typing import Any

from services._rules.admission import Denied
from services._rules.admission.later.federated_quota import QuotaUse, check_quotas


def binding(replicas: int, **request: str) -> dict[str, Any]:
    requirements = {"resourceRequest": request or {"cpu": "1500m"}}
    return {"spec": {"clusters": [{"name": "m1", "replicas": replicas}], "replicaRequirements": requirements}}


def quota(name: str, overall: dict[str, str], used: dict[str, str]) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"overall": overall}, "status": {"overallUsed": used}}


TEN = quota("ten", {"cpu": "10"}, {"cpu": "8"})


def test_a_change_within_the_limit_is_added_to_the_use() -> None:
    assert check_quotas(binding(3), binding(2), [TEN]) == (QuotaUse("ten", {"cpu": "9500m"}),)


def test_a_use_equal_to_the_limit_passes() -> None:
    assert check_quotas(binding(2, cpu="1"), None, [TEN]) == (QuotaUse("ten", {"cpu": "10"}),)


def test_a_use_above_the_limit_is_refused() -> None:
    found = check_quotas(binding(4), binding(2), [TEN])
    assert isinstance(found, Denied)
    assert (found.code, found.reason) == (403, "QuotaExceeded")
    assert "ten" in found.message
    assert "11" in found.message


def test_moving_replicas_between_clusters_is_no_change() -> None:
    moved = binding(2)
    moved["spec"]["clusters"] = [{"name": "m1", "replicas": 1}, {"name": "m2", "replicas": 1}]
    assert check_quotas(moved, binding(2), [quota("full", {"cpu": "1"}, {"cpu": "8"})]) == ()


def test_an_unscheduled_binding_uses_nothing() -> None:
    unscheduled = binding(2)
    unscheduled["spec"]["clusters"] = []
    assert check_quotas(unscheduled, None, [TEN]) == ()


def test_lowered_limit_refuses_a_scale_down_above_it() -> None:
    lowered = quota("lowered", {"cpu": "1"}, {"cpu": "8"})
    assert isinstance(check_quotas(binding(1), binding(2), [lowered]), Denied)
    assert isinstance(
        check_quotas(binding(1), None, [quota("m", {"cpu": "99", "memory": "1"}, {"memory": "2"})]), Denied
    )


def test_a_quota_on_other_resources_does_not_count() -> None:
    assert check_quotas(binding(9), None, [quota("other", {"requests.cpu": "1"}, {})]) == ()


def test_every_quota_of_the_namespace_must_pass() -> None:
    found = check_quotas(binding(1), None, [TEN, quota("one", {"cpu": "1"}, {})])
    assert isinstance(found, Denied)
    assert "one" in found.message


def test_components_use_one_set_per_cluster() -> None:
    several = {
        "spec": {
            "clusters": [{"name": "m1"}, {"name": "m2"}],
            "components": [{"name": "a", "replicas": 2, "replicaRequirements": {"resourceRequest": {"cpu": "1"}}}],
        }
    }
    assert check_quotas(several, None, [quota("q", {"cpu": "4"}, {})]) == (QuotaUse("q", {"cpu": "4"}),)
    assert isinstance(check_quotas(several, None, [quota("q", {"cpu": "3"}, {})]), Denied)


def test_released_resources_leave_the_usage() -> None:
    assert check_quotas({"spec": {}}, binding(2), [quota("q", {"cpu": "4"}, {"cpu": "3"})]) == (QuotaUse("q", {}),)
