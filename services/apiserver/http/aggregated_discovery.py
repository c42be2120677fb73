"""Discovery documents with the groups of aggregated servers merged in."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from schemas.manifest import Manifest
from services.apiserver.controllers.aggregation.aggregated_proxy import Backend
from services.apiserver.reads.computed_groups import ComputedGroup


def computed(groups: Iterable[ComputedGroup]) -> list[Backend]:
    """The group versions that this server computes, in the shape of those that other servers answer for."""
    found = []
    for one in groups:
        for place, version in enumerate(one.versions):
            priorities = {"groupPriorityMinimum": 100, "versionPriority": 100 - place}
            backend = Backend(f"{version}.{one.group}", {"group": one.group, "version": version, **priorities})
            backend.resources = one.resources(version)
            found.append(backend)
    return found


def group(name: str, own: Manifest | None, extra: list[Backend]) -> Manifest | None:
    """The APIGroup of a name; None when it is not served."""
    versions = _versions(name, extra)
    if not versions:
        return own
    document = own or {"kind": "APIGroup", "apiVersion": "v1", "name": name, "versions": []}
    have = {v["version"] for v in document["versions"]}
    merged = document["versions"] + [{"groupVersion": f"{name}/{v}", "version": v} for v in versions if v not in have]
    return {**document, "versions": merged, "preferredVersion": document.get("preferredVersion") or merged[0]}


def group_list(own: Manifest, extra: list[Backend], priorities: Mapping[str, int]) -> Manifest:
    """The APIGroupList; `priorities` are those of the server's own groups, which come in this order."""
    if not extra:
        return own
    groups = list(own.get("groups") or [])
    index = {g["name"]: i for i, g in enumerate(groups)}
    for name in _names(extra):
        found = group(name, groups[index[name]] if name in index else None, extra)
        if found is None:
            continue
        found = {k: v for k, v in found.items() if k not in ("kind", "apiVersion")}
        if name in index:
            groups[index[name]] = found
        else:
            groups.append(found)
    return {**own, "groups": _ordered(groups, lambda one: one["name"], extra, priorities)}


def aggregated(own: Manifest, extra: list[Backend], priorities: Mapping[str, int]) -> Manifest:
    """The APIGroupDiscoveryList; `priorities` as for the other list."""
    if not extra:
        return own
    items = list(own["items"])
    index = {i["metadata"].get("name", ""): n for n, i in enumerate(items)}
    for name in _names(extra):
        # Clients take the first version for the preferred one.
        versions = [
            {"version": backend.spec["version"], "resources": _resources(backend), "freshness": "Current"}
            for backend in _by_priority(name, extra)
        ]
        if name in index:
            item = items[index[name]]
            have = {v["version"] for v in item["versions"]}
            more = [v for v in versions if v["version"] not in have]
            items[index[name]] = {**item, "versions": item["versions"] + more}
        else:
            items.append({"metadata": {"name": name, "creationTimestamp": None}, "versions": versions})
    return {**own, "items": _ordered(items, lambda one: one["metadata"].get("name", ""), extra, priorities)}


def _best(extra: list[Backend]) -> dict[str, int]:
    best: dict[str, int] = {}
    for backend in extra:
        name = backend.spec["group"]
        best[name] = max(best.get(name, 0), backend.spec.get("groupPriorityMinimum", 0))
    return best


def _names(extra: list[Backend]) -> list[str]:
    best = _best(extra)
    return sorted(best, key=lambda n: (-best[n], n))


def _ordered(
    items: list[Manifest], name_of: Callable[[Manifest], str], extra: list[Backend], priorities: Mapping[str, int]
) -> list[Manifest]:
    """Groups by their priority, which is that of the server for its own: clients resolve short names in this order."""
    best = {**_best(extra), **priorities}
    return sorted(items, key=lambda one: -best.get(name_of(one), 0))


def openapi_index(own: Manifest, extra: list[Backend]) -> Manifest:
    """The index of OpenAPI v3 documents."""
    paths = dict(own.get("paths") or {})
    for backend in extra:
        path = f"apis/{backend.spec['group']}/{backend.spec['version']}"
        paths.setdefault(path, {"serverRelativeURL": f"/openapi/v3/{path}"})
    return {**own, "paths": paths}


def _by_priority(name: str, extra: list[Backend]) -> list[Backend]:
    found = [b for b in extra if b.spec["group"] == name]
    return sorted(found, key=lambda b: (-b.spec.get("versionPriority", 0), b.spec["version"]))


def _versions(name: str, extra: list[Backend]) -> list[str]:
    return [b.spec["version"] for b in _by_priority(name, extra)]


def _resources(backend: Backend) -> list[dict[str, Any]]:
    """A plain resource list in the form of aggregated discovery."""
    out: dict[str, dict[str, Any]] = {}
    group_name, version = backend.spec["group"], backend.spec["version"]
    for item in backend.resources or []:
        plural, _, sub = item["name"].partition("/")
        kind = {
            "group": item.get("group") or group_name,
            "version": item.get("version") or version,
            "kind": item.get("kind", ""),
        }
        if not sub:
            entry = out.setdefault(plural, {"resource": plural})
            entry["responseKind"] = kind
            entry["scope"] = "Namespaced" if item.get("namespaced") else "Cluster"
            entry["singularResource"] = item.get("singularName") or str(item.get("kind", "")).lower()
            entry["verbs"] = item.get("verbs") or []
            for name in ("shortNames", "categories"):
                if item.get(name):
                    entry[name] = item[name]
            continue
        entry = out.setdefault(plural, {"resource": plural})
        shown = {"subresource": sub, "responseKind": kind, "verbs": item.get("verbs") or []}
        entry.setdefault("subresources", []).append(shown)
    return [e for e in out.values() if "verbs" in e]
