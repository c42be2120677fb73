"""Objects that others need are bound with them, and follow them as policies, labels and owners change."""

from __future__ import annotations

import msgspec
import pytest

from schemas.events.binding import BindingReleased
from schemas.events.template import TemplateChanged
from schemas.keys import ObjectKey
from schemas.manifest import Manifest
from services._rules import constants as const
from services.detector.dependencies.required_objects import Served
from tests.support.dependency_plane import (
    APP,
    KINDS,
    WEB,
    Answers,
    DependencyPlane,
    cm,
    config,
    follows,
    key,
    obj,
    owner,
    settled,
)

IMPORT = obj("ServiceImport", "web", api="multicluster.x-k8s.io/v1alpha1", spec={"type": "ClusterSetIP"})
IMPORTED = {"kubernetes.io/service-name": "derived-web"}
IMPORTS = follows("imports", "ServiceImport", "multicluster.x-k8s.io/v1alpha1", of="web")


def slice_of(name: str, **labels: str) -> Manifest:
    return obj("EndpointSlice", name, api="discovery.k8s.io/v1", labels=labels or IMPORTED)


# -- attached bindings


def test_what_only_an_owner_asks_for_is_attached() -> None:
    plane = settled(owner(), cm())
    binding = plane.asked(APP)
    assert (binding.attached, binding.policy, binding.everywhere, binding.workload) == (True, None, False, False)
    assert plane.spec(APP) == {
        "resource": {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": "app",
            "namespace": "default",
            "uid": "ConfigMap-app",
        },
        "conflictResolution": "Abort",
        "preserveResourcesOnDeletion": False,
    }
    assert isinstance(plane.state.template_facts[APP], TemplateChanged)
    assert not plane.state.templates[APP]["metadata"].get("labels")


@pytest.mark.parametrize("first", ["owner", "dependency"])
def test_owner_and_dependency_come_in_any_order(first: str) -> None:
    plane = DependencyPlane(follows())
    for manifest in (owner(), cm()) if first == "owner" else (cm(), owner()):
        plane.put(manifest)
        plane.settle()
    assert plane.asked(APP).attached
    assert plane.count() == {WEB: 2, APP: 2}


def test_a_missing_dependency_is_no_failure() -> None:
    plane = settled(owner())
    assert plane.asked().requires == (APP,)
    assert "GetDependenciesFailed" not in plane.reasons()


def test_attached_bindings_inherit_nothing_else() -> None:
    policy = follows(
        suspension={"dispatching": True},
        failover={"application": {"decisionConditions": {"tolerationSeconds": 1}}},
        schedulerName="other",
    )
    plane = settled(owner(), cm(), policies=(policy,))
    assert set(plane.spec(APP)) == {"resource", "conflictResolution", "preserveResourcesOnDeletion"}


def test_an_attached_object_requires_nothing_itself() -> None:
    answers = Answers("ConfigMap", {"apiVersion": "v1", "kind": "Secret", "name": "beyond"})
    plane = settled(owner(), cm(), obj("Secret", "beyond"), interpreter=answers)
    assert plane.asked(APP).requires == ()
    assert plane.binding(ObjectKey("", "secrets", "default", "beyond")) is None


def test_a_secret_is_attached_and_named_by_its_key() -> None:
    plane = settled(owner(config=(), imagePullSecrets=[{"name": "pull"}]), obj("Secret", "pull", data={"a": "Yg=="}))
    secret = ObjectKey("", "secrets", "default", "pull")
    assert plane.asked(secret).attached
    fact = plane.state.template_facts[secret]
    assert isinstance(fact, TemplateChanged)
    assert fact.manifest is msgspec.UNSET


def test_owners_that_disagree_merge_and_are_told() -> None:
    both = (follows(conflictResolution="Overwrite"), follows("api", preserveResourcesOnDeletion=True))
    plane = settled(owner(), owner("api"), cm(), policies=both)
    assert (plane.spec(APP)["conflictResolution"], plane.spec(APP)["preserveResourcesOnDeletion"]) == (
        "Overwrite",
        True,
    )
    assert plane.asked(APP).contradictions == ("conflictResolution", "preserveResourcesOnDeletion")
    told = [note for note in plane.notes if note.reason == "DependencyPolicyConflict"][-1]
    assert (told.key.resource, told.key.name, told.warning) == ("resourcebindings", "app-configmap", True)
    assert told.message == (
        "Dependency policy conflict detected: ConflictResolution conflicted (Overwrite vs Abort); "
        "PreserveResourcesOnDeletion conflicted (true vs false)."
    )
    count = len(plane.notes)
    for name in ("web", "api"):
        policy = follows(name, conflictResolution="Overwrite", preserveResourcesOnDeletion=True)
        policy["metadata"]["generation"] = 2
        plane.policy(policy)
    plane.settle()
    assert plane.asked(APP).contradictions == ()
    assert plane.spec(APP)["conflictResolution"] == "Overwrite"
    assert "DependencyPolicyConflict" not in [note.reason for note in plane.notes[count + 1 :]]


