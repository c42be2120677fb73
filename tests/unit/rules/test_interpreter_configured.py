"""What users configured for interpretation, as it is folded from the log."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from schemas.events.policy import PolicyChanged, PolicyDeleted
from schemas.keys import PolicyKey
from services._rules.interpreter import Operation
from services._rules.interpreter.configuration import CUSTOMIZATION, EVERY, FILTERS, WEBHOOKS, Configured, concerns

WIDGET = ("example.io/v1", "Widget")
GADGET = ("example.io/v1", "Gadget")


def changed(kind: str, name: str, **members: Any) -> PolicyChanged:
    manifest = {"metadata": {"name": name}, **members}
    return PolicyChanged(key=PolicyKey(kind, "", name), uid="u", manifest=Raw(msgspec.json.encode(manifest)))


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
