"""The kinds that the gateway serves, as data (docs/sources.md#api): their names, schemas and columns."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Final

from schemas.manifest import Manifest
from services.apiserver.core.request import RequestInfo, resource_path
from services.apiserver.core.status_errors import ApiError
from services.apiserver.kinds.kind_model import Kind, Resource, Schema, Subresource
from services.apiserver.kinds.registry import Registry
from services.apiserver.tables.human import duration, parse_time
from services.apiserver.tables.printer import NAME, Cells, Column, Printer, name_of
from services.gateway.views.binding_views import CLUSTER_WIDE, NAMESPACED
from services.gateway.views.view_shapes import GROUP
from services.gateway.views.work_views import WORKS

VERSIONS: Final = ("v1alpha2", "v1alpha1")
OTHERS_PRIORITY: Final = 100
"""Of groups whose plurals are also those of other groups: short names lead to the others."""
VERBS: Final = ("get", "list", "watch")
"""No verb that writes: garbage and namespace controllers skip read-only kinds."""


@cache
def _schemas() -> dict[tuple[str, str], Schema]:
    """The schemas of the kinds by kind and version; they are made when they are first asked for."""
    from services.apiserver.crds.generate import definitions

    return {
        (crd["spec"]["names"]["kind"], version["name"]): version["schema"]["openAPIV3Schema"]
        for crd in definitions(optional=True)
        for version in crd["spec"]["versions"]
    }


class ServedKind(Kind):
    """One kind in one version; `hint` says what to change instead of the object itself."""

    custom = True

    def __init__(self, resource: Resource, hint: str, printer: Printer) -> None:
        super().__init__(resource)
        self.hint = hint
        self.printer = printer

    @property
    def schema(self) -> Schema:
        """What `kubectl explain` shows: the fields as the definition of the kind has them."""
        given = _schemas()[self.resource.kind, self.resource.version]
        return {**given, "description": f"{given['description']} A projection of the log: it cannot be written."}

    def read_only(self, method: str) -> ApiError:
        """405 for every write."""
        message = (
            f"{method} is not possible: {self.resource.group_resource} are projections of the log and cannot be "
            f"written; {self.hint} instead"
        )
        return ApiError(405, "MethodNotAllowed", message, {"group": GROUP, "kind": self.resource.plural})


def _printer(age: str, columns: tuple[str, ...] = (), values: Callable[[Manifest], Cells] = lambda _: []) -> Printer:
    """Columns between name and age, and their values."""

    def cells(obj: Manifest, now: dt.datetime) -> Cells:
        created = parse_time(obj["metadata"]["creationTimestamp"]) or now
        # By the clock of the log's server it was made; where ours is behind that, it was made just now.
        return [name_of(obj), *values(obj), duration(max(now - created, dt.timedelta()))]

    return Printer((NAME, *(Column(name) for name in columns), Column(age, "date")), cells)


def _conditions(obj: Manifest, *types: str) -> Cells:
    """The status of conditions; empty where there is no such condition yet."""
    found = {item["type"]: item["status"] for item in obj["status"].get("conditions") or ()}
    return [found.get(kind, "") for kind in types]


def _manifest_kind(obj: Manifest) -> Any:
    manifests = obj["spec"]["workload"]["manifests"]
    return manifests[0]["kind"] if manifests else ""


_OLDER: Final = _printer("Age")
_BINDING: Final = _printer(
    "AGE", ("SCHEDULED", "FULLYAPPLIED"), lambda obj: _conditions(obj, "Scheduled", "FullyApplied")
)
_WORK: Final = _printer(
    "AGE", ("WORKLOAD-KIND", "APPLIED"), lambda obj: [_manifest_kind(obj), *_conditions(obj, "Applied")]
)


def _resource(version: str, kind: str, plural: str, short_name: str, *, namespaced: bool = True) -> Resource:
    return Resource(
        group=GROUP,
        version=version,
        kind=kind,
        plural=plural,
        singular=kind.lower(),
        short_names=(short_name,),
        namespaced=namespaced,
        verbs=VERBS,
        categories=("karmada-io",),
        subresources=(Subresource("status", verbs=("get",)),),
    )


def _kinds() -> list[ServedKind]:
    found = []
    for version, printer in zip(VERSIONS, (_BINDING, _OLDER), strict=True):
        for prefix, plural, namespaced in (("Cluster", CLUSTER_WIDE, False), ("", NAMESPACED, True)):
            resource = _resource(
                version, f"{prefix}ResourceBinding", plural, f"{prefix[:1].lower()}rb", namespaced=namespaced
            )
            hint = f"change the resource template or its {prefix}PropagationPolicy"
            found.append(ServedKind(resource, hint, printer))
    hint = "change the resource template, its PropagationPolicy (where it runs) or an OverridePolicy"
    found.append(ServedKind(_resource("v1alpha1", "Work", WORKS, "wk"), hint, _WORK))
    return found


def served(others: Iterable[Kind] = ()) -> Registry:
    """The registry of all served kinds; `others` are answered by other parts of the gateway."""
    registry = Registry()
    for kind in _kinds():
        registry.add_kind(kind)
    for other in others:
        registry.add_kind(other, group_priority=OTHERS_PRIORITY)
    return registry


def target_of(registry: Registry, parts: list[str]) -> tuple[ServedKind, RequestInfo] | None:
    """The kind and place that a path names; None for one that is no resource of the gateway."""
    info = resource_path(parts)
    if info is None:
        return None
    kind = registry.find(info.group, info.version, info.resource)
    if not isinstance(kind, ServedKind) or info.tail or (info.namespace and not kind.resource.namespaced):
        return None
    return kind, info
