"""Grants of services one by one, and which of them an API server has counted as used."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import product
from typing import NamedTuple

from services._rules.kubernetes.rbac.policy_rules import Access, PolicyRule, rules_in
from services._rules.kubernetes.rbac.service_roles import CREDENTIALS, USERS, user_of

_LABEL = re.compile(r'(\w+)="([^"]*)"')
_SERIES = "fleetlog_apiserver_authorizations_total{"
_EVERYONE = ("selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews", "/version")
"""What every user may ask; kubectl does so with the credentials of services."""


class Grant(NamedTuple):
    """One verb on one resource of a group; on a path the group is empty and the resource begins with a slash."""

    service: str
    verb: str
    group: str
    resource: str


class Counted(NamedTuple):
    """Decisions about one kind of request of a service."""

    user: str
    verb: str
    group: str
    resource: str
    allowed: bool


def granted(service: str) -> Iterator[Grant]:
    """What the roles of a service grant."""
    for rule in _rules(service):
        for verb, group, resource in product(rule.verbs, rule.groups, rule.resources):
            yield Grant(service, verb, group, resource)
        for verb, url in product(rule.verbs, rule.urls):
            yield Grant(service, verb, "", url)


def counted(text: str) -> set[Counted]:
    """What the metrics of an API server say of services."""
    found = set()
    for line in text.splitlines():
        if line.startswith(_SERIES):
            of = dict(_LABEL.findall(line))
            found.add(Counted(of["user"], of["verb"], of["group"], of["resource"], of["allowed"] == "true"))
    return found


def used(seen: Iterable[Counted]) -> set[Grant]:
    """The grants by which what was allowed is allowed."""
    allowed = [one for one in seen if one.allowed]
    return {
        grant
        for service in USERS
        for grant in granted(service)
        for one in allowed
        if one.user == user_of(service) and _allows(grant, one)
    }


def beyond(seen: Iterable[Counted]) -> list[Counted]:
    """What was allowed to users of services by other roles than theirs."""
    services = {user_of(service): service for service in USERS}
    return [
        one
        for one in sorted(seen)
        if one.allowed
        and one.resource not in _EVERYONE
        and not any(_allows(grant, one) for grant in granted(services[one.user]))
    ]


def _rules(service: str) -> tuple[PolicyRule, ...]:
    credentials = {"apiGroups": [""], "resources": ["secrets"], "verbs": list(CREDENTIALS.get(service, ()))}
    return rules_in({"rules": [*USERS[service], credentials]})


def _allows(grant: Grant, one: Counted) -> bool:
    if one.resource.startswith("/"):
        # Only the first part of a path is counted.
        return grant.verb == one.verb and grant.resource.startswith("/") and grant.resource.startswith(one.resource)
    resource, _, subresource = one.resource.partition("/")
    access = Access(one.verb, one.group, "", resource, subresource)
    return PolicyRule((grant.verb,), (grant.group,), (grant.resource,)).allows(access)
