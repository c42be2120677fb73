"""Objects of all members by one question: the cache of search.karmada.io and `fleetlog search` (journey 98)."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from schemas.manifest import Manifest
from tests.e2e.fleet import until_equal
from tests.e2e.space import Space
from tests.support.commands import run_command

pytestmark = pytest.mark.xdist_group("views")

CACHE = "/apis/search.karmada.io/v1alpha1/search/cache"
MARK = "resource.karmada.io/cached-from-cluster"


@pytest.fixture
def registered(space: Space) -> Iterator[Space]:
    """A namespace while ConfigMaps of two push members and a pull member are selected."""
    registry: Manifest = {
        "apiVersion": "search.karmada.io/v1alpha1",
        "kind": "ResourceRegistry",
        "metadata": {"name": f"{space.name}-search"},
        "spec": {
            "targetCluster": {"clusterNames": ["member1", "member2", "member3"]},
            "resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap"}],
        },
    }
    space.apply(registry)
    for member, name in (("member1", "one"), ("member1", "both"), ("member2", "both"), ("member3", "both")):
        metadata = {"name": name, "namespace": space.name, "labels": {"app": name}}
        space.member[member].apply(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"of": name}}
        )
    yield space
    space.control.delete("resourceregistry", registry["metadata"]["name"])


@pytest.mark.main_path
def test_cache_and_command_show_the_same(registered: Space) -> None:
    space = registered
    path = f"{CACHE}/api/v1/namespaces/{space.name}/configmaps"

    def cached(selector: str = "") -> list[tuple[str, str]]:
        found = json.loads(space.control.run("get", "--raw", path + (f"?labelSelector={selector}" if selector else "")))
        items = [item for item in found["items"] if item["metadata"]["name"] != "kube-root-ca.crt"]
        return [(item["metadata"]["annotations"][MARK], item["metadata"]["name"]) for item in items]

    expected = [("member1", "both"), ("member1", "one"), ("member2", "both"), ("member3", "both")]
    until_equal("objects in the cache", cached, expected)
    assert cached("app%3Done") == [("member1", "one")]
    kubeconfig = str(space.control.kubeconfig)
    shown = run_command("fleetlog", "search", "kind=ConfigMap label.app", "--kubeconfig", kubeconfig)
    assert shown.returncode == 0, shown.stderr
    words = ("search", "kind=configmaps .data.of=both", "-n", space.name, "-o", "name", "--kubeconfig", kubeconfig)
    shown = run_command("fleetlog", *words)
    assert shown.stdout.splitlines() == [
        f"{member}/{space.name}/configmap/both" for member in ("member1", "member2", "member3")
    ]
