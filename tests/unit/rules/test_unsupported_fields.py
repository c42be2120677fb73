"""What is taken as it is written but has no effect yet is told to who writes it."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.keys import PolicyKey
from services._rules.policies.unsupported import KINDS, unsupported_fields
from services.apiserver.crds import generate
from services.apiserver.crds.custom_kinds import custom_kinds
from services.detector.decide import Tell, decide_policy
from services.detector.state import DetectorState, take_policy

KEY = PolicyKey("PropagationPolicy", "default", "web")


def policy(**spec: Any) -> dict[str, Any]:
    selectors = [{"apiVersion": "apps/v1", "kind": "Deployment"}]
    return {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"name": "web", "namespace": "default", "uid": "p1", "generation": 1},
        "spec": {"resourceSelectors": selectors, "placement": {}, **spec},
    }


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        ({}, []),
        ({"propagateDeps": False, "preemption": "Never"}, []),
        ({"propagateDeps": True}, ["spec.propagateDeps"]),
        ({"preemption": "Always"}, ["spec.preemption"]),
        ({"propagateDeps": True, "preemption": "Always"}, ["spec.propagateDeps", "spec.preemption"]),
    ],
)
def test_fields_without_effect_are_named(spec: dict[str, Any], fields: list[str]) -> None:
    assert [text.split(" ")[0] for text in unsupported_fields("ClusterPropagationPolicy", policy(**spec))] == fields


@pytest.mark.parametrize("manifest", [{}, {"spec": None}, {"spec": "text"}, {"spec": {"propagateDeps": "yes"}}])
def test_manifests_of_any_shape_are_read(manifest: dict[str, Any]) -> None:
    assert unsupported_fields("PropagationPolicy", manifest) == []


def test_policy_event_is_sent_when_its_fields_change() -> None:
    state = DetectorState()
    take_policy(state, KEY, policy(propagateDeps=True))
    verdict = decide_policy(state, KEY)
    (tell,) = [effect for effect in verdict.effects if isinstance(effect, Tell)]
    assert (tell.note.reason, tell.note.warning, tell.note.key.resource) == (
        "FieldNotActedOn",
        True,
        "propagationpolicies",
    )
    assert "spec.propagateDeps" in tell.note.message
    (state.policy_facts[KEY],) = verdict.events
    assert not [effect for effect in decide_policy(state, KEY).effects if isinstance(effect, Tell)]
    take_policy(state, KEY, policy())
    assert not [effect for effect in decide_policy(state, KEY).effects if isinstance(effect, Tell)]


def test_api_server_warns_about_unsupported_fields() -> None:
    kinds = {kind.resource.kind: kind for item in generate.definitions(optional=False) for kind in custom_kinds(item)}
    said = kinds["PropagationPolicy"].warnings(policy(propagateDeps=True))
    assert [text.split(" ")[0] for text in said] == ["spec.propagateDeps"]
    assert kinds["PropagationPolicy"].warnings(policy()) == []
    assert kinds["FederatedHPA"].warnings({}) == ["FederatedHPA is kept, but not acted on yet: nothing is scaled by it"]
    assert {kind for kind in kinds if kinds[kind].warnings({})} == set(KINDS)
