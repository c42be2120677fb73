"""The set of served kinds: look-up by path and by kind, group order, and the discovery documents over it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from schemas.manifest import Manifest
from services.apiserver.kinds import discovery
from services.apiserver.kinds.kind_model import Kind

GROUP_PRIORITY_OF_CRDS = 1000
VERSION_PRIORITY_OF_CRDS = 100

_VERSION = re.compile(r"^v([1-9][0-9]*)(?:(alpha|beta)([1-9][0-9]*))?$")


def version_order(version: str) -> tuple[int, int, int, str]:
    """Sort key that puts versions as Kubernetes prefers them: v2, v1, v1beta2, v1beta1, v1alpha1, others by name."""
    match = _VERSION.match(version)
    if match is None:
        return (3, 0, 0, version)
    major, stage, minor = match.groups()
    rank = {None: 0, "beta": 1, "alpha": 2}[stage]
    return (rank, -int(major), -int(minor or 0), version)


class Registry:
    """All served kinds; `generation` rises with every change, so that what is derived from it can be cached."""

    def __init__(self) -> None:
        self.generation = 0
        self._by_path: dict[tuple[str, str, str], Kind] = {}
        self._by_kind: dict[tuple[str, str, str], Kind] = {}
        self._priority: dict[tuple[str, str], tuple[int, int]] = {}
        self._documents: dict[tuple[object, ...], Any] = {}

    def add_kind(
        self,
        kind: Kind,
        *,
        group_priority: int = GROUP_PRIORITY_OF_CRDS,
        version_priority: int = VERSION_PRIORITY_OF_CRDS,
    ) -> None:
        """Serve a kind; one of the same group, version and plural is replaced."""
        resource = kind.resource
        self.remove_kind(resource.group, resource.version, resource.plural)
        self._by_path[resource.group, resource.version, resource.plural] = kind
        self._by_kind.setdefault((resource.group, resource.version, resource.kind), kind)
        self._priority.setdefault((resource.group, resource.version), (group_priority, version_priority))
        self.generation += 1

    def remove_kind(self, group: str, version: str, plural: str) -> Kind | None:
        """Stop serving a kind and return it; None if it was not served."""
        kind = self._by_path.pop((group, version, plural), None)
        if kind is None:
            return None
        by_kind = (group, version, kind.resource.kind)
        if self._by_kind.get(by_kind) is kind:
            del self._by_kind[by_kind]
            for other in self._by_path.values():
                if (other.resource.group, other.resource.version, other.resource.kind) == by_kind:
                    self._by_kind[by_kind] = other
        if not any(path[:2] == (group, version) for path in self._by_path):
            del self._priority[group, version]
        self.generation += 1
        return kind

    def find(self, group: str, version: str, plural: str) -> Kind | None:
        """Return the kind served at that path, or None."""
        return self._by_path.get((group, version, plural))

    def by_kind(self, group: str, version: str, kind: str) -> Kind | None:
        """Return the kind of that name, or None."""
        return self._by_kind.get((group, version, kind))

    def by_api_version(self, api_version: str, kind: str) -> Kind | None:
        """Return the kind that an object's apiVersion and kind name, or None."""
        group, _, version = api_version.rpartition("/")
        return self.by_kind(group, version, kind)

    def all(self) -> Iterator[Kind]:
        """Iterate over all served kinds; a kind served in several versions comes once per version."""
        return iter(list(self._by_path.values()))

    def versions_of(self, kind: Kind) -> list[Kind]:
        """Return the served kinds that share this kind's stored objects."""
        return [other for other in self._by_path.values() if other.store_key == kind.store_key]

    def storage(self, kind: Kind) -> Kind:
        """Return the kind in whose version objects are stored (the kind itself when that version is not served)."""
        return self.find(kind.store_group, kind.store_version, kind.resource.plural) or kind

    def in_group_version(self, group: str, version: str) -> list[Kind]:
        """Return the kinds of one group and version; built-in ones come sorted by plural."""
        found = [kind for path, kind in self._by_path.items() if path[:2] == (group, version)]
        return sorted(found, key=lambda kind: kind.resource.plural)

    def groups(self) -> list[str]:
        """Return the served groups, most important first; the core group is not among them."""
        best: dict[str, int] = {}
        for (group, _), (priority, _) in self._priority.items():
            if group:
                best[group] = max(priority, best.get(group, 0))
        return sorted(best, key=lambda group: (-best[group], group))

    def versions(self, group: str) -> list[str]:
        """Return the served versions of a group, the preferred one first; empty if the group is not served."""
        found = [(version, priority[1]) for (name, version), priority in self._priority.items() if name == group]
        return [version for version, _ in sorted(found, key=lambda item: (-item[1], version_order(item[0])))]

    def group_versions(self) -> list[tuple[str, str, int, int]]:
        """Return all (group, version, group priority, version priority), as APIService objects name them."""
        return [(group, version, *priority) for (group, version), priority in self._priority.items()]

    # Discovery documents; each is cached until the registry changes.

    def _document(self, build: Callable[..., Any], *arguments: object) -> Any:
        key = (build, *arguments)
        if self._documents.get(("generation",)) != self.generation:
            self._documents = {("generation",): self.generation}
        if key not in self._documents:
            self._documents[key] = build(self, *arguments)
        return self._documents[key]

    def api_versions(self, server_address: str = "") -> Manifest:
        """The document at /api."""
        return discovery.api_versions(self, server_address)

    def api_group_list(self) -> Manifest:
        """The document at /apis."""
        return self._document(discovery.api_group_list)  # type: ignore[no-any-return]

    def api_group(self, group: str) -> Manifest | None:
        """The document at /apis/<group>; None when the group is not served."""
        return discovery.api_group(self, group)

    def api_resource_list(self, group: str, version: str) -> Manifest | None:
        """The document at /api/v1 or /apis/<group>/<version>; None when it is not served."""
        return self._document(discovery.api_resource_list, group, version)  # type: ignore[no-any-return]

    def aggregated(self, *, core: bool, version: str = "v2") -> Manifest:
        """The APIGroupDiscoveryList at /api (`core`) or /apis, in apidiscovery.k8s.io/v2 or v2beta1."""
        return self._document(discovery.aggregated, core, version)  # type: ignore[no-any-return]
