"""A configuration of a shape that no control plane lets in says nothing, and harms no other."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import Raw

from schemas.events.policy import PolicyChanged
from schemas.keys import PolicyKey
from services._rules.interpreter import Operation
from services._rules.interpreter.configuration import KINDS, Configured

TARGET = {"apiVersion": "example.io/v1", "kind": "Widget"}
GOOD = {"metadata": {"name": "good"}, "spec": {"target": TARGET, "customizations": {"retention": {"luaScript": "x"}}}}


def fact(kind: str, name: str, manifest: Any) -> PolicyChanged:
    return PolicyChanged(key=PolicyKey(kind, "", name), uid="u", manifest=Raw(msgspec.json.encode(manifest)))


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
