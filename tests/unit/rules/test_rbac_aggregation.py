"""Aggregated roles, roles that a start completes, and the roles of our own services."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.manifest import Manifest
from services._rules.constants import NAMESPACE_CLUSTER
from services._rules.kubernetes.rbac.aggregation import aggregated_rules
from services._rules.kubernetes.rbac.credential_bindings import bindings_of
from services._rules.kubernetes.rbac.policy_rules import Access
from services._rules.kubernetes.rbac.role_index import GROUP, Place, RoleIndex
from services._rules.kubernetes.rbac.service_roles import (
    RULES,
    SERVICE_GROUP,
    credential_objects,
    service_objects,
    user_of,
)
from services.apiserver.auth.rbac.default_roles import AUTO_UPDATE, default_objects
from services.apiserver.auth.rbac.reconciliation import reconciled
from services.apiserver.core.request_context import Identity


def rule(resource: str) -> Manifest:
    return {"verbs": ["get"], "apiGroups": [""], "resources": [resource]}


def role(name: str, *resources: str, **more: Any) -> Manifest:
    labels = more.pop("labels", {})
    return {"metadata": {"name": name, "labels": labels}, "rules": [rule(one) for one in resources], **more}


ROLES = [
    role("b", "pods", "nodes", labels={"x": "1"}),
    role("a", "pods", "events", labels={"x": "1"}),
    role("c", "jobs"),
]


@pytest.mark.parametrize(
    ("selectors", "resources"),
    [
        ([{"matchLabels": {"x": "1"}}], ["pods", "events", "nodes"]),
        ([{"matchLabels": {"x": "2"}}], []),
        ([{"matchLabels": {"x": "2"}}, {"matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]}], ["jobs"]),
        ([{}], ["pods", "events", "nodes", "jobs"]),
        ([], []),
        ([{"matchExpressions": [{"key": "x", "operator": "Strange"}]}], None),
    ],
)
def test_a_role_holds_what_it_selects(selectors: list[Manifest], resources: list[str] | None) -> None:
    own = role("sum", "secrets", aggregationRule={"clusterRoleSelectors": selectors})
    found = aggregated_rules(own, [own, *ROLES])
    assert (found and [one["resources"][0] for one in found]) == (resources or found)
    assert (found is None) is (resources is None)


def test_a_role_without_selectors_is_left_alone() -> None:
    assert aggregated_rules(role("plain", "pods"), ROLES) is None


def test_a_start_adds_what_is_missing_and_keeps_the_rest() -> None:
    stored, wanted = role("r", "pods", labels={"mine": "yes"}), role("r", "pods", "nodes", labels={"x": "1"})
    made = reconciled(stored, wanted, exact=False)
    assert made is not None
    assert made["metadata"]["labels"] == {"mine": "yes", "x": "1"}
    assert made["rules"] == [rule("pods"), rule("nodes")]
    assert reconciled(made, wanted, exact=False) is None
    kept = reconciled(role("r", "jobs"), wanted, exact=True)
    assert kept is not None
    assert kept["rules"] == wanted["rules"]
    stored["metadata"]["annotations"] = {AUTO_UPDATE: "false"}
    assert reconciled(stored, wanted, exact=True) is None


def indexed(*more: Manifest) -> RoleIndex:
    index = RoleIndex()
    for place, manifest in default_objects():
        index.take(place, manifest)
    _, *ours = service_objects()
    for manifest in (*ours, *more):
        metadata = manifest["metadata"]
        index.take(Place(manifest["kind"], metadata.get("namespace", ""), metadata["name"]), manifest)
    return index


@pytest.mark.parametrize("service", RULES)
def test_services_hold_no_right_to_make_others_theirs(service: str) -> None:
    index = indexed()
    who = Identity(user_of(service), "", (SERVICE_GROUP, "system:authenticated"))
    for access in (
        Access("create", GROUP, resource="clusterrolebindings"),
        Access("impersonate", resource="users", name="admin"),
        Access("create", resource="serviceaccounts", subresource="token", namespace="default", name="x"),
        Access("delete", "apps", resource="deployments", namespace="default", name="x"),
        Access("get", path="/metrics"),
    ):
        assert not index.decide(who, access).allowed, access
    reads = {"autoscaler", "cluster_monitor", "estimator", "executor", "gateway", "search"}
    for namespace in (NAMESPACE_CLUSTER, "default"):
        secret = Access("get", resource="secrets", namespace=namespace, name="x")
        wide = service in {"detector", "status_aggregator"}
        assert index.decide(who, secret).allowed is (wide or (service in reads and namespace == NAMESPACE_CLUSTER))
    assert not indexed().decide(Identity(user_of("gateway")), Access("list", resource="secrets")).allowed


def test_credentials_elsewhere_are_read_as_well() -> None:
    who = Identity(user_of("executor"), "", (SERVICE_GROUP,))
    access = Access("get", resource="secrets", namespace="elsewhere", name="m")
    assert not indexed().decide(who, access).allowed
    assert indexed(*bindings_of("elsewhere")).decide(who, access).allowed
    assert indexed(*credential_objects("elsewhere")).decide(who, access).allowed
    gateway = indexed(*bindings_of("elsewhere"))
    for verb in ("get", "list"):
        access = Access(verb, resource="secrets", namespace="elsewhere", name="m" if verb == "get" else "")
        assert gateway.decide(Identity(user_of("gateway")), access).allowed is (verb == "get")
