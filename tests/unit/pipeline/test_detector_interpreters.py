"""What users configure for interpretation: recorded, in force at once, and waited for at a start."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.events.policy import PolicyChanged, PolicyDeleted
from schemas.keys import PolicyKey
from services._rules.interpreter.configured import CUSTOMIZATION, WEBHOOKS, Configured
from services.detector import state as det
from services.detector.decide import decide_policy
from tests.support.facts import KEY, deployment
from tests.unit.pipeline.test_detector import World, kinds, policy

WIDGETS = PolicyKey(CUSTOMIZATION, "", "widgets")


def customization(
    script: str = "", name: str = "widgets", kind: str = "Deployment", member: str = "replicaResource"
) -> dict[str, Any]:
    api_version = "apps/v1" if kind == "Deployment" else "example.io/v1"
    return {
        "apiVersion": "config.karmada.io/v1alpha1",
        "kind": CUSTOMIZATION,
        "metadata": {"name": name, "uid": f"uid-{name}", "generation": 1, "resourceVersion": "7"},
        "spec": {
            "target": {"apiVersion": api_version, "kind": kind},
            "customizations": {member: {"luaScript": script}},
        },
    }


def started(*policies: dict[str, Any]) -> World:
    """A detector that has listed all but what interprets."""
    world = World(*policies)
    world.state.listed -= {CUSTOMIZATION, WEBHOOKS}
    configured = Configured()
    world.state.reinterpret = configured.take
    return world


def test_a_customization_is_recorded_without_what_servers_write() -> None:
    world = World()
    assert list(det.take_policy(world.state, WIDGETS, customization("x"))) == [WIDGETS]
    (event,) = decide_policy(world.state, WIDGETS).events
    assert isinstance(event, PolicyChanged)
    assert b'"luaScript":"x"' in bytes(event.manifest)
    assert b"resourceVersion" not in bytes(event.manifest)
    world.state.policy_facts[WIDGETS] = event
    assert not decide_policy(world.state, WIDGETS).events


def test_one_that_a_complete_list_lacks_is_gone() -> None:
    world = started()
    world.state.policy_facts[WIDGETS] = PolicyChanged(key=WIDGETS, uid="u", manifest=b"{}")  # type: ignore[arg-type]
    assert not decide_policy(world.state, WIDGETS).events, "nobody knows yet"
    det.take_absence(world.state, CUSTOMIZATION)
    assert not decide_policy(world.state, WIDGETS).events, "a list that failed proves nothing"
    assert WIDGETS in det.take_policy_list(world.state, CUSTOMIZATION, {})
    assert kinds(decide_policy(world.state, WIDGETS)) == ["PolicyDeleted"]


@pytest.mark.parametrize("last", [CUSTOMIZATION, WEBHOOKS])
def test_objects_wait_until_what_interprets_them_was_listed(last: str) -> None:
    world = started(policy())
    world.sees(deployment())
    first = WEBHOOKS if last == CUSTOMIZATION else CUSTOMIZATION
    det.take_policy_list(world.state, first, {})
    assert not world.decides().events
    assert KEY in det.take_policy_list(world.state, last, {})
    assert kinds(world.decides()) == ["TemplateChanged", "BindingRequested"]


def test_objects_do_not_wait_for_kinds_that_are_not_served() -> None:
    world = started(policy())
    world.sees(deployment())
    assert not det.take_absence(world.state, CUSTOMIZATION)
    assert KEY in det.take_absence(world.state, WEBHOOKS)
    assert kinds(world.decides()) == ["TemplateChanged", "BindingRequested"]
    assert not det.take_absence(world.state, CUSTOMIZATION), "nothing new"


def test_a_change_concerns_the_objects_of_its_kind() -> None:
    world = started(policy())
    world.sees(deployment())
    det.take_policy_list(world.state, CUSTOMIZATION, {})
    det.take_policy_list(world.state, WEBHOOKS, {})
    assert list(det.take_policy(world.state, WIDGETS, customization("x"))) == [WIDGETS, KEY]
    other = PolicyKey(CUSTOMIZATION, "", "other")
    assert list(det.take_policy(world.state, other, customization("x", "other", "Widget"))) == [other]
    relabelled = customization("x")
    relabelled["metadata"] = {**relabelled["metadata"], "labels": {"a": "b"}, "generation": 2}
    assert list(det.take_policy(world.state, WIDGETS, relabelled)) == [WIDGETS]
    assert list(det.take_policy(world.state, WIDGETS, None)) == [WIDGETS, KEY]


def test_until_they_are_listed_those_on_record_are_in_force_and_afterwards_the_listed_ones() -> None:
    world = started(policy())
    configured = Configured()
    world.state.reinterpret = configured.take
    world.sees(deployment())
    view = det.take_policy(World().state, WIDGETS, None)
    assert list(view) == [WIDGETS]
    scratch = World()
    det.take_policy(scratch.state, WIDGETS, customization("old"))
    (recorded,) = decide_policy(scratch.state, WIDGETS).events
    assert list(det.fold(world.state, 1, "policy", recorded)) == [KEY]
    assert configured.customizations.scripts("apps/v1", "Deployment", "InterpretReplica") == ("old",)
    assert KEY in det.take_policy_list(world.state, CUSTOMIZATION, {WIDGETS: customization("new")})
    assert configured.customizations.scripts("apps/v1", "Deployment", "InterpretReplica") == ("new",)
    assert not det.fold(world.state, 2, "policy", recorded), "an echo of the past changes nothing"
    assert configured.customizations.scripts("apps/v1", "Deployment", "InterpretReplica") == ("new",)
    det.take_policy_list(world.state, CUSTOMIZATION, {})
    assert not len(configured.customizations)
    assert isinstance(
        decide_policy(world.state, WIDGETS).events[0] if world.state.policy_facts else None, PolicyDeleted
    )
