"""Policy rules, the index of roles and bindings, and the roles that every server starts with."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.manifest import Manifest
from services._rules.kubernetes.rbac.policy_rules import Access, PolicyRule, not_covered, rules_in
from services._rules.kubernetes.rbac.role_index import GROUP, Place, RoleIndex
from services.apiserver.auth.rbac.default_roles import default_objects
from services.apiserver.core.request_context import Identity

READ = PolicyRule(("get", "list"), ("",), ("pods",))
ALICE = Identity("alice", "", ("dev", "system:authenticated"))


@pytest.mark.parametrize(
    ("rule", "access", "allowed"),
    [
        (READ, Access("get", resource="pods"), True),
        (READ, Access("delete", resource="pods"), False),
        (READ, Access("get", resource="pods", subresource="log"), False),
        (READ, Access("get", "apps", resource="pods"), False),
        (PolicyRule(("*",), ("*",), ("*",)), Access("use", "x", resource="y", subresource="z"), True),
        (PolicyRule(("get",), ("",), ("pods/log",)), Access("get", resource="pods", subresource="log"), True),
        (
            PolicyRule(("get",), ("apps",), ("*/status",)),
            Access("get", "apps", resource="a", subresource="status"),
            True,
        ),
        (PolicyRule(("get",), ("",), ("pods/*",)), Access("get", resource="pods", subresource="log"), False),
        (PolicyRule(("get",), ("",), ("pods",), ("a",)), Access("get", resource="pods", name="a"), True),
        (PolicyRule(("get",), ("",), ("pods",), ("a",)), Access("list", resource="pods"), False),
        (PolicyRule(("get",), urls=("/x*",)), Access("get", path="/x/y"), True),
        (PolicyRule(("get",), urls=("/x",)), Access("get", path="/x/y"), False),
        (PolicyRule(("*",), ("*",), ("*",)), Access("get", path="/metrics"), False),
    ],
)
def test_a_rule_allows_what_it_names(rule: PolicyRule, access: Access, *, allowed: bool) -> None:
    assert rule.allows(access) is allowed


@pytest.mark.parametrize(
    ("wanted", "missing"),
    [
        (READ, []),
        (PolicyRule(("get", "watch"), ("",), ("pods",)), ['{APIGroups:[""], Resources:["pods"], Verbs:["watch"]}']),
        (PolicyRule(("get",), ("",), ("pods",), ("a",)), []),
        (PolicyRule(("get",), ("",), ("*",)), ['{APIGroups:[""], Resources:["*"], Verbs:["get"]}']),
        (
            PolicyRule(("get", "delete"), ("",), ("pods", "secrets")),
            [
                '{APIGroups:[""], Resources:["pods"], Verbs:["delete"]}',
                '{APIGroups:[""], Resources:["secrets"], Verbs:["get" "delete"]}',
            ],
        ),
        (PolicyRule(("get",), urls=("/metrics",)), ['{NonResourceURLs:["/metrics"], Verbs:["get"]}']),
    ],
)
def test_what_is_granted_beyond_own_rules_is_named(wanted: PolicyRule, missing: list[str]) -> None:
    assert [str(rule) for rule in not_covered([READ], [wanted])] == missing


def test_a_name_does_not_cover_all_names() -> None:
    one = PolicyRule(("get",), ("",), ("pods",), ("a",))
    assert not_covered([one], [PolicyRule(("get",), ("",), ("pods",))])
    assert not_covered([one], [one]) == []


def binding(kind: str, role: str, /, **subject: Any) -> Manifest:
    return {"roleRef": {"kind": kind, "name": role}, "subjects": [subject]}


def indexed() -> RoleIndex:
    index = RoleIndex()
    role: Manifest = {"rules": [READ.manifest()]}
    index.take(Place("Role", "ns", "r"), role)
    index.take(Place("ClusterRole", "", "c"), role)
    return index


def test_a_binding_counts_in_its_namespace_only() -> None:
    index = indexed()
    access = Access("get", resource="pods", namespace="ns")
    assert not index.decide(ALICE, access).allowed
    index.take(Place("RoleBinding", "ns", "b"), binding("Role", "r", kind="Group", name="dev"))
    assert index.decide(ALICE, access).reason == 'RBAC: allowed by RoleBinding "b/ns" of Role "r" to Group "dev"'
    assert not index.decide(ALICE, Access("get", resource="pods", namespace="other")).allowed
    index.take(Place("RoleBinding", "ns", "b"), binding("Role", "r", kind="User", name="bob"))
    assert not index.decide(ALICE, access).allowed
    assert index.decide(Identity("bob"), access).allowed
    index.take(Place("Role", "ns", "r"), None)
    assert index.decide(Identity("bob"), access).reason == f'RBAC: role.{GROUP} "r" not found'
    index.take(Place("RoleBinding", "ns", "b"), None)
    assert index.decide(Identity("bob"), access).reason == ""


def test_cluster_roles_count_where_they_are_bound() -> None:
    index = indexed()
    account = {"kind": "ServiceAccount", "name": "acc", "namespace": "ns"}
    index.take(Place("ClusterRoleBinding", "", "b"), binding("ClusterRole", "c", **account))
    holder = Identity("system:serviceaccount:ns:acc")
    verdict = index.decide(holder, Access("list", resource="pods", namespace="any"))
    assert verdict.reason == 'RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "c" to ServiceAccount "acc/ns"'
    assert index.rules_of(holder, "any") == ([READ], "")
    assert index.decide(Identity("x", "", ("system:masters",)), Access("delete", resource="nodes")).allowed


def test_default_roles_hold_those_they_aggregate() -> None:
    roles = {place.name: rules_in(manifest) for place, manifest in default_objects() if place.kind == "ClusterRole"}
    assert set(roles["view"]) < set(roles["edit"]) < set(roles["admin"])
    assert not any("secrets" in rule.resources for rule in roles["view"])
    index = RoleIndex()
    for place, manifest in default_objects():
        index.take(place, manifest)
    anonymous = Identity("system:anonymous", "", ("system:unauthenticated",))
    assert index.decide(anonymous, Access("get", path="/healthz")).allowed
    assert not index.decide(anonymous, Access("get", path="/metrics")).allowed
