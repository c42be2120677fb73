"""The roles of services as data: nothing is granted twice, and ServiceAccounts get what users get."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest

from k8s.accounts import account_objects
from schemas.manifest import Manifest
from services._rules.constants import NAMESPACE_CLUSTER
from services._rules.kubernetes.rbac.policy_rules import PolicyRule, rules_in
from services._rules.kubernetes.rbac.role_index import Place, RoleIndex
from services._rules.kubernetes.rbac.service_roles import (
    ACCOUNTS_GROUP,
    SERVICE_GROUP,
    SERVICE_NAMESPACE,
    USERS,
    dns,
    service_objects,
    user_of,
)
from services._rules.kubernetes.rbac.user_names import account_user
from services.apiserver.core.request_context import Identity
from tests.e2e.used_rights import STARTED, UNWALKED, WALKED, grants_of
from tests.support.service_rights import granted


def grants(rules: list[Manifest]) -> Iterator[tuple[int, PolicyRule]]:
    """Each grant of one verb on one resource or path, with the position of its rule."""
    for position, rule in enumerate(rules_in({"rules": rules})):
        for verb, group, resource in product(rule.verbs, rule.groups, rule.resources):
            yield position, PolicyRule((verb,), (group,), (resource,), rule.names)
        for verb, url in product(rule.verbs, rule.urls):
            yield position, PolicyRule((verb,), urls=(url,))


@pytest.mark.parametrize("service", USERS)
def test_no_rule_grants_what_another_does(service: str) -> None:
    rules = list(USERS[service])
    others = [rules_in({"rules": [rule]})[0] for rule in rules]
    for position, grant in grants(rules):
        covering = [str(rule) for at, rule in enumerate(others) if at != position and rule.covers(grant)]
        assert not covering, f"{grant} is in {covering} as well"


@pytest.mark.parametrize("service", USERS)
def test_an_account_holds_what_the_user_holds(service: str) -> None:
    index = RoleIndex()
    for manifest in (*service_objects(), *account_objects()):
        metadata = manifest["metadata"]
        if "rbac" in manifest["apiVersion"]:
            index.take(Place(manifest["kind"], metadata.get("namespace", ""), metadata["name"]), manifest)
    user = Identity(user_of(service), "", (SERVICE_GROUP,))
    account = Identity(account_user(SERVICE_NAMESPACE, dns(service)), "", (ACCOUNTS_GROUP,))
    for namespace in ("", "default", NAMESPACE_CLUSTER):
        held, missing = index.rules_of(user, namespace)
        assert index.rules_of(account, namespace) == (held, missing)
        assert missing == ""


def test_each_right_is_used_by_a_walk_or_has_a_reason() -> None:
    walked = set(grants_of(STARTED)).union(*map(grants_of, WALKED.values()))
    unwalked = set().union(*map(grants_of, UNWALKED.values()))
    assert walked | unwalked == {grant for service in USERS for grant in granted(service)}
    assert not walked & unwalked


def test_no_group_has_rights_of_services() -> None:
    subjects = [one for item in (*service_objects(), *account_objects()) for one in item.get("subjects", ())]
    assert {one["kind"] for one in subjects} == {"User", "ServiceAccount"}
    assert {one["namespace"] for one in subjects if one["kind"] == "ServiceAccount"} == {SERVICE_NAMESPACE}
