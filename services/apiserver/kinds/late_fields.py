"""Fields that releases know and do not keep yet, as their feature was off there: held as data, by kind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from schemas.manifest import Manifest


class LateField(msgspec.Struct, frozen=True):
    """A field and the first minor release that keeps it; `[]` behind a name of its path stands for all items.

    Before that it is dropped, or has the value `instead`, unless the object to be replaced uses it already.
    """

    path: str
    since: int
    instead: str | None = None


_NEVER: Final = 1 << 31
"""Since no release: the feature is off wherever it is not switched on."""
_OF_PODS: Final = (
    LateField("schedulingGroup", _NEVER),
    LateField("ephemeralContainers", 23),
    LateField("volumes[].ephemeral", 21),
    LateField("containers[].securityContext.procMount", 33, "Default"),
    LateField("initContainers[].securityContext.procMount", 33, "Default"),
)
_SPECS_OF_PODS: Final = {
    "/pods": "spec",
    "/podtemplates": "template.spec",
    "/replicationcontrollers": "spec.template.spec",
    "apps/daemonsets": "spec.template.spec",
    "apps/deployments": "spec.template.spec",
    "apps/replicasets": "spec.template.spec",
    "apps/statefulsets": "spec.template.spec",
    "batch/cronjobs": "spec.jobTemplate.spec.template.spec",
    "batch/jobs": "spec.template.spec",
}
_FIELDS: Final[dict[str, tuple[LateField, ...]]] = {
    "/services": (
        LateField("spec.ipFamilies", 21),
        LateField("spec.ipFamilyPolicy", 21),
        LateField("spec.topologyKeys", 22),
        LateField("spec.allocateLoadBalancerNodePorts", 22),
    ),
    "autoscaling/horizontalpodautoscalers": (LateField("spec.metrics[].containerResource", 27),),
    "batch/jobs": (LateField("spec.ttlSecondsAfterFinished", 21),),
    "/nodes": (LateField("spec.configSource", _NEVER),),
    "apps/statefulsets": (LateField("spec.updateStrategy.rollingUpdate.maxUnavailable", _NEVER),),
    "coordination.k8s.io/leases": (LateField("spec.preferredHolder", _NEVER), LateField("spec.strategy", _NEVER)),
    "discovery.k8s.io/endpointslices": (
        LateField("endpoints[].nodeName", 21),
        LateField("endpoints[].conditions.serving", 22),
        LateField("endpoints[].conditions.terminating", 22),
    ),
    "storage.k8s.io/csidrivers": (
        LateField("spec.storageCapacity", 21),
        LateField("spec.tokenRequests", 21),
        LateField("spec.requiresRepublish", 21),
    ),
}


def late_fields(store_key: str, release: int) -> tuple[LateField, ...]:
    """The fields of a kind that a minor release does not keep; `store_key` is `group/plural`."""
    found = [*_FIELDS.get(store_key, ())]
    if place := _SPECS_OF_PODS.get(store_key):
        found += [LateField(f"{place}.{one.path}", one.since, one.instead) for one in _OF_PODS]
    return tuple(one for one in found if release < one.since)


def drop_late(fields: tuple[LateField, ...], new: Manifest, old: Manifest | None = None) -> None:
    """Drop, in place, the fields of a new state that the state before (None: there is none) does not use."""
    for one in fields:
        *way, name = one.path.split(".")
        if old is not None and any(part.get(name) not in (None, one.instead) for part in _holders(old, way)):
            continue
        for part in _holders(new, way):
            if name not in part:
                continue
            if one.instead is None:
                del part[name]
            else:
                part[name] = one.instead


def _holders(value: Any, way: list[str]) -> Iterator[Manifest]:
    """The maps at the end of a way of names."""
    if not isinstance(value, dict):
        return
    if not way:
        yield value
        return
    inner = value.get(way[0].removesuffix("[]"))
    for item in (inner or ()) if way[0].endswith("[]") else (inner,):
        yield from _holders(item, way[1:])