def test_without_owners_it_stays_and_asks_for_nothing() -> None:
    plane = settled(
        owner(), cm(), policies=(follows(conflictResolution="Overwrite", preserveResourcesOnDeletion=True),)
    )
    before = plane.asked(APP)
    plane.remove(owner())
    plane.settle()
    left = plane.asked(APP)
    assert left.attached
    assert left.generation == before.generation + 1
    assert set(plane.spec(APP)) == {"resource", "conflictResolution"}
    assert plane.spec(APP)["conflictResolution"] == "Abort"
    assert plane.state.dependencies.required.owners(APP) == ()


def test_it_ends_with_its_object() -> None:
    plane = settled(owner(), cm())
    plane.remove(cm())
    plane.settle()
    assert isinstance(plane.state.binding_facts[APP], BindingReleased)
    plane.put(cm(uid="again"))
    plane.settle()
    assert plane.asked(APP).uid == "again"
    assert plane.asked(APP).attached


def test_a_replaced_object_ends_and_begins_again() -> None:
    plane = settled(owner(), cm())
    plane.put(cm(uid="again"))
    names = [type(fact).__name__ for fact in plane.settle()]
    assert names == ["TemplateDeleted", "BindingReleased", "TemplateChanged", "BindingRequested"]


def test_switching_off_detaches() -> None:
    plane = settled(owner(), cm())
    plane.policy(follows(propagateDeps=False))
    changed = follows(propagateDeps=False)
    changed["metadata"]["generation"] = 2
    plane.policy(changed)
    plane.settle()
    assert (plane.asked().requires, plane.asked().dependencies) == ((), msgspec.UNSET)
    assert set(plane.spec(APP)) == {"resource", "conflictResolution"}


def test_a_deleted_policy_leaves_dependencies_where_they_are() -> None:
    plane = settled(owner(), cm())
    plane.policy(follows(), gone=True)
    plane.settle()
    assert plane.asked().policy is None
    assert plane.asked().requires == (APP,)
    assert plane.spec(APP)["preserveResourcesOnDeletion"] is False


# -- dependencies that policies claim, too


CLAIMING = follows("config", "ConfigMap", "v1", of="app", propagateDeps=False, conflictResolution="Overwrite")


def test_a_claimed_dependency_keeps_its_own_policy() -> None:
    plane = settled(owner(), cm(), policies=(follows(preserveResourcesOnDeletion=True), CLAIMING))
    binding = plane.asked(APP)
    assert not binding.attached
    assert binding.policy is not None
    assert plane.spec(APP)["conflictResolution"] == "Overwrite"
    assert "preserveResourcesOnDeletion" not in plane.spec(APP)
    assert list(plane.state.dependencies.required.owners(APP)) == [WEB]


def test_a_policy_may_claim_what_is_attached() -> None:
    plane = settled(owner(), cm())
    created = plane.asked(APP).created_at
    plane.policy(CLAIMING)
    plane.settle()
    binding = plane.asked(APP)
    assert (binding.attached, binding.generation, binding.created_at) == (False, 2, created)
    plane.policy(CLAIMING, gone=True)
    plane.settle()
    left = plane.asked(APP)
    assert (left.attached, left.policy) == (False, None)
    assert "placement" in plane.spec(APP)


def test_a_lazy_policy_leaves_it_attached_until_edited() -> None:
    plane = settled(owner(), cm())
    plane.policy(follows("config", "ConfigMap", "v1", of="app", propagateDeps=False, activationPreference="Lazy"))
    plane.settle()
    assert plane.asked(APP).attached
    plane.remove(owner())
    plane.settle()
    assert "preserveResourcesOnDeletion" not in plane.spec(APP)
    plane.put({**plane.state.templates[APP], "data": {"a": "2"}})
    plane.settle()
    assert not plane.asked(APP).attached


def test_a_lazy_owner_follows_its_selectors_nevertheless() -> None:
    plane = settled(IMPORT, policies=({**IMPORTS, "spec": {**IMPORTS["spec"], "activationPreference": "Lazy"}},))
    plane.put(slice_of("a"))
    plane.settle()
    assert key(slice_of("a")) in plane.asked(key(IMPORT)).requires


