"""What the objects of a policy need beside them is put on record, and bound where nothing else claims it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from schemas.events.binding import BindingRequested
from schemas.keys import ObjectKey
from schemas.manifest import Manifest
from services._rules import constants as const
from services._rules.interpreter import InterpretError, Operation
from services._rules.interpreter.configuration import CUSTOMIZATION
from services._rules.policies.skip_rules import compile_skip_rules
from services.detector import state as det
from services.detector.binding_request import DetectorOptions
from services.detector.dependencies.references import MOST
from services.detector.dependencies.required_objects import Served
from tests.support.dependency_plane import (
    APP,
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
from tests.support.interpreted import Interpretation

API = ObjectKey("apps", "deployments", "default", "api")


def references(plane: DependencyPlane, of: ObjectKey = WEB) -> Any:
    dependencies = plane.asked(of).dependencies
    assert isinstance(dependencies, msgspec.Raw)
    return msgspec.json.decode(dependencies)


# -- what is put on record of the owner


def test_an_owner_names_what_it_needs() -> None:
    plane = settled(owner(), cm())
    assert references(plane) == [{"apiVersion": "v1", "kind": "ConfigMap", "namespace": "default", "name": "app"}]
    assert plane.asked().requires == (APP,)
    assert plane.asked().generation == 1


def test_without_dependencies_the_list_is_null() -> None:
    plane = settled(owner(config=()))
    assert references(plane) is None
    assert plane.asked().requires == ()


def test_a_script_without_dependencies_gives_an_empty_list() -> None:
    widgets = follows("web", "Widget", "example.io/v1")
    plane = settled(obj("Widget", "web", api="example.io/v1"), policies=(widgets,), interpreter=Answers("Widget"))
    assert references(plane, key(obj("Widget", "web", api="example.io/v1"))) == []


@pytest.mark.parametrize("asked", [False, None])
def test_only_policies_that_say_so_let_dependencies_follow(asked: bool | None) -> None:
    plane = settled(owner(), cm(), policies=(follows(propagateDeps=asked),))
    assert plane.asked().requires == ()
    assert plane.binding(APP) is None


def test_the_gate_turns_dependencies_off() -> None:
    plane = settled(owner(), cm(), options=DetectorOptions(dependencies=False))
    assert plane.asked().requires == ()
    assert plane.binding(APP) is None


def test_cluster_scoped_objects_require_nothing() -> None:
    role = obj("ClusterRole", "web", api="rbac.authorization.k8s.io/v1")
    del role["metadata"]["namespace"]
    policy = follows("web", "ClusterRole", "rbac.authorization.k8s.io/v1")
    policy["kind"] = "ClusterPropagationPolicy"
    del policy["metadata"]["namespace"]
    answers = Answers("ClusterRole", {"apiVersion": "v1", "kind": "ConfigMap", "namespace": "default", "name": "app"})
    plane = settled(role, cm(), policies=(policy,), interpreter=answers)
    assert plane.spec(key(role))["propagateDeps"] is True
    assert plane.asked(key(role)).requires == ()
    assert plane.binding(APP) is None


def test_a_changed_pod_template_requires_other_objects() -> None:
    plane = settled(owner(), cm(), cm("next"))
    changed = owner(config=("next",))
    changed["metadata"] |= {"generation": 3, **_claim(plane)}
    plane.put(changed)
    plane.settle()
    assert plane.asked().requires == (config("next"),)
    assert plane.asked(config("next")).attached
    assert "preserveResourcesOnDeletion" not in plane.spec(APP)


def test_dependencies_alone_are_no_new_generation() -> None:
    answers = Answers("Deployment", {"apiVersion": "v1", "kind": "ConfigMap", "name": "app"})
    plane = settled(owner(), cm(), interpreter=answers)
    answers.references.append({"apiVersion": "v1", "kind": "ConfigMap", "name": "other"})
    plane.dirty[WEB] = None
    assert [type(fact) for fact in plane.settle()] == [BindingRequested]
    assert plane.asked().requires == (APP, config("other"))
    assert plane.asked().generation == 1


def _claim(plane: DependencyPlane, of: ObjectKey = WEB) -> Manifest:
    metadata = plane.state.templates[of]["metadata"]
    return {name: metadata[name] for name in ("labels", "annotations") if name in metadata}


# -- scripts and webhooks


def customization(script: str) -> Manifest:
    return {
        "apiVersion": "config.karmada.io/v1alpha1",
        "kind": CUSTOMIZATION,
        "metadata": {"name": "deployments", "uid": "r1", "generation": 1},
        "spec": {
            "target": {"apiVersion": "apps/v1", "kind": "Deployment"},
            "customizations": {"dependencyInterpretation": {"luaScript": script}},
        },
    }


def test_scripts_are_asked_and_replace_what_is_built_in() -> None:
    named = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "other"}]
    asking = Interpretation(lambda question: named if question.operation == Operation.DEPENDENCY else (1, None))
    plane = DependencyPlane(follows(), asking=asking)
    plane.put(owner(), cm("other"))
    plane.settle()
    assert plane.asked().requires == (APP,)
    script = customization("one")
    plane.policy(script)
    plane.settle()
    assert plane.asked().requires == (config("other"),)
    assert plane.asked(config("other")).attached
    plane.policy(script, gone=True)
    plane.settle()
    assert plane.asked().requires == (APP,)


def test_a_script_that_fails_leaves_what_stands() -> None:
    def fails(question: Any) -> Any:
        raise InterpretError("nil value")

    plane = DependencyPlane(follows(), asking=Interpretation(fails))
    plane.put(owner(), cm())
    plane.settle()
    plane.policy(customization("broken"))
    plane.settle()
    assert plane.asked().requires == (APP,)
    assert "nil value" in plane.notes[-1].message


def test_an_opted_out_namespace_may_be_required() -> None:
    space = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "team", "uid": "n1", "labels": {const.SKIP_AUTO_PROPAGATION_LABEL: "true"}},
    }
    answers = Answers("Deployment", {"apiVersion": "v1", "kind": "Namespace", "name": "team"})
    plane = DependencyPlane(follows(), interpreter=answers)
    plane.discover({("", "Namespace"): Served("namespaces", False)})
    found = ObjectKey("", "namespaces", "", "team")
    plane.dirty.update(dict.fromkeys(det.take_template(plane.state, found, space)))
    plane.put(owner())
    plane.settle()
    assert plane.asked().requires == (found,)
    binding = plane.asked(found)
    assert (binding.attached, binding.everywhere) == (True, False)


# -- bad input


@pytest.mark.parametrize(
    "reference",
    [
        {"kind": "ConfigMap", "name": "x"},
        {"apiVersion": "v1", "name": "x"},
        {"apiVersion": "v1", "kind": "ConfigMap"},
        {"apiVersion": "v1", "kind": "ConfigMap", "labelSelector": {"matchLabels": {"a b": "c"}}},
        {"apiVersion": "v1", "kind": "ConfigMap", "name": ["x"]},
        "text",
    ],
)
def test_wrong_references_fail_and_what_stands_stays(reference: Any) -> None:
    answers = Answers("Deployment", {"apiVersion": "v1", "kind": "ConfigMap", "name": "app"})
    plane = settled(owner(), cm(), interpreter=answers)
    answers.references.append(reference)
    plane.dirty[WEB] = None
    plane.settle()
    assert plane.asked().requires == (APP,)
    assert plane.reasons()[-1] == "GetDependenciesFailed"


def test_a_failing_interpreter_does_not_stop_the_owner() -> None:
    answers = Answers("Deployment")
    answers.references = InterpretError("the script ends with an error")
    plane = settled(owner(), interpreter=answers)
    assert plane.asked().policy is not None
    (note,) = plane.notes
    assert (note.reason, note.warning, note.key) == ("GetDependenciesFailed", True, WEB)
    assert "the script ends with an error" in note.message


def test_the_number_of_dependencies_is_bounded() -> None:
    many = [{"apiVersion": "v1", "kind": "ConfigMap", "name": f"c{number}"} for number in range(MOST + 1)]
    plane = settled(owner(), interpreter=Answers("Deployment", *many))
    assert plane.asked().requires == ()
    assert plane.reasons() == ["GetDependenciesFailed"]


def test_a_selector_that_picks_too_many_fails() -> None:
    answers = Answers("Deployment", {"apiVersion": "v1", "kind": "ConfigMap", "labelSelector": {}})
    plane = DependencyPlane(follows(), interpreter=answers)
    plane.put(*(cm(f"c{number}") for number in range(MOST + 1)), owner())
    plane.settle()
    assert plane.asked().requires == ()
    assert "SyncScheduleResultToDependenciesFailed" in plane.reasons()


def test_reserved_namespaces_and_skipped_kinds_are_left_alone() -> None:
    answers = Answers(
        "Deployment",
        {"apiVersion": "v1", "kind": "ConfigMap", "namespace": "karmada-system", "name": "a"},
        {"apiVersion": "v1", "kind": "ConfigMap", "namespace": "kube-system", "name": "b"},
        {"apiVersion": "v1", "kind": "Service", "name": "c"},
        {"apiVersion": "v1", "kind": "ConfigMap", "namespace": "other", "name": "d"},
    )
    plane = settled(owner(), interpreter=answers, skip=compile_skip_rules("v1/Service"))
    assert plane.asked().requires == (config("d", "other"),)


def test_circles_are_harmless() -> None:
    selector = {"matchLabels": {"app": "x"}}
    answers = Answers("Deployment", {"apiVersion": "apps/v1", "kind": "Deployment", "labelSelector": selector})
    web, api = owner(), owner("api")
    for manifest in (web, api):
        manifest["metadata"]["labels"] = {"app": "x"}
    plane = settled(web, api, policies=(follows(of="*"),), interpreter=answers)
    assert plane.asked().requires == (API,)
    assert plane.asked(API).requires == (WEB,)
    assert not plane.asked(API).attached


# -- Kubernetes Events


def test_events_are_told_once_for_each_change() -> None:
    plane = settled(owner(), cm())
    assert plane.reasons() == ["GetDependenciesSucceed", "SyncScheduleResultToDependenciesSucceed"]
    on_template, on_binding = plane.notes
    assert (on_template.key, on_template.message) == (WEB, "The object's dependencies: ConfigMap app")
    assert (on_binding.key.resource, on_binding.key.name) == ("resourcebindings", "web-deployment")
    assert on_binding.component == "dependencies-distributor"
    plane.dirty.update({WEB: None, APP: None})
    assert plane.settle() == []
    assert len(plane.notes) == 2


# -- costs


def test_a_shared_object_costs_no_more_than_its_own_facts() -> None:
    plane = DependencyPlane(follows("all", of="*"))
    owners = [owner(f"web-{number}") for number in range(2000)]
    plane.put(cm(), *owners)
    plane.settle()
    counted = plane.count()
    assert counted[APP] == 2
    assert {counted[key(manifest)] for manifest in owners} == {2}
    assert len(plane.state.dependencies.required.owners(APP)) == 2000
    decided = 0
    for manifest in owners[:-1]:
        plane.remove(manifest)
        decided += APP in plane.dirty
        plane.settle()
    assert (decided, plane.count()[APP]) == (0, 2)
    plane.remove(owners[-1])
    plane.settle()
    assert plane.count()[APP] == 3
