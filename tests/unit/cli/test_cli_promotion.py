"""What promoting decides: the template, its policy, and what is taken back where it cannot go on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from services._kit.kube.client import ApiError, ApiResource, KubeClient
from services._rules.interpreter import Operation
from services.cli.common.running import Failed
from services.cli.promotion.dependency_levels import DependencyLevels, open_levels
from services.cli.promotion.object_policies import placement_in, policy_of, promotion_policy
from services.cli.promotion.promote import Place, Promotion
from services.cli.promotion.template_of import template_of

FOUND: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {
        "name": "nginx",
        "namespace": "web",
        "uid": "u1",
        "resourceVersion": "7",
        "labels": {"app": "nginx", "karmada.io/managed": "true", "work.karmada.io/permanent-id": "w"},
        "annotations": {"note": "kept", "deployment.kubernetes.io/revision": "3"},
    },
    "spec": {"replicas": 2},
    "status": {"replicas": 2},
}
SERVED = [
    ApiResource(name="configmaps", kind="ConfigMap", namespaced=True, verbs=["list"], version="v1"),
    ApiResource(name="secrets", kind="Secret", namespaced=True, verbs=["list"], version="v1"),
]


def test_template_is_free_of_what_servers_and_works_write() -> None:
    assert template_of(FOUND) == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": "nginx",
            "namespace": "web",
            "labels": {"app": "nginx"},
            "annotations": {"note": "kept", "work.karmada.io/conflict-resolution": "overwrite"},
        },
        "spec": {"replicas": 2},
    }
    own = {**FOUND, "metadata": {"name": "x", "annotations": {"work.karmada.io/conflict-resolution": "abort"}}}
    assert template_of(own)["metadata"]["annotations"] == {"work.karmada.io/conflict-resolution": "abort"}


def test_policy_names_exactly_one_object() -> None:
    made = policy_of(FOUND, placement_in(["m1", "m2"]))
    assert made["kind"] == "PropagationPolicy"
    assert made["metadata"] == {"name": "nginx-799b6cbb55", "namespace": "web"}
    assert made["spec"] == {
        "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "nginx", "namespace": "web"}],
        "placement": {"clusterAffinity": {"clusterNames": ["m1", "m2"]}},
    }
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "system:viewer"}}
    wide = policy_of(role, placement_in([]))
    assert wide["kind"] == "ClusterPropagationPolicy"
    assert wide["metadata"]["name"].startswith("system.viewer-")
    assert wide["spec"]["placement"] == {"clusterAffinity": {}}


def test_policy_of_a_promotion_takes_over_and_never_removes() -> None:
    made = promotion_policy(FOUND, "m1", name="mine", dependencies=True)
    assert made["metadata"]["name"] == "mine"
    assert made["spec"]["placement"] == {"clusterAffinity": {"clusterNames": ["m1"]}}
    kept = {name: made["spec"][name] for name in ("propagateDeps", "conflictResolution", "preserveResourcesOnDeletion")}
    assert kept == {"propagateDeps": True, "conflictResolution": "Overwrite", "preserveResourcesOnDeletion": True}


class Cluster:
    """A cluster that holds objects by path, and refuses one of them."""

    def __init__(self, objects: dict[str, dict[str, Any]], refused: str = "") -> None:
        self.objects = objects
        self.patched: dict[str, Any] = {}
        self._refused = refused

    async def get(self, path: str) -> dict[str, Any]:
        """One object, or those of a label selector."""
        collection, query, selector = path.partition("?labelSelector=")
        if query:
            wanted = selector.replace("%3D", "=").split("=")
            inside = [item for place, item in self.objects.items() if place.startswith(collection)]
            return {
                "items": [item for item in inside if (item["metadata"].get("labels") or {}).get(wanted[0]) == wanted[1]]
            }
        if path not in self.objects:
            raise ApiError(404, "NotFound", f"{path} not found")
        return self.objects[path]

    async def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Keep an object."""
        name = body["metadata"]["name"]
        if name == self._refused:
            raise ApiError(403, "Forbidden", "no")
        self.objects[f"{path}/{name}"] = body
        return body

    async def patch(self, path: str, body: dict[str, Any]) -> None:
        """Note it."""
        self.patched[path] = body

    async def delete(self, path: str) -> None:
        """Forget an object."""
        del self.objects[path]


def config(name: str, **labels: str) -> dict[str, Any]:
    """A ConfigMap as a member has it."""
    return {
        "metadata": {"name": name, "namespace": "web", **({"labels": labels} if labels else {})},
        "data": {"a": "1"},
    }


HOME = "/api/v1/namespaces/web/configmaps"
NEEDED = [{"apiVersion": "v1", "kind": "ConfigMap", "namespace": "web", "name": name} for name in ("a", "b")]


def promotion(control: Cluster, member: Cluster) -> Promotion:
    """A run between two clusters."""
    return Promotion(cast("KubeClient", control), cast("KubeClient", member), "m1", SERVED)


async def test_dependencies_become_templates() -> None:
    control, member = Cluster({}), Cluster({f"{HOME}/a": config("a"), f"{HOME}/b": config("b")})
    await promotion(control, member).promote_dependencies(NEEDED, "web")
    assert set(control.objects) == {f"{HOME}/a", f"{HOME}/b"}
    assert control.objects[f"{HOME}/a"]["kind"] == "ConfigMap"


