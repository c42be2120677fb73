"""Which requests share seats: the level that a request belongs to, and its flow within that level."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from services._rules.kubernetes.rbac.service_roles import SERVICE_GROUP
from services._rules.kubernetes.rbac.user_names import ANONYMOUS_USER, AUTHENTICATED, MASTERS, NODES
from services.apiserver.core.request import RequestInfo
from services.apiserver.core.request_context import Identity

EXEMPT: Final = ""
LEADER_ELECTION, SYSTEM, WORKLOADS, USERS, REST = (
    "leader-election",
    "system",
    "workload-low",
    "global-default",
    "catch-all",
)
_HEALTH: Final = frozenset({"healthz", "livez", "readyz"})
_ACCOUNT: Final = "system:serviceaccount:"
_OWN_NAMESPACES: Final = frozenset({"kube-system", "kube-node-lease"})
_LEASES: Final = frozenset({("coordination.k8s.io", "leases"), ("", "endpoints"), ("", "configmaps")})
_MOST_SEATS: Final = 50
_OBJECTS_BY_SEAT: Final = 200
_BYTES_BY_SEAT: Final = 128 << 10


@lru_cache(maxsize=1024)
def level_of(name: str, groups: tuple[str, ...]) -> tuple[str, str]:
    """Level and flow of a user."""
    if MASTERS in groups:
        return EXEMPT, ""
    if name.startswith(_ACCOUNT):
        namespace = name[len(_ACCOUNT) :].partition(":")[0]
        return (SYSTEM if namespace == "kube-system" else WORKLOADS), f"{_ACCOUNT}{namespace}"
    ours = SERVICE_GROUP in groups and name.startswith(f"{SERVICE_GROUP}:")
    if NODES in groups or ours or (name.startswith("system:kube-") and AUTHENTICATED in groups):
        return SYSTEM, name
    if name in ("", ANONYMOUS_USER):
        return REST, ANONYMOUS_USER
    return USERS, name


def classified(user: Identity, info: RequestInfo | None, parts: list[str]) -> tuple[str, str]:
    """Level and flow of a request; the level is EXEMPT where it needs no seat."""
    level, flow = level_of(user.name, user.groups)
    if level == EXEMPT:
        return level, flow
    if info is None:
        return (EXEMPT, "") if parts and parts[0] in _HEALTH else (level, flow)
    if level == SYSTEM and info.namespace in _OWN_NAMESPACES and (info.group, info.resource) in _LEASES and info.name:
        return LEADER_ELECTION, flow
    return level, flow


def seats_of_list(objects: int) -> int:
    """The seats that a list of so many objects takes."""
    return min(1 + objects // _OBJECTS_BY_SEAT, _MOST_SEATS)


def seats_of_body(size: int) -> int:
    """The seats that a body of so many bytes takes."""
    return min(1 + size // _BYTES_BY_SEAT, _MOST_SEATS)
