"""Projects on what endpoints of Services depend: the workloads they select, where these run, what they leave."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct, UnsetType, field

from schemas.events.eviction import EvictionEvent, EvictionFinished, EvictionRequested
from schemas.events.placement import PlacementDecided, PlacementEvent, PlacementFailed, PlacementReleased
from schemas.events.template import TemplateChanged, TemplateDeleted, TemplateEvent
from schemas.hints import Purged
from schemas.keys import ObjectKey
from services._rules.constants import EXPORTS, IMPORTS, MULTICLUSTER_GROUP
from services._rules.effective import current_targets
from services._rules.endpoints.health_gates import Backing, Backings, leaving
from services._rules.kubernetes.taints import Toleration

NO_PODS: Final = frozenset(
    {"configmaps", "endpointslices", "ingresses", "namespaces", "persistentvolumeclaims", "secrets", "serviceaccounts"}
)
"""Kinds that are no workloads and that no Service depends on; not even their placements are kept."""
FacetOfBacking = TemplateEvent | PlacementEvent | EvictionEvent

Labels = Mapping[str, str]


class _Meta(Struct):
    labels: dict[str, Any] | None = None


class _PodTemplate(Struct):
    metadata: _Meta = field(default_factory=_Meta)


class _Spec(Struct):
    selector: dict[str, Any] | None = None
    template: _PodTemplate | None = None


class _Manifest(Struct):
    metadata: _Meta = field(default_factory=_Meta)
    spec: _Spec = field(default_factory=_Spec)


class _Placement(Struct, rename="camel"):
    cluster_tolerations: list[Toleration] | None = None


_manifest: Final = msgspec.json.Decoder(_Manifest)
_placement: Final = msgspec.json.Decoder(_Placement)


class Backed(Struct):
    """What is known of one object; `labels` are those of its pods, of a Service those that it selects.

    `labels` are None where the object has none of these, or while its manifest (`unread`, a digest) was not read.
    """

    kind: str = ""
    labels: Labels | None = None
    unread: str = ""
    placement: PlacementDecided | PlacementFailed | None = None
    eviction: EvictionEvent | None = None
    eviction_seq: int = 0

    @property
    def nothing(self) -> bool:
        """Whether nothing is known of it."""
        return not (self.kind or self.placement or self.eviction)

    @property
    def targets(self) -> frozenset[str]:
        """Clusters that should run it."""
        return frozenset(item.name for item in current_targets(self.placement, self.eviction, self.eviction_seq))

    def backing(self, key: ObjectKey) -> Backing:
        """The same for the rules."""
        tolerations: tuple[Toleration, ...] = ()
        if self.placement is not None and not isinstance(self.placement.placement, UnsetType):
            try:
                tolerations = tuple(_placement.decode(self.placement.placement).cluster_tolerations or ())
            except msgspec.MsgspecError:
                # What was placed by something that cannot be read tolerates nothing, as for failover.
                tolerations = ()
        title = f"{self.kind or key.resource} {key.name}"
        same = self.placement is None or self.eviction is None or self.placement.uid == self.eviction.uid
        # Whose pods they are is not known of one whose manifest was not read.
        away = leaving(self.eviction) if same and not self.unread else {}
        return Backing(title, self.targets, away, tolerations)


class BackingState(Struct):
    """Objects by namespace and key."""

    objects: dict[str, dict[ObjectKey, Backed]] = field(default_factory=dict)
    evicted: dict[str, set[ObjectKey]] = field(default_factory=dict)
    """Those that leave clusters, or have left some, by namespace."""

    def take(self, seq: int, event: FacetOfBacking) -> bool:
        """Keep an event; whether it can change which clusters count for the Services of its namespace."""
        key = event.key
        if key.resource in NO_PODS or not key.namespace:
            return False
        found = self.objects.setdefault(key.namespace, {}).setdefault(key, Backed())
        match event:
            case TemplateChanged():
                before, found.kind = (found.labels, found.unread), event.kind
                manifest = event.manifest
                if isinstance(manifest, UnsetType):
                    found.labels, found.unread = None, "" if key.group == MULTICLUSTER_GROUP else event.digest
                else:
                    found.labels, found.unread = labels_of(key, manifest), ""
                matters = (found.labels, found.unread) != before
            case TemplateDeleted():
                found.kind, found.labels, found.unread = "", None, ""
                matters = found.eviction is not None
            case PlacementDecided() | PlacementFailed():
                previous, before_targets, found.placement = found.placement, found.targets, event
                matters = found.targets != before_targets or found.eviction is not None
                matters = matters or previous is None or previous.placement != event.placement
            case PlacementReleased():
                found.placement, matters = None, True
            case EvictionRequested() | EvictionFinished():
                found.eviction, found.eviction_seq, matters = event, seq, True
                self.evicted.setdefault(key.namespace, set()).add(key)
        if found.nothing:
            self._drop(key)
        return matters

    def read(self, namespace: str, digest: str, manifest: bytes) -> None:
        """A manifest that was too large for its fact; one that cannot be read has no pods."""
        for key, found in self.objects.get(namespace, {}).items():
            if found.unread == digest:
                found.labels, found.unread = labels_of(key, manifest), ""

    def forget(self, purged: Purged) -> None:
        """Drop what is gone from the log and has no newer facts."""
        for gone in purged.objects:
            found = self.objects.get(gone.key.namespace, {}).get(gone.key)
            if found is not None and not found.kind and found.placement is None:
                self._drop(gone.key)

    def _drop(self, key: ObjectKey) -> None:
        of_namespace, evicted = self.objects.get(key.namespace, {}), self.evicted.get(key.namespace, set())
        of_namespace.pop(key, None)
        evicted.discard(key)
        if not of_namespace:
            self.objects.pop(key.namespace, None)
        if not evicted:
            self.evicted.pop(key.namespace, None)

    def backings(self, namespace: str, name: str) -> Backings:
        """On what a Service depends."""
        of_namespace = self.objects.get(namespace, {})
        own = [key for key in _own(namespace, name) if key in of_namespace]
        return Backings(
            tuple(of_namespace[key].backing(key) for key in self._selected(namespace, name)),
            tuple(of_namespace[key].backing(key) for key in own),
        )

    def evicts(self, namespace: str) -> bool:
        """Whether objects of a namespace leave clusters, or have left some."""
        return bool(self.evicted.get(namespace))

    def unread(self, namespace: str) -> list[str]:
        """Digests of manifests of a namespace that were not read."""
        return sorted({found.unread for found in self.objects.get(namespace, {}).values() if found.unread})

    def _selected(self, namespace: str, name: str) -> Iterator[ObjectKey]:
        of_namespace = self.objects.get(namespace, {})
        service = of_namespace.get(ObjectKey("", "services", namespace, name))
        if service is None or not service.labels:
            return
        wanted = service.labels.items()
        for key, found in of_namespace.items():
            if is_about_service(key) or found.placement is None:
                continue
            # Of one that was not read it is not known: it counts as one that runs on.
            if found.unread or (found.labels is not None and wanted <= found.labels.items()):
                yield key

    def importers(self, namespace: str, name: str) -> frozenset[str]:
        """Clusters that the ServiceImport of a Service goes to."""
        key = ObjectKey(MULTICLUSTER_GROUP, IMPORTS, namespace, name)
        found = self.objects.get(namespace, {}).get(key)
        return found.targets if found is not None else frozenset()


def labels_of(key: ObjectKey, manifest: bytes) -> Labels | None:
    """Labels of the pods of an object, of a Service those that it selects; None for what has neither."""
    try:
        found = _manifest.decode(manifest)
    except msgspec.MsgspecError:
        return None
    if key.resource == "services" and not key.group:
        return _texts(found.spec.selector)
    if key.resource == "pods" and not key.group:
        return _texts(found.metadata.labels)
    template = found.spec.template
    return _texts(template.metadata.labels) if template is not None else None


def _texts(labels: dict[str, Any] | None) -> Labels | None:
    return {str(name): str(value) for name, value in labels.items()} if labels else None


def is_about_service(key: ObjectKey) -> bool:
    """Whether an object is a Service, or exports or imports the one of its name."""
    return key.group_resource == "services" or (key.group == MULTICLUSTER_GROUP and key.resource in (EXPORTS, IMPORTS))


def _own(namespace: str, name: str) -> Iterable[ObjectKey]:
    return (
        ObjectKey("", "services", namespace, name),
        ObjectKey(MULTICLUSTER_GROUP, EXPORTS, namespace, name),
    )
