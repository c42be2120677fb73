"""Fields whose feature is switched off: known and not kept, held as data by kind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from schemas.manifest import Manifest

_OF_PODS: Final = ("schedulingGroup",)
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
_FIELDS: Final = {
    "/nodes": ("spec.configSource",),
    "apps/statefulsets": ("spec.updateStrategy.rollingUpdate.maxUnavailable",),
    "coordination.k8s.io/leases": ("spec.preferredHolder", "spec.strategy"),
}


def gated_fields(store_key: str) -> tuple[str, ...]:
    """The paths of such fields of a kind, `group/plural`; `[]` behind a name stands for all items."""
    found = _FIELDS.get(store_key, ())
    place = _SPECS_OF_PODS.get(store_key)
    return found if place is None else (*found, *(f"{place}.{name}" for name in _OF_PODS))


def drop_gated(paths: tuple[str, ...], new: Manifest, old: Manifest | None = None) -> None:
    """Drop, in place, the fields of a new state that the state before (None: there is none) does not use."""
    for path in paths:
        *way, name = path.split(".")
        if old is not None and any(name in part for part in _holders(old, way)):
            continue
        for part in _holders(new, way):
            part.pop(name, None)


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