def test_an_object_claimed_by_another_controller_is_attached() -> None:
    service = obj("Service", "derived-web", labels={const.TEMPLATE_CLAIMED_BY_LABEL: "MultiClusterService"})
    plane = settled(IMPORT, service, policies=(IMPORTS,))
    assert plane.asked(key(service)).attached


# -- label selectors


def test_selectors_pick_objects_as_they_come_and_go() -> None:
    a, b = slice_of("a"), slice_of("b")
    plane = settled(IMPORT, a, policies=(IMPORTS,))
    service = ObjectKey("", "services", "default", "derived-web")
    assert plane.asked(key(IMPORT)).requires == (service, key(a))
    plane.put(b, slice_of("c", **{"kubernetes.io/service-name": "other"}))
    plane.settle()
    assert plane.asked(key(IMPORT)).requires == (service, key(a), key(b))
    plane.relabel(a, **{"kubernetes.io/service-name": "other"})
    plane.settle()
    assert plane.asked(key(IMPORT)).requires == (service, key(b))
    assert "preserveResourcesOnDeletion" not in plane.spec(key(a))
    plane.remove(b)
    plane.settle()
    assert plane.asked(key(IMPORT)).requires == (service,)


def test_other_objects_of_the_kind_concern_no_owner() -> None:
    plane = settled(IMPORT, slice_of("a"), policies=(IMPORTS,))
    plane.put(
        slice_of("c", app="x"), obj("EndpointSlice", "d", api="discovery.k8s.io/v1", namespace="n", labels=IMPORTED)
    )
    assert key(IMPORT) not in plane.dirty
    plane.put({**slice_of("a"), "endpoints": []})
    assert key(IMPORT) not in plane.dirty


def test_a_selector_without_a_pair_is_followed_as_well() -> None:
    selector = {"matchExpressions": [{"key": "tier", "operator": "Exists"}]}
    answers = Answers("Deployment", {"apiVersion": "v1", "kind": "ConfigMap", "labelSelector": selector})
    plane = settled(owner(), interpreter=answers)
    plane.put(cm("one", labels={"tier": "x"}), cm("two"))
    plane.settle()
    assert plane.asked().requires == (config("one"),)


def test_a_name_goes_before_a_selector() -> None:
    answers = Answers(
        "Deployment", {"apiVersion": "v1", "kind": "ConfigMap", "name": "app", "labelSelector": {"matchLabels": {}}}
    )
    plane = settled(owner(), cm("other"), interpreter=answers)
    assert plane.asked().requires == (APP,)


# -- restarts and incomplete knowledge


def test_nothing_is_detached_before_it_is_listed() -> None:
    a = slice_of("a")
    before = settled(IMPORT, a, policies=(IMPORTS,))
    plane = DependencyPlane(IMPORTS, listed=False, served=False)
    plane.replayed(before.facts)
    kept = before.state.templates[key(IMPORT)]
    plane.put(kept)
    assert plane.settle() == []
    plane.discover({("", "ConfigMap"): Served("configmaps", True)})
    plane.discover()
    assert plane.settle() == []
    plane.list_kind("multicluster.x-k8s.io", "ServiceImport", kept)
    assert plane.settle() == []
    plane.list_kind("discovery.k8s.io", "EndpointSlice")
    plane.settle()
    assert key(a) not in plane.asked(key(IMPORT)).requires


def test_a_restart_with_everything_listed_appends_nothing() -> None:
    before = settled(owner(), cm(), IMPORT, slice_of("a"), policies=(follows(), IMPORTS))
    plane = DependencyPlane(follows(), IMPORTS, listed=False, served=False)
    plane.replayed(before.facts)
    plane.discover()
    for group, kind in KINDS:
        found = [
            item
            for item in before.state.templates.values()
            if (item["apiVersion"].rpartition("/")[0], item["kind"]) == (group, kind)
        ]
        plane.list_kind(group, kind, *found)
    plane.dirty.update(dict.fromkeys([*plane.state.templates, *plane.state.template_facts]))
    assert plane.settle() == []


def test_unknown_kinds_are_skipped_until_discovery_finds_them() -> None:
    answers = Answers("Deployment", {"apiVersion": "example.io/v1", "kind": "Widget", "name": "w"})
    plane = settled(owner(), interpreter=answers)
    assert plane.asked().requires == ()
    plane.discover({("example.io", "Widget"): Served("widgets", True)})
    plane.settle()
    assert plane.asked().requires == (ObjectKey("example.io", "widgets", "default", "w"),)
