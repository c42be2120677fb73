"""Resources of a group version that another server answers for, while the kinds of the version stay with this one.

An APIService says so by its annotation `fleetlog.io/serves`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from msgspec import Struct

from schemas.manifest import Manifest

ANNOTATION: Final = "fleetlog.io/serves"
"""Of an APIService: what its server answers for besides, as GROUP/VERSION/RESOURCE[/SUBRESOURCE] with commas."""
_CONNECT: Final = ("create", "delete", "get", "patch", "update")
_PART: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_OWN: Final = frozenset({"status", "scale"})
"""Subresources that belong to the storage of a kind."""
_MOST: Final = 64


class Delegated(Struct, frozen=True):
    """A resource, or a subresource of one, and everything below its paths."""

    group: str
    version: str
    resource: str
    subresource: str = ""

    def __str__(self) -> str:
        return "/".join(filter(None, (self.group, self.version, self.resource, self.subresource)))


Served = Callable[[str, str, str], "str | None"]
"""(group, version, plural) -> the kind that this server stores there; None where it stores none."""


def delegated_by(annotations: object, builtin: Callable[[str, str], bool], served: Served) -> frozenset[Delegated]:
    """What the annotations of an APIService delegate; what this server answers for itself is left out.

    `builtin` says which group versions are the server's own: nothing of those is given away, and of others no kind.
    """
    text = annotations.get(ANNOTATION) if isinstance(annotations, dict) else ""
    found = set()
    for item in str(text or "").split(",")[:_MOST]:
        parts = item.strip().split("/")
        if len(parts) not in (3, 4) or not all(_PART.fullmatch(part) for part in parts):
            continue
        one = Delegated(parts[0], parts[1], parts[2], parts[3] if len(parts) == 4 else "")
        stored = served(one.group, one.version, one.resource) is not None
        if "." in one.group and not builtin(one.group, one.version) and (not stored or _apart(one)):
            found.add(one)
    return frozenset(found)


def _apart(one: Delegated) -> bool:
    return bool(one.subresource) and one.subresource not in _OWN


def delegated_at(parts: list[str]) -> Iterator[Delegated]:
    """What the segments of a path could be delegated as."""
    if len(parts) >= 4 and parts[0] == "apis":
        _, group, version, resource, *more = parts
        yield Delegated(group, version, resource)
        if len(more) >= 2:
            yield Delegated(group, version, resource, more[1])


def inner_of(one: Delegated, raw_path: str) -> str:
    """The path below the one that was delegated, which begins with a slash."""
    return "/" + "/".join(raw_path.split("/")[1 + (6 if one.subresource else 5) :])


def listed(delegated: Iterable[Delegated], group: str, version: str, served: Served) -> list[dict[str, Any]]:
    """Their entries in the APIResourceList of a group version."""
    return [
        {
            "name": f"{one.resource}/{one.subresource}" if one.subresource else one.resource,
            "singularName": "",
            "namespaced": False,
            "kind": served(group, version, one.resource) or one.resource.capitalize(),
            "verbs": list(_CONNECT) if one.subresource else ["get"],
        }
        for one in sorted(delegated, key=str)
        if (one.group, one.version) == (group, version)
    ]


def with_listed(document: Manifest | None, entries: list[dict[str, Any]]) -> Manifest | None:
    """An APIResourceList with these entries, unless it has them."""
    if document is None or not entries:
        return document
    have = {item["name"] for item in document.get("resources") or ()}
    more = [entry for entry in entries if entry["name"] not in have]
    resources = sorted([*(document.get("resources") or ()), *more], key=lambda item: str(item["name"]))
    return {**document, "resources": resources}


def with_discovered(document: Manifest, delegated: Iterable[Delegated], served: Served) -> Manifest:
    """An APIGroupDiscoveryList with these resources in the group versions that it has."""
    wanted = sorted(delegated, key=str)
    items = []
    for item in document.get("items") or ():
        group = item["metadata"].get("name", "")
        mine = [one for one in wanted if one.group == group]
        versions = item["versions"]
        if mine:
            versions = [_version(version, mine, group, served) for version in versions]
        items.append({**item, "versions": versions})
    return {**document, "items": items}


def _version(version: Manifest, delegated: list[Delegated], group: str, served: Served) -> Manifest:
    resources = [dict(resource) for resource in version.get("resources") or ()]
    index = {resource["resource"]: resource for resource in resources}
    name = version["version"]
    for one in delegated:
        if one.version != name:
            continue
        kind = {"group": group, "version": name, "kind": served(group, name, one.resource) or one.resource.capitalize()}
        entry = index.get(one.resource)
        if entry is None:
            entry = {"resource": one.resource, "responseKind": kind, "scope": "Cluster", "singularResource": ""}
            entry["verbs"] = ["get"]
            index[one.resource] = entry
            resources.append(entry)
        if one.subresource:
            have = [sub for sub in entry.get("subresources") or () if sub["subresource"] != one.subresource]
            shown = {"subresource": one.subresource, "responseKind": kind, "verbs": list(_CONNECT)}
            entry["subresources"] = [*have, shown]
    return {**version, "resources": resources}