async def test_dependencies_are_found_by_their_labels() -> None:
    member = Cluster({f"{HOME}/a": config("a", app="x"), f"{HOME}/b": config("b", app="y")})
    control = Cluster({})
    needed = [{"apiVersion": "v1", "kind": "ConfigMap", "labelSelector": {"matchLabels": {"app": "y"}}}]
    await promotion(control, member).promote_dependencies(needed, "web")
    assert set(control.objects) == {f"{HOME}/b"}


async def test_known_dependency_takes_the_others_back(capsys: pytest.CaptureFixture[str]) -> None:
    mine = config("a", **{"karmada.io/managed": "true"})
    member = Cluster({f"{HOME}/a": mine, f"{HOME}/b": config("b")})
    control = Cluster({f"{HOME}/b": config("b")})
    await promotion(control, member).promote_dependencies(NEEDED, "web")
    assert set(control.objects) == {f"{HOME}/b"}
    assert member.patched == {f"{HOME}/a": {"metadata": {"labels": {"karmada.io/managed": None}}}}
    assert "ConfigMap web/b is in the control plane already" in capsys.readouterr().err


@pytest.mark.parametrize("trouble", ["missing", "refused"])
async def test_failing_dependency_leaves_nothing_behind(trouble: str) -> None:
    objects = {f"{HOME}/a": config("a"), **({f"{HOME}/b": config("b")} if trouble == "refused" else {})}
    control = Cluster({}, refused="b")
    with pytest.raises((Failed, ApiError)):
        await promotion(control, Cluster(objects)).promote_dependencies(NEEDED, "web")
    assert control.objects == {}


async def test_unknown_kinds_and_empty_references_are_refused() -> None:
    run = promotion(Cluster({}), Cluster({}))
    with pytest.raises(Failed, match=r"serves no Widget of example\.io/v1"):
        await run.promote_dependencies([{"apiVersion": "example.io/v1", "kind": "Widget", "name": "w"}], "web")
    with pytest.raises(Failed, match="neither name nor labels"):
        await run.promote_dependencies([{"apiVersion": "v1", "kind": "Secret"}], "web")
    with pytest.raises(Failed, match="ConfigMap web/gone is not in cluster m1"):
        await run.read(Place(SERVED[0], "web", "gone"))


class Offering:
    """A level that offers dependencies for one kind."""

    def __init__(self, kind: str, name: str) -> None:
        self._kind = kind
        self._name = name

    def hook_enabled(self, api_version: str, kind: str, operation: Operation) -> bool:
        """Whether it is that kind."""
        return kind == self._kind and operation == Operation.DEPENDENCY

    async def call(self, operation: Operation, arguments: Sequence[Any]) -> Any:
        """One reference."""
        return [{"apiVersion": "v1", "kind": "ConfigMap", "name": self._name}]


async def test_strongest_interpreter_names_the_dependencies() -> None:
    levels = DependencyLevels([("strong", Offering("Widget", "a")), ("weak", Offering("Deployment", "b"))])
    widget = {"apiVersion": "example.io/v1", "kind": "Widget", "metadata": {"name": "w"}}
    answer = await levels.dependencies_of(widget)
    assert answer is not None
    assert (answer[0], answer[1][0]["name"]) == ("strong", "a")
    answer = await levels.dependencies_of(FOUND)
    assert answer is not None
    assert (answer[0], answer[1][0]["name"]) == ("weak", "b")
    plain = DependencyLevels([])
    assert await plain.dependencies_of(widget) is None
    volumes = [{"name": "page", "configMap": {"name": "page"}}]
    pod = {"containers": [{"name": "c", "image": "i"}], "volumes": volumes}
    found = {**FOUND, "spec": {"template": {"metadata": {}, "spec": pod}}}
    native = await plain.dependencies_of(found)
    assert native is not None
    assert (native[0], [one["name"] for one in native[1]]) == ("default interpreter", ["page"])


async def test_interpreters_of_the_control_plane_are_asked() -> None:
    rule = "function GetDependencies(obj) return {{apiVersion = 'v1', kind = 'Secret', name = 'key'}} end"
    target = {"apiVersion": "example.io/v1", "kind": "Widget"}
    customizations = {"dependencyInterpretation": {"luaScript": rule}}
    item = {"metadata": {"name": "widgets"}, "spec": {"target": target, "customizations": customizations}}
    path = "/apis/config.karmada.io/v1alpha1"

    class Control:
        """A control plane with a customization, whose webhook configurations may not be read."""

        async def get(self, place: str) -> dict[str, Any]:
            """The customization."""
            if place == f"{path}/resourceinterpretercustomizations":
                return {"items": [item]}
            raise ApiError(403, "Forbidden", "no")

    async with open_levels(cast("KubeClient", Control())) as levels:
        answer = await levels.dependencies_of({**target, "metadata": {"name": "w", "namespace": "web"}})
    assert answer is not None
    assert (answer[0], answer[1][0]["name"]) == ("configurable interpreter", "key")
