"""Policy rules of roles: which accesses one allows, and what one set of rules grants that another does not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from schemas.manifest import Manifest

ALL: Final = "*"


class Access(Struct, frozen=True):
    """The attributes of a request; `path` is set instead of the resource fields for paths outside the API."""

    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @property
    def kind_of_resource(self) -> str:
        """The resource as rules name it: with its subresource after a slash."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


class PolicyRule(Struct, frozen=True):
    """Verbs on resources of groups (all names where `names` is empty), or on paths outside of resources."""

    verbs: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()

    def allows(self, access: Access) -> bool:
        """Whether the rule allows an access."""
        return self.concerns(access) and (not self.names or bool(access.path) or access.name in self.names)

    def concerns(self, access: Access) -> bool:
        """Whether the rule allows an access if its name is one of those that the rule holds for."""
        if ALL not in self.verbs and access.verb not in self.verbs:
            return False
        if access.path:
            return any(_url_covers(url, access.path) for url in self.urls)
        return (ALL in self.groups or access.group in self.groups) and _names_resource(self.resources, access)

    def covers(self, wanted: PolicyRule) -> bool:
        """Whether the rule grants everything that another one of a single resource or path does."""
        return (
            _has_all(self.verbs, wanted.verbs)
            and _has_all(self.groups, wanted.groups)
            and _covers_resources(self.resources, wanted.resources)
            and (not self.names or (bool(wanted.names) and set(wanted.names) <= set(self.names)))
            and all(any(_url_covers(url, path) for url in self.urls) for path in wanted.urls)
        )

    def manifest(self) -> Manifest:
        """The rule as roles hold it."""
        fields = {
            "verbs": self.verbs,
            "apiGroups": self.groups,
            "resources": self.resources,
            "resourceNames": self.names,
            "nonResourceURLs": self.urls,
        }
        return {name: list(values) for name, values in fields.items() if values}

    def __str__(self) -> str:
        """The rule in one line, as refusals show it."""
        fields = {
            "APIGroups": self.groups,
            "Resources": self.resources,
            "ResourceNames": self.names,
            "NonResourceURLs": self.urls,
            "Verbs": self.verbs,
        }
        return "{" + ", ".join(f"{name}:{_quoted(values)}" for name, values in fields.items() if values) + "}"


EVERYTHING: Final = (PolicyRule((ALL,), (ALL,), (ALL,)), PolicyRule((ALL,), urls=(ALL,)))
"""What a cluster administrator may do."""


def rules_in(role: Manifest) -> tuple[PolicyRule, ...]:
    """The rules of a Role or ClusterRole."""
    return tuple(
        PolicyRule(
            tuple(rule.get("verbs") or ()),
            tuple(rule.get("apiGroups") or ()),
            tuple(rule.get("resources") or ()),
            tuple(rule.get("resourceNames") or ()),
            tuple(rule.get("nonResourceURLs") or ()),
        )
        for rule in role.get("rules") or ()
    )


def not_covered(owned: Sequence[PolicyRule], wanted: Iterable[PolicyRule]) -> list[PolicyRule]:
    """What rules grant beyond those owned, by resource or path: verbs of one are together, and all are in order."""
    missing: dict[tuple[tuple[str, ...], ...], list[str]] = {}
    for part in _parts(wanted):
        if not any(rule.covers(part) for rule in owned):
            verbs = missing.setdefault((part.groups, part.resources, part.names, part.urls), [])
            verbs.extend(verb for verb in part.verbs if verb not in verbs)
    return sorted((PolicyRule(tuple(verbs), *place) for place, verbs in missing.items()), key=str)


def _parts(rules: Iterable[PolicyRule]) -> Iterator[PolicyRule]:
    """The same grants as rules of one verb, one group, one resource and one name each, or of one verb and one path."""
    for rule in rules:
        for group in rule.groups:
            for resource in rule.resources:
                for verb in rule.verbs:
                    for name in rule.names or ("",):
                        yield PolicyRule((verb,), (group,), (resource,), (name,) if name else ())
        for url in rule.urls:
            for verb in rule.verbs:
                yield PolicyRule((verb,), urls=(url,))


def _names_resource(resources: Sequence[str], access: Access) -> bool:
    if ALL in resources or access.kind_of_resource in resources:
        return True
    return bool(access.subresource) and f"{ALL}/{access.subresource}" in resources


def _has_all(owned: Sequence[str], wanted: Iterable[str]) -> bool:
    return ALL in owned or set(wanted) <= set(owned)


def _covers_resources(owned: Sequence[str], wanted: Iterable[str]) -> bool:
    if ALL in owned:
        return True
    return all(
        resource in owned or ("/" in resource and f"{ALL}/{resource.partition('/')[2]}" in owned) for resource in wanted
    )


def _url_covers(url: str, path: str) -> bool:
    return url in (ALL, path) or (url.endswith(ALL) and path.startswith(url.rstrip(ALL)))


def _quoted(values: Iterable[str]) -> str:
    return "[" + " ".join(f'"{value}"' for value in values) + "]"
