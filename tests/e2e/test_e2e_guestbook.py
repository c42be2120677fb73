"""A kind of one's own: its definition by a cluster policy, its objects by a policy, changed or divided by scripts."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from schemas.manifest import Manifest
from tests.e2e.fleet import EXAMPLES, MANIFESTS, Fleet, Kubectl, until_equal
from tests.e2e.space import Space, clusters, weighed

pytestmark = pytest.mark.xdist_group("workloads")

CRD = "guestbooks.webapp.my.domain"
NAMES = {
    "crd": CRD,
    "propagationpolicy": "example-policy",
    "clusterpropagationpolicy": "example-policy",
    "overridepolicy": "guestbook-sample",
}


@pytest.fixture
def walk(fleet: Fleet) -> Iterator[Kubectl]:
    """The control plane after every file of the example was applied, in the order of the walk."""
    control = fleet.kubectl()
    control.apply(EXAMPLES / "guestbooks-crd.yaml")
    control.run("wait", "--for=condition=Established", f"crd/{CRD}", "--timeout=60s")
    for name in ("guestbooks-clusterpropagationpolicy", "guestbook", "guestbooks-propagationpolicy"):
        control.apply(EXAMPLES / f"{name}.yaml")
    yield control
    for kind, name in NAMES.items():
        control.run("delete", kind, name, "--ignore-not-found")
    until_equal("definitions left in member1", lambda: _names(fleet.kubectl("member1"), "crd"), [])


def _names(kubectl: Kubectl, kind: str) -> list[str]:
    return [name for name in kubectl.names(kind) if "guestbook" in name]


def test_the_definition_goes_to_the_member_it_names_only(walk: Kubectl, members: dict[str, Kubectl]) -> None:
    wanted = {"member1": [CRD], "member2": [], "member3": []}
    until_equal("definitions", lambda: {name: _names(k, "crd") for name, k in members.items()}, wanted)


def test_object_is_updated_with_its_override_in_the_member(walk: Kubectl, members: dict[str, Kubectl]) -> None:
    member = members["member1"]

    def seen() -> tuple[object, object]:
        found = member.get("guestbook", "guestbook-sample") or {}
        annotations = (found.get("metadata") or {}).get("annotations") or {}
        return found.get("spec"), annotations.get("OverridePolicy")

    plain = {"size": 2, "configMapName": "test", "alias": "Name"}
    until_equal("the guestbook in member1", seen, (plain, None))
    walk.apply(EXAMPLES / "guestbooks-overridepolicy.yaml")
    until_equal("the overridden guestbook in member1", seen, ({**plain, "size": 4}, "test"))
    template = walk.get("guestbook", "guestbook-sample")
    assert template is not None
    assert template["spec"] == plain
    walk.delete("overridepolicy", "guestbook-sample")
    until_equal("the guestbook in member1 without its override", seen, (plain, None))


def test_the_definition_and_its_objects_leave_with_the_template(walk: Kubectl, members: dict[str, Kubectl]) -> None:
    until_equal("guestbooks", lambda: members["member1"].names("guestbook"), ["guestbook-sample"])
    walk.delete("guestbook", "guestbook-sample")
    until_equal("guestbooks after the deletion", lambda: members["member1"].names("guestbook"), [])
    walk.delete("crd", CRD)
    until_equal("definitions after the deletion", lambda: _names(members["member1"], "crd"), [])


WIDGETS: Manifest = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.io"},
    "spec": {
        "group": "example.io",
        "scope": "Namespaced",
        "names": {"kind": "Widget", "plural": "widgets", "singular": "widget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


@pytest.fixture
def widgets(space: Space) -> Iterator[Space]:
    """A namespace while two members serve Widgets and scripts say what these are."""
    space.apply(WIDGETS)
    selector = {"apiVersion": WIDGETS["apiVersion"], "kind": WIDGETS["kind"], "name": WIDGETS["metadata"]["name"]}
    policy = {"apiVersion": "policy.karmada.io/v1alpha1", "kind": "ClusterPropagationPolicy"}
    spec = {"resourceSelectors": [selector], "placement": clusters("member1", "member2")}
    space.apply({**policy, "metadata": {"name": "widgets"}, "spec": spec})
    space.control.apply(MANIFESTS / "widgets.yaml")
    yield space
    for kind, name in (("ric", "widgets"), ("cpp", "widgets"), ("crd", "widgets.example.io")):
        space.control.delete(kind, name)


@pytest.mark.main_path
def test_scripts_divide_sum_and_judge_a_kind(widgets: Space) -> None:
    space = widgets
    widget: Manifest = {"apiVersion": "example.io/v1", "kind": "Widget"}
    widget |= {"metadata": {"name": "w", "namespace": space.name}, "spec": {"replicas": 4}}
    space.control.run("wait", "--for=condition=Established", "crd/widgets.example.io", "--timeout=60s")
    space.apply(widget)
    space.policy(widget, weighed(member1=1, member2=1))
    for member, ready in (("member1", 2), ("member2", 1)):
        space.until_field(member, "widget", "w", "spec.replicas", 2)
        patch = json.dumps({"status": {"ready": ready, "nobody": "asks"}})
        words = ("patch", "widget", "w", "--subresource=status", "--type=merge", "-p", patch)
        space.member[member].run(*words, namespace=space.name)
    until_equal("the status", lambda: (space.control.get("widget", "w", space.name) or {}).get("status"), {"ready": 3})

    def health() -> dict[str, str]:
        binding = space.control.get("rb", "w-widget", space.name) or {}
        items = (binding.get("status") or {}).get("aggregatedStatus") or []
        return {item["clusterName"]: item.get("health", "") for item in items}

    until_equal("health", health, {"member1": "Healthy", "member2": "Unhealthy"})
    space.control.delete("widget", "w", space.name)
    for member in ("member1", "member2"):
        until_equal(f"Widgets in {member}", lambda member=member: space.member[member].names("widgets", space.name), [])
