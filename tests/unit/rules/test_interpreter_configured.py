"""What users configured for interpretation, as it is folded from the log; malformed configurations harm no other."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import Raw

from schemas.events.policy import PolicyChanged, PolicyDeleted
from schemas.keys import PolicyKey
from services._rules.interpreter import Operation
from services._rules.interpreter.configuration import (
    CUSTOMIZATION,
    EVERY,
    FILTERS,
    KINDS,
    WEBHOOKS,
    Configured,
    concerns,
)

WIDGET = ("example.io/v1", "Widget")
GADGET = ("example.io/v1", "Gadget")


def fact(kind: str, name: str, manifest: Any) -> PolicyChanged:
    return PolicyChanged(key=PolicyKey(kind, "", name), uid="u", manifest=Raw(msgspec.json.encode(manifest)))


def changed(kind: str, name: str, **members: Any) -> PolicyChanged:
    return fact(kind, name, {"metadata": {"name": name}, **members})


def custom(name: str, target: tuple[str, str], script: str) -> PolicyChanged:
    rules = {"replicaResource": {"luaScript": script}}
    spec = {"target": {"apiVersion": target[0], "kind": target[1]}, "customizations": rules}
    return changed(CUSTOMIZATION, name, spec=spec)


def test_first_customization_of_a_target_by_name_is_used() -> None:
    configured = Configured()
    assert configured.take(custom("b", WIDGET, "b")) == {WIDGET}
    assert configured.take(custom("a", WIDGET, "a")) == {WIDGET}
    assert configured.customizations.scripts(*WIDGET, Operation.REPLICA) == ("a",)
    assert configured.take(PolicyDeleted(key=PolicyKey(CUSTOMIZATION, "", "a"), uid="u")) == {WIDGET}
    assert configured.customizations.scripts(*WIDGET, Operation.REPLICA) == ("b",)


def test_another_target_touches_the_old_and_the_new_kind() -> None:
    configured = Configured()
    configured.take(custom("a", WIDGET, "a"))
    assert configured.take(custom("a", GADGET, "a")) == {WIDGET, GADGET}


def test_saying_the_same_again_touches_nothing() -> None:
    configured = Configured()
    configured.take(custom("a", WIDGET, "a"))
    revision = configured.revision
    assert configured.take(custom("a", WIDGET, "a")) == frozenset()
    assert configured.revision == revision


def test_a_webhook_configuration_touches_every_kind() -> None:
    configured = Configured()
    touched = configured.take(changed(WEBHOOKS, "hooks", webhooks=[{"name": "one"}]))
    assert touched == {EVERY}
    assert concerns(touched, *GADGET)
    assert list(configured.webhooks) == ["hooks"]
    assert not configured.take(changed(WEBHOOKS, "hooks", webhooks=[{"name": "one"}]))


def test_other_policies_and_empty_targets_are_ignored() -> None:
    configured = Configured()
    assert configured.take(changed("PropagationPolicy", "p", spec={})) == frozenset()
    assert configured.take(changed(CUSTOMIZATION, "empty", spec={"target": {}})) == frozenset()
    assert not concerns(frozenset({WIDGET}), *GADGET)


def test_interpreter_configurations_have_own_subjects() -> None:
    assert FILTERS == (
        "policy.ResourceInterpreterCustomization.>",
        "policy.ResourceInterpreterWebhookConfiguration.>",
    )


TARGET = {"apiVersion": "example.io/v1", "kind": "Widget"}
GOOD = {"metadata": {"name": "good"}, "spec": {"target": TARGET, "customizations": {"retention": {"luaScript": "x"}}}}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "manifest",
    [
        None,
        [],
        "x",
        3,
        {},
        {"metadata": "x"},
        {"spec": "x"},
        {"spec": [1]},
        {"spec": {"target": "x"}},
        {"spec": {"target": {"apiVersion": 1, "kind": []}}},
        {"spec": {"target": TARGET, "customizations": "x"}},
        {"spec": {"target": TARGET, "customizations": {"retention": "x"}}},
        {"spec": {"target": TARGET, "customizations": {"retention": {"luaScript": 3}}}},
        {"spec": {"target": TARGET, "customizations": {"retention": {"luaScript": None}, "statusReflection": None}}},
    ],
)
def test_malformed_configuration_does_not_affect_others(kind: str, manifest: Any) -> None:
    configured = Configured()
    configured.take(fact(kind, "before", manifest))
    configured.take(fact(KINDS[0], "good", GOOD))
    configured.take(fact(kind, "later", manifest))
    configured.take(fact(kind, "before", {}))
    assert configured.customizations.scripts("example.io/v1", "Widget", Operation.RETAIN) == ("x",)


def test_customization_that_becomes_malformed_ends() -> None:
    configured = Configured()
    configured.take(fact(KINDS[0], "good", GOOD))
    assert configured.take(fact(KINDS[0], "good", {"spec": "x"})) == {("example.io/v1", "Widget")}
    assert not configured.customizations.hook_enabled("example.io/v1", "Widget", Operation.RETAIN)
