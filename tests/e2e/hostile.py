"""A kind of one's own with scripts that serve its good objects, and hang, devour or break out with others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from schemas.manifest import Manifest
from services._kit.kube.client import ApiError, KubeClient, resource_path
from tests.e2e.fleet import Failed
from tests.support.waiting import NotYet, eventually

API_VERSION: Final = "hostile.example.io/v1"

REPLICAS: Final = """
local cases = {}
function cases.loop() while true do pcall(function() while true do end end) end end
function cases.table() local t = {} for i = 1, 1e9 do t[i] = {i} end end
function cases.bomb() local s = string.format("%099d", 7) for i = 1, 40 do s = s .. s end return #s end
function cases.pattern() return string.find(("a"):upper(), string.rep("a*", 99)) end
function cases.escape() return getmetatable("").__index.rep("x", 3) end
function cases.globals() return setfenv(1, {}) end
function cases.files() return io.open("/etc/passwd"):read("*a") end
function cases.text() return "three" end
function cases.list() return {3} end
function cases.truth() return true end
function cases.negative() return -3 end
function cases.requirements() return 3, "much" end
function cases.quantity() return 3, {resourceRequest = {cpu = {1}}} end
function cases.null() return nil end

function GetReplicas(obj)
  local case = cases[obj.spec.case]
  if case then return case() end
  return obj.spec.size
end
"""
REVISION: Final = """
function ReviseReplica(obj, replicas)
  if obj.spec.case == "impostor" then obj.metadata.name = "somebody-else" end
  obj.spec.size = replicas
  return obj
end
"""
REFUSED: Final = {
    "loop": "1 s of processor time",
    "table": "memory",
    "bomb": "memory",
    "pattern": "string.rep",
    "escape": "getmetatable",
    "globals": "setfenv",
    "files": "io",
    "text": "returned a string",
    "list": "returned a table",
    "truth": "returned a boolean",
    "negative": "replicas: is -3",
    "requirements": "returned a string",
    "quantity": "resourceRequest",
    "null": "returned a nil",
}
"""What a person is told of each case: a part of it."""


NAMESPACE: Final = "probes"
_PATHS: Final = {
    "Namespace": resource_path("", "v1", "namespaces"),
    "CustomResourceDefinition": resource_path("apiextensions.k8s.io", "v1", "customresourcedefinitions"),
    "ClusterPropagationPolicy": resource_path("policy.karmada.io", "v1alpha1", "clusterpropagationpolicies"),
    "PropagationPolicy": resource_path("policy.karmada.io", "v1alpha1", "propagationpolicies", NAMESPACE),
    "ResourceInterpreterCustomization": resource_path(
        "config.karmada.io", "v1alpha1", "resourceinterpretercustomizations"
    ),
    "Probe": resource_path("hostile.example.io", "v1", "probes", NAMESPACE),
}
_BINDINGS: Final = resource_path("work.karmada.io", "v1alpha2", "resourcebindings", NAMESPACE)
_EVENTS: Final = resource_path("", "v1", "events", NAMESPACE)
Look = Callable[[], Awaitable[dict[str, Any]]]


async def create(client: KubeClient, manifest: Manifest) -> None:
    """Create one object."""
    await client.create(_PATHS[manifest["kind"]], manifest)


async def until(what: str, look: Look, wanted: dict[str, Any]) -> None:
    """Wait until `look` answers `wanted`; raises Failed with the differences when it takes too long."""

    async def same() -> bool:
        seen = await look()
        if names := [name for name in {**seen, **wanted} if seen.get(name) != wanted.get(name)]:
            raise NotYet([(name, seen.get(name), wanted.get(name)) for name in names])
        return True

    try:
        await eventually(same, what)
    except AssertionError as error:
        raise Failed(str(error)) from None


async def define(client: KubeClient) -> None:
    """Have the control plane and all members serve Probes, in a namespace of their own."""
    await create(client, definition())
    await create(client, spread_definition())
    await create(client, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})

    async def served() -> dict[str, Any]:
        try:
            return {"items": (await client.get(_PATHS["Probe"]))["items"]}
        except ApiError:
            return {}

    await until("Probes served", served, {"items": []})


async def remove(client: KubeClient, member: KubeClient) -> None:
    """Take everything away again, and wait until no script has anything to do."""
    kind = f"{_PATHS['CustomResourceDefinition']}/{definition()['metadata']['name']}"
    await client.delete(f"{_PATHS['Namespace']}/{NAMESPACE}")
    await client.delete(kind)

    async def left() -> dict[str, Any]:
        found: dict[str, Any] = dict.fromkeys(await requested(client)(), 0)
        try:
            found[kind] = (await member.get(kind))["metadata"]["uid"]
        except ApiError as error:
            if error.status != 404:
                raise
        return found

    await until("bindings and the definition in a member", left, {})
    for other in ("ClusterPropagationPolicy", "ResourceInterpreterCustomization"):
        await client.delete(f"{_PATHS[other]}/probes")


def requested(client: KubeClient) -> Look:
    """Replicas of every binding, by the name of its object."""

    async def look() -> dict[str, Any]:
        specs = [item["spec"] for item in (await client.get(_BINDINGS))["items"]]
        return {spec["resource"]["name"]: spec.get("replicas", 0) for spec in specs}

    return look


def told(client: KubeClient) -> Look:
    """Whether the Warning about an object names its cause, by the name of the object."""

    async def look() -> dict[str, Any]:
        found: dict[str, Any] = {}
        for event in (await client.get(_EVENTS))["items"]:
            if event["reason"] == "GetReplicasFailed" and event["type"] == "Warning":
                case = event["involvedObject"]["name"]
                found[case] = REFUSED[case] in event["message"]
        return found

    return look


def sizes(client: KubeClient) -> Look:
    """Sizes of a member's Probes by name."""

    async def look() -> dict[str, Any]:
        return {name(item): item["spec"]["size"] for item in (await client.get(_PATHS["Probe"]))["items"]}

    return look


