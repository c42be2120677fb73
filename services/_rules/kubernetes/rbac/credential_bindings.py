"""Decides in which namespaces the services are bound to read the members' credentials, and by which bindings.

Clusters that other commands or people write may name Secrets in any namespace; docs/access.md says what that is worth.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Final

from msgspec import Struct

from schemas.manifest import Manifest
from services._rules.constants import EXECUTION_NAMESPACE_PREFIX, LABEL_TRUE, NAMESPACE_CLUSTER, NAMESPACE_SYSTEM
from services._rules.kubernetes.rbac.role_index import GROUP
from services._rules.kubernetes.rbac.service_roles import (
    CREDENTIALS,
    CREDENTIALS_NAMED,
    CREDENTIALS_WATCHED,
    SERVICE_NAMESPACE,
    account_of,
    user_of,
)

LABEL: Final = "fleetlog.io/members-credentials"
"""On the bindings that are made here and that go with the last Cluster that needs them."""
NOT_BOUND: Final = (
    "services are given no right to read Secrets in namespaces of the system: move the Secret to another namespace"
)

# The services read in the first one by roles of their own.
_UNBOUND: Final = frozenset((NAMESPACE_CLUSTER, NAMESPACE_SYSTEM, SERVICE_NAMESPACE, ""))


class Plan(Struct, frozen=True):
    """What has to be written so that the bindings are those that are needed."""

    create: tuple[Manifest, ...] = ()
    patch: tuple[Manifest, ...] = ()
    """With other subjects than those that are there."""
    delete: tuple[Manifest, ...] = ()


def may_hold_credentials(namespace: str) -> bool:
    """Whether services are bound in a namespace that a Cluster names: never in those of the system."""
    return namespace not in _UNBOUND and not namespace.startswith(("kube-", EXECUTION_NAMESPACE_PREFIX))


def bound_namespaces(spec: Manifest) -> frozenset[str]:
    """Namespaces in which services are bound to read the Secrets that a Cluster names; the usual one needs nothing."""
    references = (spec.get(field) or {} for field in ("secretRef", "impersonatorSecretRef"))
    return frozenset(filter(may_hold_credentials, (str(one.get("namespace") or "") for one in references)))


def accounts_of(bindings: Iterable[Manifest]) -> frozenset[str]:
    """Services that are ServiceAccounts, as the bindings in the usual namespace of the credentials show."""
    subjects = [subject for binding in bindings for subject in binding.get("subjects") or ()]
    return frozenset(service for service in CREDENTIALS if any(_same(account_of(service), one) for one in subjects))


def plan(namespaces: Collection[str], live: Sequence[Manifest], accounts: Collection[str]) -> Plan:
    """What to write, where `live` are the bindings with the label and `accounts` services that are ServiceAccounts."""
    there = {_place(binding): binding for binding in live}
    wanted = {_place(binding): binding for name in sorted(namespaces) for binding in bindings_of(name, accounts)}
    return Plan(
        create=tuple(binding for place, binding in wanted.items() if place not in there),
        patch=tuple(
            binding
            for place, binding in wanted.items()
            if place in there and not _as_wanted(there[place].get("subjects") or (), binding["subjects"])
        ),
        delete=tuple(binding for place, binding in there.items() if place not in wanted and place[1] in _SERVICES),
    )


_SERVICES: Final = {
    role: tuple(
        service for service, verbs in CREDENTIALS.items() if ("watch" in verbs) is (role == CREDENTIALS_WATCHED)
    )
    for role in (CREDENTIALS_WATCHED, CREDENTIALS_NAMED)
}
"""Services by the role that they are bound to."""


def bindings_of(namespace: str, accounts: Collection[str] = ()) -> Iterator[Manifest]:
    """The bindings of a namespace: one to each of the two roles."""
    for role, services in _SERVICES.items():
        users = [{"apiGroup": GROUP, "kind": "User", "name": user_of(service)} for service in services]
        yield {
            "apiVersion": f"{GROUP}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": role, "namespace": namespace, "labels": {LABEL: LABEL_TRUE}},
            "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": role},
            "subjects": [*users, *(account_of(service) for service in services if service in accounts)],
        }


def _place(binding: Manifest) -> tuple[str, str]:
    return binding["metadata"]["namespace"], binding["metadata"]["name"]


def _as_wanted(live: Collection[Manifest], wanted: Collection[Manifest]) -> bool:
    return len(live) == len(wanted) and all(any(_same(one, other) for other in live) for one in wanted)


def _same(one: Manifest, other: Manifest) -> bool:
    return _subject(one) == _subject(other)


def _subject(subject: Manifest) -> tuple[Any, ...]:
    # A server may add the group of a user, and leaves out the empty one of an account.
    return subject.get("kind"), subject.get("namespace") or "", subject.get("name")
