"""A kind of one's own: its definition by a cluster policy, its objects by a policy, changed for one member."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.fleet import EXAMPLES, Fleet, Kubectl, until, until_equal

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


def test_scripts_say_how_many_replicas_an_object_has(walk: Kubectl) -> None:
    def customize(script: str) -> None:
        rule = {"luaScript": f"function GetReplicas(obj) {script} end"}
        target = {"apiVersion": "webapp.my.domain/v1", "kind": "Guestbook"}
        spec = {"target": target, "customizations": {"replicaResource": rule}}
        kind = {"apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterCustomization"}
        walk.apply({**kind, "metadata": {"name": "guestbooks"}, "spec": spec})

    def replicas() -> object:
        return ((walk.get("resourcebinding", "guestbook-sample-guestbook") or {}).get("spec") or {}).get("replicas")

    def told() -> list[str]:
        events = [event for event in walk.items("events") if event["reason"] == "GetReplicasFailed"]
        return [event["involvedObject"]["name"] for event in events if "no size" in event["message"]]

    customize("return obj.spec.size")
    until_equal("replicas", replicas, 2)
    customize("error('no size')")
    until("a warning", lambda: "guestbook-sample" in told())
    assert replicas() == 2
    walk.delete("resourceinterpretercustomization", "guestbooks")
