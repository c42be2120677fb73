"""What the chaos run creates, and what each member must then hold: written again here by the words of the API."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from schemas.manifest import Manifest
from tests.e2e.space import clusters, weighed

MEMBERS: Final = ("member1", "member2", "member3")
PREFIX: Final = "chaos-"
GROUP: Final = "chaos.example"
NUMBER: Final = "chaos.example/number"
MANAGED: Final = "karmada.io/managed"
SHAPES: Final = ("everywhere", "pair", "single", "moving", "divided")
PLACES: Final = (("member1",), ("member2",), ("member3",), ("member1", "member2"), ("member2", "member3"))
"""Where the policy of the shape `moving` may point."""
_ROOTS: Final[Mapping[str, tuple[str, str]]] = {
    "configmaps": ("/api/v1", "ConfigMap"),
    "secrets": ("/api/v1", "Secret"),
    "deployments": ("/apis/apps/v1", "Deployment"),
    "gadgets": (f"/apis/{GROUP}/v1", "Gadget"),
    "namespaces": ("/api/v1", "Namespace"),
    "propagationpolicies": ("/apis/policy.karmada.io/v1alpha1", "PropagationPolicy"),
    "clusterpropagationpolicies": ("/apis/policy.karmada.io/v1alpha1", "ClusterPropagationPolicy"),
    "overridepolicies": ("/apis/policy.karmada.io/v1alpha1", "OverridePolicy"),
    "customresourcedefinitions": ("/apis/apiextensions.k8s.io/v1", "CustomResourceDefinition"),
}
KINDS: Final = ("configmaps", "secrets", "deployments", "gadgets")


class State(Struct, frozen=True):
    """All that a client chooses of an object; `number` differs for every write."""

    number: str
    shape: str = ""
    value: str = ""
    replicas: int = 0
    team: str = ""


def path(kind: str, namespace: str = "", name: str = "") -> str:
    """URL path of a collection, or of an object."""
    root = _ROOTS[kind][0]
    where = f"{root}/namespaces/{namespace}/{kind}" if namespace else f"{root}/{kind}"
    return f"{where}/{name}" if name else where


def head(kind: str) -> Manifest:
    """apiVersion and kind."""
    root, word = _ROOTS[kind]
    return {"apiVersion": root.removeprefix("/apis/").removeprefix("/api/"), "kind": word}


def manifest(kind: str, namespace: str, name: str, state: State, base: Manifest | None = None) -> Manifest:
    """An object as a client writes it; what others wrote into `base` stays."""
    made: Manifest = base or {**head(kind), "metadata": {"name": name, "namespace": namespace}}
    metadata = made["metadata"]
    metadata.setdefault("annotations", {})[NUMBER] = state.number
    if kind == "propagationpolicies":
        made["spec"] = _policy(state)
        return made
    if kind == "overridepolicies":
        made["spec"] = _override(state)
        return made
    labels = metadata.setdefault("labels", {})
    labels.update({"chaos": "yes", "shape": state.shape})
    labels.pop("team", None)
    if state.team:
        labels["team"] = state.team
    match kind:
        case "configmaps":
            made["data"] = {"value": state.value}
        case "secrets":
            made["data"] = {"value": base64.b64encode(state.value.encode()).decode()}
        case "gadgets":
            made["spec"] = {"value": state.value}
        case "deployments":
            app = {"app": name}
            container = {"name": "main", "image": f"nginx:{state.value}"}
            spec = made.setdefault("spec", {"selector": {"matchLabels": app}})
            spec["replicas"] = state.replicas
            spec["template"] = {"metadata": {"labels": app}, "spec": {"containers": [container]}}
        case _:
            raise ValueError(kind)
    return made


def _selectors(shape: str) -> list[Manifest]:
    chosen = {"matchLabels": {"shape": shape}}
    return [{**head(kind), "labelSelector": chosen} for kind in KINDS]


def _policy(state: State) -> Manifest:
    """The policy of a shape; `value` names the clusters of `moving`."""
    placement: Manifest = {}
    match state.shape:
        case "pair":
            placement = {"clusterAffinity": {"clusterNames": ["member1", "member3"]}}
        case "single":
            placement = {"clusterAffinity": {"clusterNames": ["member2"]}}
        case "moving":
            placement = clusters(*state.value.split(","))
        case "divided":
            placement = weighed(member1=2, member3=1)
    return {"resourceSelectors": _selectors(state.shape), "placement": placement}


def _override(state: State) -> Manifest:
    """member2 gets a label more, and pulls from a mirror."""
    add = {"operator": "add", "value": {"where": state.value}}
    images = [{"component": "Registry", "operator": "add", "value": f"{state.value}.example"}]
    chosen = {"matchLabels": {"shape": "everywhere"}}
    return {
        "resourceSelectors": [
            {**head("configmaps"), "labelSelector": chosen},
            {**head("deployments"), "labelSelector": chosen},
        ],
        "overrideRules": [
            {
                "targetCluster": {"clusterNames": ["member2"]},
                "overriders": {"labelsOverrider": [add], "imageOverrider": images},
            }
        ],
    }


def state_of(kind: str, found: Manifest) -> State:
    """What an object of the control plane says, read back."""
    metadata, spec = found["metadata"], found.get("spec") or {}
    number = (metadata.get("annotations") or {}).get(NUMBER, "")
    labels = metadata.get("labels") or {}
    if kind == "propagationpolicies":
        shape = spec["resourceSelectors"][0]["labelSelector"]["matchLabels"]["shape"]
        names = ((spec.get("placement") or {}).get("clusterAffinity") or {}).get("clusterNames") or ()
        return State(number, shape, ",".join(names) if shape == "moving" else "")
    if kind == "overridepolicies":
        return State(number, value=spec["overrideRules"][0]["overriders"]["labelsOverrider"][0]["value"]["where"])
    value, replicas = _content(kind, found)
    return State(number, labels.get("shape", ""), value.removeprefix("nginx:"), replicas, labels.get("team", ""))


def _content(kind: str, found: Manifest) -> tuple[str, int]:
    match kind:
        case "configmaps":
            return (found.get("data") or {}).get("value", ""), 0
        case "secrets":
            return base64.b64decode((found.get("data") or {}).get("value", "")).decode(), 0
        case "gadgets":
            return (found.get("spec") or {}).get("value", ""), 0
        case _:
            spec = found["spec"]
            return spec["template"]["spec"]["containers"][0]["image"], spec["replicas"]


class Copy(Struct, frozen=True):
    """What a member holds of an object, as far as a client chose it."""

    value: str
    replicas: int
    number: str
    labels: tuple[tuple[str, str], ...]


def copy_of(kind: str, found: Manifest) -> Copy:
    """Read from a member."""
    metadata = found["metadata"]
    labels = {name: text for name, text in (metadata.get("labels") or {}).items() if "karmada.io/" not in name}
    value, replicas = _content(kind, found)
    return Copy(value, replicas, (metadata.get("annotations") or {}).get(NUMBER, ""), tuple(sorted(labels.items())))


def copies(kind: str, state: State, moving: str, override: str) -> dict[str, Copy]:
    """By member: the copy it must hold. `moving` are the clusters of that policy, `override` the override's value."""
    match state.shape:
        case "everywhere":
            where = dict.fromkeys(MEMBERS, state.replicas)
        case "pair":
            where = dict.fromkeys(("member1", "member3"), state.replicas)
        case "single":
            where = {"member2": state.replicas}
        case "moving":
            where = dict.fromkeys(moving.split(","), state.replicas)
        case "divided" if kind == "deployments":
            where = {"member1": state.replicas * 2 // 3, "member3": state.replicas // 3}
        case _:
            where = dict.fromkeys(("member1", "member3"), state.replicas)
    found = {}
    for member, replicas in where.items():
        labels = {"chaos": "yes", "shape": state.shape, **({"team": state.team} if state.team else {})}
        value = f"nginx:{state.value}" if kind == "deployments" else state.value
        if override and member == "member2" and state.shape == "everywhere" and kind in ("configmaps", "deployments"):
            labels["where"] = override
            value = f"{override}.example/{value}" if kind == "deployments" else value
        found[member] = Copy(value, replicas, state.number, tuple(sorted(labels.items())))
    return found


def definition() -> Manifest:
    """The custom kind."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        **head("customresourcedefinitions"),
        "metadata": {"name": f"gadgets.{GROUP}", "annotations": {NUMBER: "0"}},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"},
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}},
            ],
        },
    }


def definition_policy() -> Manifest:
    """The custom kind goes to every member."""
    selector = {**head("customresourcedefinitions"), "name": f"gadgets.{GROUP}"}
    return {
        **head("clusterpropagationpolicies"),
        "metadata": {"name": "chaos-definitions"},
        "spec": {"resourceSelectors": [selector], "placement": {}},
    }
