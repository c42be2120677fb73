"""Admission by classes: what a pod gets from its PriorityClass and its RuntimeClass, and the one default priority."""

from __future__ import annotations

from typing import Any, Final

from schemas.manifest import Manifest
from services.apiserver.admission.chain import Attributes, forbidden
from services.apiserver.kinds.workloads.pods import tolerate_failing_nodes
from services.apiserver.store.store_port import Key, Store

_PRIORITIES: Final = ("scheduling.k8s.io", "priorityclasses")
_RUNTIMES: Final = ("node.k8s.io", "runtimeclasses")
_LOWER: Final = "PreemptLowerPriority"
SYSTEM_CLASSES: Final[tuple[Manifest, ...]] = tuple(
    {
        "metadata": {"name": name},
        "value": value,
        "preemptionPolicy": _LOWER,
        "description": f"Used for system critical pods that must {text}.",
    }
    for name, value, text in (
        (
            "system-cluster-critical",
            2_000_000_000,
            "run in the cluster, but can be moved to another node if necessary",
        ),
        ("system-node-critical", 2_000_001_000, "not be moved from their current node"),
    )
)
"""Classes that every cluster has."""
_KEPT: Final = frozenset(f"{_PRIORITIES[0]}/{one['metadata']['name']}" for one in SYSTEM_CLASSES)


class Classes:
    """Fills in the values of classes into new pods; refuses missing classes and a second default."""

    resources = frozenset({"/pods", "/".join(_PRIORITIES)})

    def __init__(self, store: Store) -> None:
        self._store = store

    async def mutate(self, attributes: Attributes) -> None:
        """Give a new pod its priority, overhead and the way it is scheduled; raises ApiError 403."""
        if attributes.new is not None and _of_pod(attributes):
            # Here already, for webhooks to see it.
            tolerate_failing_nodes(attributes.new["spec"])
            self._prioritise(attributes, attributes.new["spec"])
            self._run(attributes, attributes.new["spec"])

    async def validate(self, attributes: Attributes) -> None:
        """Refuse overhead that no class gives, and a second default priority; raises ApiError 403."""
        new = attributes.new
        kept = attributes.operation == "DELETE" and f"{attributes.kind.store_group}/{attributes.name}" in _KEPT
        if kept and attributes.kind.resource.plural == _PRIORITIES[1]:
            raise forbidden(attributes, "this is a system priority class and cannot be deleted")
        if new is None or attributes.subresource:
            return
        if _of_pod(attributes) and new["spec"].get("overhead"):
            runtime = self._runtime(attributes, new["spec"])
            if runtime is None or not runtime.get("overhead"):
                text = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
                raise forbidden(attributes, text)
        resource = attributes.kind.resource
        if (resource.group, resource.plural) != _PRIORITIES or not new.get("globalDefault"):
            return
        other = self._default()
        if other is not None and other["metadata"]["name"] != attributes.name:
            text = f"PriorityClass {other['metadata']['name']} is already marked as default. Only one default can exist"
            raise forbidden(attributes, text)

    def _default(self) -> Manifest | None:
        marked = [entry.obj for entry in self._store.list(*_PRIORITIES) if entry.obj.get("globalDefault")]
        return min(marked, key=lambda one: int(one.get("value", 0)), default=None)

    def _prioritise(self, attributes: Attributes, spec: Manifest) -> None:
        name = spec.get("priorityClassName")
        if name:
            entry = self._store.get(Key(*_PRIORITIES, "", name))
            known = (one for one in SYSTEM_CLASSES if one["metadata"]["name"] == name)
            found = entry.obj if entry is not None else next(known, None)
            if found is None:
                raise forbidden(attributes, f"no PriorityClass with name {name} was found")
        else:
            found = self._default()
            if found is not None:
                spec["priorityClassName"] = found["metadata"]["name"]
        found = found or {}
        _fix(attributes, spec, "priority", found.get("value", 0), "integer value of priority")
        policy = found.get("preemptionPolicy", _LOWER)
        _fix(attributes, spec, "preemptionPolicy", policy, "string value of PreemptionPolicy")

    def _runtime(self, attributes: Attributes, spec: Manifest) -> Manifest | None:
        name = spec.get("runtimeClassName")
        if not name:
            return None
        entry = self._store.get(Key(*_RUNTIMES, "", name))
        if entry is None:
            raise forbidden(attributes, f'pod rejected: RuntimeClass "{name}" not found')
        return entry.obj

    def _run(self, attributes: Attributes, spec: Manifest) -> None:
        runtime = self._runtime(attributes, spec)
        if runtime is None:
            return
        overhead = (runtime.get("overhead") or {}).get("podFixed")
        if overhead is not None:
            if spec.get("overhead") not in (None, overhead):
                text = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
                raise forbidden(attributes, text)
            spec["overhead"] = dict(overhead)
        scheduling = runtime.get("scheduling") or {}
        selector = dict(spec.get("nodeSelector") or {})
        for key, value in (scheduling.get("nodeSelector") or {}).items():
            if selector.setdefault(key, value) != value:
                text = f"conflict: runtimeClass.Scheduling.NodeSelector[{key}] = {value}; "
                raise forbidden(attributes, f"{text}pod.Spec.NodeSelector[{key}] = {selector[key]}")
        if selector:
            spec["nodeSelector"] = selector
        tolerations = list(spec.get("tolerations") or [])
        tolerations += [one for one in scheduling.get("tolerations") or [] if one not in tolerations]
        if tolerations:
            spec["tolerations"] = tolerations


def _of_pod(attributes: Attributes) -> bool:
    return attributes.operation == "CREATE" and attributes.kind.store_key == "/pods" and not attributes.subresource


def _fix(attributes: Attributes, spec: Manifest, field: str, computed: Any, shown: str) -> None:
    """Set a field that is computed; a pod with another value is refused."""
    given = spec.get(field)
    if given is not None and given != computed:
        text = f"the {shown} ({given}) must not be provided in pod spec; priority admission controller computed "
        raise forbidden(attributes, f"{text}{computed} from the given PriorityClass name")
    spec[field] = computed
