"""The roles and bindings that every server starts with, as objects; default_roles.yaml holds them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from schemas.manifest import Manifest
from services._rules.kubernetes.rbac.policy_rules import PolicyRule
from services._rules.kubernetes.rbac.role_index import GROUP, Place
from services._rules.kubernetes.yaml_reading import read

_API_VERSION: Final = f"{GROUP}/v1"
_LABELS: Final = {"kubernetes.io/bootstrapping": "rbac-defaults"}
AUTO_UPDATE: Final = "rbac.authorization.kubernetes.io/autoupdate"
"""The annotation that lets a later version of the server complete an object; `false` forbids it."""
_ANNOTATIONS: Final = {AUTO_UPDATE: "true"}
_AGGREGATE: Final = f"{GROUP}/aggregate-to-"
_CONTROLLER: Final = "system:controller:"
_EVENTS: Final = "create,patch,update core,events.k8s.io:events"
_VERBS: Final[Mapping[str, str]] = {
    "read": "get,list,watch",
    "write": "create,delete,deletecollection,patch,update",
    "all": "create,delete,deletecollection,get,list,patch,update,watch",
}


class _OfNamespace(Struct, forbid_unknown_fields=True):
    namespace: str
    name: str
    rules: list[str]
    bound: list[str] = []


class _Defaults(Struct, forbid_unknown_fields=True):
    cluster: dict[str, list[str]]
    aggregated: dict[str, list[str]]
    controllers: dict[str, list[str]]
    bindings: dict[str, list[str]]
    namespaced: list[_OfNamespace]


@cache
def _defaults() -> _Defaults:
    text = Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")
    return msgspec.convert(read(text), _Defaults)


def rules_of(name: str) -> tuple[PolicyRule, ...]:
    """The rules of one cluster role."""
    return tuple(_rule(text) for text in _defaults().cluster[name])


def default_objects() -> Iterator[tuple[Place, Manifest]]:
    """Every role and binding with its place."""
    found = _defaults()
    rules = {name: [_rule(text) for text in held] for name, held in found.cluster.items()}
    labels = {part: name for name, parts in found.aggregated.items() for part in parts}
    while len(rules) < len(found.cluster) + len(found.aggregated):
        for name, parts in found.aggregated.items():
            if name not in rules and all(part in rules for part in parts):
                rules[name] = _together(rules, parts)
    for name, held in rules.items():
        role = _object("ClusterRole", name, rules=[rule.manifest() for rule in held])
        if name in labels:
            role["metadata"]["labels"][_AGGREGATE + labels[name]] = "true"
        if name in found.aggregated:
            selector = {"matchLabels": {_AGGREGATE + name: "true"}}
            role["aggregationRule"] = {"clusterRoleSelectors": [selector]}
        yield _placed(role)
    for name, subjects in found.bindings.items():
        yield _placed(_binding("ClusterRoleBinding", name, "ClusterRole", subjects))
    for name, texts in found.controllers.items():
        full = _CONTROLLER + name
        yield _placed(_object("ClusterRole", full, rules=[_rule(text).manifest() for text in texts]))
        yield _placed(_binding("ClusterRoleBinding", full, "ClusterRole", [f"account kube-system {name}"]))
    for one in found.namespaced:
        yield _placed(_object("Role", one.name, one.namespace, rules=[_rule(text).manifest() for text in one.rules]))
        if one.bound:
            yield _placed(_binding("RoleBinding", one.name, "Role", one.bound, one.namespace))


def _together(rules: Mapping[str, list[PolicyRule]], parts: Iterable[str]) -> list[PolicyRule]:
    """The rules of several roles in the order of their names, each once."""
    return list(dict.fromkeys(rule for part in sorted(parts) for rule in rules[part]))


def _rule(text: str) -> PolicyRule:
    words = (_EVENTS if text == "events" else text).split()
    verbs = tuple(_VERBS.get(words[0], words[0]).split(","))
    if words[1].startswith("/"):
        return PolicyRule(verbs, urls=("*",) if words[1] == "/*" else tuple(words[1].split(",")))
    groups, _, resources = words[1].partition(":")
    names = tuple(words[3].split(",")) if len(words) > 2 else ()
    spelled = tuple("" if group == "core" else group for group in groups.split(","))
    return PolicyRule(verbs, spelled, tuple(resources.split(",")), names)


def _object(kind: str, name: str, namespace: str = "", **content: Any) -> Manifest:
    metadata: Manifest = {"name": name, "labels": dict(_LABELS), "annotations": dict(_ANNOTATIONS)}
    if namespace:
        metadata["namespace"] = namespace
    return {"kind": kind, "apiVersion": _API_VERSION, "metadata": metadata, **content}


def _binding(kind: str, name: str, role: str, subjects: Iterable[str], namespace: str = "") -> Manifest:
    reference = {"apiGroup": GROUP, "kind": role, "name": name}
    found = [_subject(text) for text in subjects]
    return _object(kind, name, namespace, roleRef=reference, **({"subjects": found} if found else {}))


def _subject(text: str) -> Manifest:
    kind, *names = text.split()
    if kind == "account":
        return {"kind": "ServiceAccount", "name": names[1], "namespace": names[0]}
    return {"kind": kind.capitalize(), "apiGroup": GROUP, "name": names[0]}


def _placed(manifest: Manifest) -> tuple[Place, Manifest]:
    metadata = manifest["metadata"]
    return Place(manifest["kind"], metadata.get("namespace", ""), metadata["name"]), manifest
