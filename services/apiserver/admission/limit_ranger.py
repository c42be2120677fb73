"""Admission by LimitRanges: defaults for the containers of new pods, and the bounds of pods and claims."""

from __future__ import annotations

from schemas.manifest import Manifest
from services._rules.kubernetes.limit_range import apply_defaults, claim_violations, pod_violations
from services.apiserver.admission.chain import Attributes
from services.apiserver.core import status_errors as status
from services.apiserver.store.store_port import Store


class LimitRanger:
    """Reads the LimitRanges of the namespace at every creation of a pod or claim."""

    resources = frozenset({"/pods", "/persistentvolumeclaims"})

    def __init__(self, store: Store) -> None:
        self._store = store

    async def mutate(self, attributes: Attributes) -> None:
        """Fill in what a new pod's containers leave open."""
        if self._concerns(attributes, "pods") and attributes.new is not None:
            ranges = self._ranges(attributes.namespace)
            if ranges:
                apply_defaults(attributes.new, ranges)

    async def validate(self, attributes: Attributes) -> None:
        """Refuse what is beyond the bounds; raises ApiError 403."""
        new = attributes.new
        if new is None:
            return
        found: list[str] = []
        if self._concerns(attributes, "pods"):
            found = pod_violations(new, self._ranges(attributes.namespace))
        elif self._concerns(attributes, "persistentvolumeclaims", also="UPDATE"):
            found = claim_violations(new, self._ranges(attributes.namespace))
        if found:
            text = found[0] if len(found) == 1 else f"[{', '.join(found)}]"
            raise status.forbidden(attributes.kind.resource, attributes.name, text)

    def _concerns(self, attributes: Attributes, plural: str, also: str = "CREATE") -> bool:
        resource = attributes.kind.resource
        return (
            resource.plural == plural
            and not resource.group
            and not attributes.subresource
            and attributes.operation in ("CREATE", also)
        )

    def _ranges(self, namespace: str) -> list[Manifest]:
        return [entry.obj for entry in self._store.list("", "limitranges", namespace)]
