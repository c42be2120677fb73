"""What is counted of decisions about requests: those of services, by what was asked for, and not without end."""

from __future__ import annotations

import pytest

from services._rules.kubernetes.rbac.policy_rules import Access
from services._rules.kubernetes.rbac.service_roles import SERVICE_GROUP
from services.apiserver.auth import counted_decisions
from services.apiserver.auth.authorization import AlwaysAllow
from services.apiserver.auth.counted_decisions import CountedDecisions
from services.apiserver.core.metrics import AUTHORIZATIONS
from services.apiserver.core.request_context import Identity


def of(user: str) -> dict[tuple[str, str, str], float]:
    """Verb, group and resource of a user's requests, with their number."""
    return {
        (sample.labels["verb"], sample.labels["group"], sample.labels["resource"]): sample.value
        for metric in AUTHORIZATIONS.collect()
        for sample in metric.samples
        if sample.name.endswith("_total") and sample.labels["user"] == user
    }


@pytest.mark.parametrize(
    ("access", "resource"),
    [
        (Access("get", path="/apis/apps/v1"), ("get", "", "/apis")),
        (Access("options", path="*"), ("options", "", "/*")),
        (Access("get", path="/"), ("get", "", "/")),
        (Access("patch", "apps", "v1", "deployments", "status"), ("patch", "apps", "deployments/status")),
    ],
)
def test_every_request_of_a_service_has_a_series(access: Access, resource: tuple[str, str, str]) -> None:
    user = f"fleetlog:counted-{access.verb}-{access.path or access.resource}"
    counted = CountedDecisions(AlwaysAllow())
    for groups in ((SERVICE_GROUP,), ("system:authenticated",)):
        assert counted.decide(Identity(user, groups=groups), access).allowed
    assert of(user) == {resource: 1.0}


def test_series_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counted_decisions, "_MOST", 2)
    counted = CountedDecisions(AlwaysAllow())
    before = sum(of("other").values())
    for number in range(5):
        user = Identity("fleetlog:bounded", groups=(SERVICE_GROUP,))
        counted.decide(user, Access("get", "apps", "v1", f"kind{number}"))
    assert len(of("fleetlog:bounded")) == 2
    assert sum(of("other").values()) == before + 3
