"""A kind of users' own with the scripts that interpret it, for tests of delivery."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Raw

from schemas.events.policy import PolicyChanged
from schemas.events.work import WorkRendered
from schemas.keys import ObjectKey, PolicyKey
from schemas.manifest import Manifest
from services._kit.content.blobs import digest_of
from services._kit.kube.client import KubeClient, resource_path
from services._rules import constants as const
from services._rules.identities import work_id
from services._rules.interpreter.configuration import CUSTOMIZATION

API_VERSION: Final = "example.io/v1"

RETAIN: Final = """
function Retain(desired, observed)
  desired.spec.size = observed.spec.size
  return desired
end"""
STATUS: Final = "function ReflectStatus(observed) return {phase = observed.status.phase, size = observed.spec.size} end"
HEALTH: Final = "function InterpretHealth(observed) return observed.status.phase == 'Up' end"
SCRIPTS: Final = {"retention": RETAIN, "statusReflection": STATUS, "healthInterpretation": HEALTH}


def key_of(name: str = "w") -> ObjectKey:
    """The key of a Widget in namespace default."""
    return ObjectKey("example.io", "widgets", "default", name)


def path_of(key: ObjectKey) -> str:
    """URL path of a Widget."""
    return resource_path("example.io", "v1", "widgets", key.namespace, key.name)


def definition() -> Manifest:
    """The CustomResourceDefinition, with a status of its own."""
    names = {"kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList"}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema, "subresources": {"status": {}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.io"},
        "spec": {"group": "example.io", "scope": "Namespaced", "names": names, "versions": [version]},
    }


async def define(client: KubeClient) -> None:
    """Have a cluster serve Widgets."""
    path = resource_path("apiextensions.k8s.io", "v1", "customresourcedefinitions", "")
    await client.create(path, definition())


def customization(api_version: str = API_VERSION, kind: str = "Widget", **scripts: str) -> PolicyChanged:
    """The fact about how a kind is interpreted; all three scripts of Widgets unless others are given."""
    rules = {member: {"luaScript": script} for member, script in (scripts or SCRIPTS).items()}
    name = f"{kind.lower()}s"
    manifest = {
        "apiVersion": "config.karmada.io/v1alpha1",
        "kind": CUSTOMIZATION,
        "metadata": {"name": name},
        "spec": {"target": {"apiVersion": api_version, "kind": kind}, "customizations": rules},
    }
    data = Raw(msgspec.json.encode(manifest))
    return PolicyChanged(key=PolicyKey(CUSTOMIZATION, "", name), uid=f"uid-{name}", manifest=data)


def widget_work(name: str = "w", cluster: str = "m1", **spec: Any) -> WorkRendered:
    """The work of a Widget, its manifest inline."""
    return _work(key_of(name), cluster, API_VERSION, "Widget", {"spec": spec})


def config_map_work(name: str, cluster: str = "m1", **data: str) -> WorkRendered:
    """The work of a ConfigMap, its manifest inline."""
    return _work(ObjectKey("", "configmaps", "default", name), cluster, "v1", "ConfigMap", {"data": data})


def _work(key: ObjectKey, cluster: str, api_version: str, kind: str, content: Manifest) -> WorkRendered:
    labels = {const.MANAGED_LABEL: const.LABEL_TRUE, const.WORK_ID_LABEL: work_id(cluster, key, "u1")}
    metadata = {"name": key.name, "namespace": key.namespace, "labels": labels}
    manifest = {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}
    data = msgspec.json.encode(manifest)
    return WorkRendered(
        cluster=cluster,
        key=key,
        uid="u1",
        api_version=api_version,
        kind=kind,
        digest=digest_of(data),
        manifest=Raw(data),
    )
