"""What is taken as it is written but has no effect is told to who writes it."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.keys import PolicyKey
from services.apiserver.crds import generate
from services.apiserver.crds.custom_kinds import custom_kinds
from services.detector.binding_request import DetectorOptions
from services.detector.claims.policy_decision import decide_policy
from services.detector.effects import Tell
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


def told(state: DetectorState) -> list[str]:
    """Reasons and messages of the Events that are to be written."""
    effects = decide_policy(state, KEY).effects
    return [f"{effect.note.reason}: {effect.note.message}" for effect in effects if isinstance(effect, Tell)]


@pytest.mark.parametrize(("asked", "gate"), [(True, True), (False, False), (None, False), ("yes", False)])
def test_policies_that_are_obeyed_have_no_event(asked: object, gate: bool) -> None:
    state = DetectorState(options=DetectorOptions(dependencies=gate))
    take_policy(state, KEY, policy(propagateDeps=asked))
    assert told(state) == []


def test_policy_event_is_sent_when_its_fields_change() -> None:
    state = DetectorState(options=DetectorOptions(dependencies=False))
    take_policy(state, KEY, policy(propagateDeps=True))
    (message,) = told(state)
    assert message.startswith("FieldNotActedOn: spec.propagateDeps is true, but feature gate PropagateDeps is off")
    (state.policy_facts[KEY],) = decide_policy(state, KEY).events
    assert told(state) == []
    take_policy(state, KEY, policy())
    assert told(state) == []


def test_no_kind_is_kept_without_effect() -> None:
    kinds = {kind.resource.kind: kind for item in generate.definitions(optional=False) for kind in custom_kinds(item)}
    assert {name for name, kind in kinds.items() if kind.warnings(policy(propagateDeps=True))} == set()
