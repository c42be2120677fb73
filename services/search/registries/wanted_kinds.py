"""Decides which kinds of which members are read: what follows from ResourceRegistries and the clusters as they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from schemas.manifest import Manifest
from services._rules.policies.cluster_affinity import ClusterAffinity, ClusterMatcher, compile_affinity
from services.search.registries.member_facts import Gvr, MemberFacts

EVERYWHERE: Final[frozenset[str]] = frozenset()
"""All namespaces."""


class SecretRef(Struct, frozen=True, order=True):
    """Where credentials of a backend are."""

    namespace: str = ""
    name: str = ""


class OpenSearch(Struct, frozen=True, rename="camel"):
    """A search backend: its addresses and the Secret with `username` and `password`."""

    addresses: tuple[str, ...] = ()
    secret_ref: SecretRef = SecretRef()


class _BackendStore(Struct, frozen=True, rename="camel"):
    open_search: OpenSearch | None = None


class ResourceSelector(Struct, frozen=True, rename="camel"):
    """Objects of one kind; an empty namespace stands for all."""

    api_version: str = ""
    kind: str = ""
    namespace: str | None = None


class _Spec(Struct, frozen=True, rename="camel"):
    target_cluster: ClusterAffinity | None = None
    resource_selectors: tuple[ResourceSelector, ...] | None = None
    backend_store: _BackendStore | None = None


class _Metadata(Struct, frozen=True):
    name: str
    uid: str = ""


class _Status(Struct, frozen=True):
    conditions: tuple[Manifest, ...] | None = None


class _Registry(Struct, frozen=True):
    metadata: _Metadata
    spec: _Spec = _Spec()
    status: _Status | None = None


class Registry(Struct, frozen=True):
    """A ResourceRegistry, ready to be applied."""

    name: str
    matches: ClusterMatcher
    selectors: tuple[ResourceSelector, ...]
    backend: OpenSearch | None = None
    uid: str = ""
    conditions: tuple[Manifest, ...] = ()
    """Those of its status."""


class Wanted(Struct, frozen=True):
    """One kind of one member that is read."""

    gvr: Gvr
    kind: str
    namespaces: frozenset[str] = EVERYWHERE
    """Those that registries name, for the global proxy; EVERYWHERE where one of them names none."""
    backends: frozenset[OpenSearch] = frozenset()


def registry_of(manifest: Mapping[str, Any]) -> Registry:
    """Read a ResourceRegistry; raises msgspec.ValidationError naming the field."""
    found = msgspec.convert(manifest, _Registry)
    spec = found.spec
    store = spec.backend_store
    backend = store.open_search if store is not None else None
    return Registry(
        name=found.metadata.name,
        matches=compile_affinity(spec.target_cluster or ClusterAffinity()),
        selectors=spec.resource_selectors or (),
        backend=backend if backend is not None and backend.addresses else None,
        uid=found.metadata.uid,
        conditions=(found.status and found.status.conditions) or (),
    )


def wanted_of(member: MemberFacts, registries: Iterable[Registry]) -> dict[Gvr, Wanted]:
    """What registries select of one member and it serves; nothing of one that is leaving."""
    found: dict[Gvr, Wanted] = {}
    if member.deleting:
        return found
    for registry in registries:
        if not registry.matches(member):
            continue
        for selector in registry.selectors:
            gvr = member.kinds.get((selector.api_version, selector.kind))
            if gvr is None:
                continue
            namespaces = frozenset((selector.namespace,)) if selector.namespace else EVERYWHERE
            backends = frozenset((registry.backend,)) if registry.backend is not None else frozenset()
            before = found.get(gvr)
            if before is not None:
                # None at all stands for every namespace.
                every = not namespaces or not before.namespaces
                namespaces = EVERYWHERE if every else namespaces | before.namespaces
                backends |= before.backends
            found[gvr] = Wanted(gvr, selector.kind, namespaces, backends)
    return found