def name(manifest: Manifest) -> str:
    """An object's name."""
    return str(manifest["metadata"]["name"])


def definition() -> Manifest:
    """The definition of Probes."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    names = {"kind": "Probe", "plural": "probes", "singular": "probe", "listKind": "ProbeList"}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "probes.hostile.example.io"},
        "spec": {"group": "hostile.example.io", "scope": "Namespaced", "names": names, "versions": [version]},
    }


def spread_definition() -> Manifest:
    """The policy that has every member serve Probes."""
    selector = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "name": "probes.hostile.example.io",
    }
    return {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "ClusterPropagationPolicy",
        "metadata": {"name": "probes"},
        "spec": {"resourceSelectors": [selector], "placement": {}},
    }


def customization() -> Manifest:
    """How replicas of Probes are counted and set."""
    rules = {"replicaResource": {"luaScript": REPLICAS}, "replicaRevision": {"luaScript": REVISION}}
    return {
        "apiVersion": "config.karmada.io/v1alpha1",
        "kind": "ResourceInterpreterCustomization",
        "metadata": {"name": "probes"},
        "spec": {"target": {"apiVersion": API_VERSION, "kind": "Probe"}, "customizations": rules},
    }


def probe(named: str, **spec: Any) -> Manifest:
    """One object."""
    return {
        "apiVersion": API_VERSION,
        "kind": "Probe",
        "metadata": {"name": named, "namespace": NAMESPACE},
        "spec": spec,
    }


def policy() -> Manifest:
    """The policy that divides all Probes evenly between two members."""
    weights = [{"targetCluster": {"clusterNames": [name]}, "weight": 1} for name in ("member1", "member2")]
    scheduling = {
        "replicaSchedulingType": "Divided",
        "replicaDivisionPreference": "Weighted",
        "weightPreference": {"staticWeightList": weights},
    }
    placement = {"clusterAffinity": {"clusterNames": ["member1", "member2"]}, "replicaScheduling": scheduling}
    return {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"name": "probes", "namespace": NAMESPACE},
        "spec": {"resourceSelectors": [{"apiVersion": API_VERSION, "kind": "Probe"}], "placement": placement},
    }
