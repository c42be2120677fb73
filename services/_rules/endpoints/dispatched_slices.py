"""EndpointSlices of consumers of a MultiClusterService, made of those of its providers; docs/sources.md#services."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import Struct, field

from schemas.events.endpoints import EndpointsCollected, EndpointsReleased
from schemas.keys import ObjectKey
from schemas.manifest import Manifest
from services._rules.constants import (
    DISCOVERY_API,
    DISPATCH_CONTROLLER,
    PROVISION_CLUSTER_ANNOTATION,
    SERVICE_NAME_LABEL,
    SLICE_MANAGED_BY_LABEL,
)
from services._rules.names import dispatched_endpoint_slice_name, short_hash

SLICES: Final = "endpointslices"
_LONGEST_NAME: Final = 253

Source = tuple[str, str]
"""Cluster and name of a slice that was collected."""


def slice_key(namespace: str, name: str) -> ObjectKey:
    """Key of an EndpointSlice."""
    return ObjectKey(DISCOVERY_API.partition("/")[0], SLICES, namespace, name)


def is_slice(key: ObjectKey) -> bool:
    """Whether an object is an EndpointSlice."""
    return key.resource == SLICES and key.group == DISCOVERY_API.partition("/")[0]


class DispatchedSlices(Struct):
    """Slices that were collected, by the key that they have where they are dispatched.

    Two slices may come to one name (`a` and `b-c`, `a-b` and `c`): the first by cluster has it, others have a hash.
    """

    sources: dict[ObjectKey, EndpointsCollected] = field(default_factory=dict)
    """What stands behind each name."""
    services: dict[tuple[str, str], set[ObjectKey]] = field(default_factory=dict)
    """The same by namespace and name of the Service."""
    _alike: dict[ObjectKey, dict[Source, EndpointsCollected]] = field(default_factory=dict)
    """Slices by the name that they have if no other has it."""

    def take(self, event: EndpointsCollected | EndpointsReleased) -> set[ObjectKey]:
        """Take in a fact; the keys of which something else is to be dispatched now."""
        plain = slice_key(event.namespace, _shortened(dispatched_endpoint_slice_name(event.name, event.cluster)))
        group = self._alike.setdefault(plain, {})
        before = dict(_named(plain, group))
        if isinstance(event, EndpointsCollected):
            group[event.cluster, event.name] = event
        else:
            group.pop((event.cluster, event.name), None)
        now = dict(_named(plain, group))
        if not group:
            del self._alike[plain]
        for key, old in before.items():
            self.sources.pop(key, None)
            self._leave((old.namespace, old.service), key)
        for key, source in now.items():
            self.sources[key] = source
            self.services.setdefault((source.namespace, source.service), set()).add(key)
        return {key for key in before.keys() | now.keys() if before.get(key) != now.get(key)}

    def of(self, namespace: str, service: str) -> Iterable[ObjectKey]:
        """The keys of all slices of a Service."""
        return self.services.get((namespace, service), ())

    def _leave(self, service: tuple[str, str], key: ObjectKey) -> None:
        keys = self.services.get(service, set())
        keys.discard(key)
        if not keys:
            self.services.pop(service, None)


def _named(plain: ObjectKey, group: dict[Source, EndpointsCollected]) -> Iterable[tuple[ObjectKey, EndpointsCollected]]:
    for number, source in enumerate(sorted(group)):
        if number == 0:
            yield plain, group[source]
        else:
            yield slice_key(plain.namespace, _hashed(plain.name, "/".join(source))), group[source]


def _shortened(name: str) -> str:
    return _hashed(name, name) if len(name) > _LONGEST_NAME else name


def _hashed(name: str, text: str) -> str:
    return f"{name[: _LONGEST_NAME - 11].rstrip('-.')}-{short_hash(text)}"


def dispatched_manifest(event: EndpointsCollected, name: str) -> Manifest:
    """The EndpointSlice that a consumer gets; its labels and annotations are these and no others."""
    return {
        "apiVersion": DISCOVERY_API,
        "kind": "EndpointSlice",
        "metadata": {
            "name": name,
            "namespace": event.namespace,
            "labels": {SERVICE_NAME_LABEL: event.service, SLICE_MANAGED_BY_LABEL: DISPATCH_CONTROLLER},
            "annotations": {PROVISION_CLUSTER_ANNOTATION: event.cluster},
        },
        "addressType": event.address_type,
        "endpoints": msgspec.to_builtins(event.endpoints),
        "ports": msgspec.to_builtins(event.ports),
    }
