"""ResourceQuotas: their status says what is allowed and what the objects of the namespace take.

Secrets, ConfigMaps and whatever else no controller here follows: a quota refuses them, its status does not count them.
"""

from __future__ import annotations

from typing import Final

from schemas.manifest import Manifest
from services._rules.kubernetes.pod_resources import add_to
from services._rules.kubernetes.quantity import ZERO, QuantityError, parse
from services._rules.kubernetes.resource_quota import Amounts, concerns, usage
from services.member_sim.world.world_model import (
    CLAIMS,
    NOTHING,
    PODS,
    QUOTAS,
    QUOTED,
    SERVICES,
    Decision,
    Key,
    Turn,
    Write,
)
from services.member_sim.world.world_state import State

_OF_PODS: Final = ("requests.", "limits.", "hugepages-")
_PLAIN: Final = ("cpu", "memory", "ephemeral-storage")


def decide_quota(state: State, key: Key, turn: Turn) -> Decision:  # noqa: ARG001 - the shape of every decision
    """Decide the status of one ResourceQuota."""
    quota = state.find(key)
    if quota is None or state.closing(key.namespace):
        return NOTHING
    hard = dict((quota.get("spec") or {}).get("hard") or {})
    taken: Amounts = {}
    for resource in {found for name in hard if (found := _counted_by(name))}:
        plural, _, group = resource.partition(".")
        for obj in state.in_namespace(resource, key.namespace).values():
            if concerns(quota, plural, obj):
                add_to(taken, usage(group, plural, obj))
    used = {name: str(taken.get(name, ZERO)) for name in sorted(hard) if _counted_by(name)}
    status: Manifest = {"hard": hard, "used": used}
    if _same(quota.get("status") or {}, status):
        return NOTHING
    return Decision([Write("status", key, status, uid=quota["metadata"]["uid"])])


def _counted_by(name: str) -> str:
    """The kind of objects that a limited resource counts; empty where its objects are not followed here."""
    if name in ("services", "services.nodeports", "services.loadbalancers"):
        return SERVICES
    if name in ("persistentvolumeclaims", "requests.storage"):
        return CLAIMS
    if name == QUOTAS:
        return QUOTAS
    if name.startswith("count/"):
        resource = name.removeprefix("count/")
        return resource if resource in QUOTED else ""
    return PODS if name == "pods" or name in _PLAIN or name.startswith(_OF_PODS) else ""


def _same(before: Manifest, after: Manifest) -> bool:
    try:
        return all(
            {name: parse(text) for name, text in (before.get(part) or {}).items()}
            == {name: parse(text) for name, text in after[part].items()}
            for part in ("hard", "used")
        )
    except QuantityError:
        return False
