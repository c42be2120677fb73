"""Which kinds the lanes of a service have to ask about, what a change of that touches, and how failures are told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from schemas.events.policy import PolicyChanged, PolicyDeleted
from schemas.keys import PolicyKey
from services._kit.delivery.interpretation_levels import Interpretation
from services._kit.interpretation.interpreter_levels import Interpreters
from services._kit.interpretation.lua.process import WorkerUnavailable
from services._rules import constants as const
from services._rules.interpreter import InterpretError, InterpretLater, Operation
from services._rules.interpreter.configuration import CUSTOMIZATION, EVERY, WEBHOOKS, Configured

WIDGET, GADGET = ("example.io/v1", "Widget"), ("example.io/v1", "Gadget")
CONFIG_MAP, SECRET = ("v1", "ConfigMap"), ("v1", "Secret")
VALUE = "correct-horse-battery"


class Pool:
    """Answers every script with what the test wants."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.asked: list[str] = []

    async def evaluate(self, operation: str, script: str, arguments: Sequence[Any]) -> Any:
        self.asked.append(script)
        answer = self.answers[operation]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def close(self) -> None:
        """Nothing is open."""


def customization(target: tuple[str, str], name: str = "one", **scripts: str) -> PolicyChanged:
    spec = {
        "target": {"apiVersion": target[0], "kind": target[1]},
        "customizations": {member: {"luaScript": script} for member, script in scripts.items()},
    }
    manifest = {"metadata": {"name": name}, "spec": spec}
    return PolicyChanged(key=PolicyKey(CUSTOMIZATION, "", name), uid="u", manifest=Raw(msgspec.json.encode(manifest)))


@pytest.fixture
def pool() -> Pool:
    return Pool()


@pytest.fixture
def interpretation(pool: Pool) -> Interpretation:
    given: Any = pool
    return Interpretation(Interpreters(given))


def obj(target: tuple[str, str], **members: Any) -> dict[str, Any]:
    labels = {const.MANAGED_LABEL: const.LABEL_TRUE}
    metadata = {"name": "w", "namespace": "default", "labels": labels, "resourceVersion": "3"}
    return {"apiVersion": target[0], "kind": target[1], "metadata": metadata, **members}


def test_only_what_is_customized_is_asked_for(interpretation: Interpretation) -> None:
    assert not interpretation.offered(*WIDGET).anything
    interpretation.take(customization(WIDGET, retention="r", healthInterpretation="h"))
    offered = interpretation.offered(*WIDGET)
    assert (offered.retain, offered.status, offered.health) == (True, False, True)
    assert not interpretation.offered(*GADGET).anything


def test_change_touches_known_kinds_interpreted_otherwise(
    interpretation: Interpretation,
) -> None:
    assert interpretation.take(customization(WIDGET, retention="1")) == frozenset(), "nobody asked about it yet"
    before = [interpretation.offered(*kind) for kind in (WIDGET, GADGET, CONFIG_MAP)]
    assert interpretation.take(customization(WIDGET, retention="2")) == {WIDGET}
    assert interpretation.offered(*WIDGET) != before[0], "what was found in line has to be compared again"
    assert [interpretation.offered(*kind) for kind in (GADGET, CONFIG_MAP)] == before[1:]
    gone = PolicyDeleted(key=PolicyKey(CUSTOMIZATION, "", "one"), uid="u")
    assert interpretation.take(gone) == {WIDGET}
    assert not interpretation.offered(*WIDGET).anything
    assert interpretation.take(gone) == frozenset()


def test_change_of_all_kinds_skips_kinds_without_scripts(
    interpretation: Interpretation, monkeypatch: pytest.MonkeyPatch
) -> None:
    interpretation.take(customization(WIDGET, retention="1"))
    for kind in (WIDGET, CONFIG_MAP):
        interpretation.offered(*kind)
    monkeypatch.setattr(Configured, "take", lambda *_: frozenset((EVERY,)))
    event = PolicyChanged(key=PolicyKey(WEBHOOKS, "", "hooks"), uid="u", manifest=Raw(b"{}"))
    assert interpretation.take(event) == {WIDGET}


async def test_answers_become_a_reflection(interpretation: Interpretation, pool: Pool) -> None:
    interpretation.take(customization(WIDGET, statusReflection="s", healthInterpretation="h"))
    pool.answers = {Operation.STATUS: {"b": 1, "a": 2}, Operation.HEALTH: False}
    found = await interpretation.reflect(obj(WIDGET), interpretation.offered(*WIDGET), "m1")
    assert (bytes(found.status), found.health, found.problem) == (b'{"a":2,"b":1}', "Unhealthy", "")


@pytest.mark.parametrize(
    ("error", "passing"),
    [(InterpretError("line 3: oh"), False), (InterpretLater("oh"), True), (WorkerUnavailable("oh"), True)],
    ids=["wrong", "later", "no process"],
)
async def test_failures_name_the_cluster_and_are_transient_or_not(
    interpretation: Interpretation, pool: Pool, error: Exception, passing: bool
) -> None:
    scripts = {"retention": "r", "statusReflection": "s", "healthInterpretation": "h"}
    interpretation.take(customization(WIDGET, **scripts))
    pool.answers = {Operation.STATUS: error, Operation.HEALTH: error, "Retain": error}
    found = await interpretation.reflect(obj(WIDGET), interpretation.offered(*WIDGET), "m1")
    assert (found.health, found.unread, found.passing) == ("Unknown", True, passing)
    assert "InterpretStatus for example.io/v1 Widget in cluster m1" in found.problem
    with pytest.raises(InterpretError, match=r"Retain for example.io/v1 Widget in cluster m1: .*oh") as caught:
        await interpretation.retain(obj(WIDGET), obj(WIDGET), "m1")
    assert isinstance(caught.value, InterpretLater) is passing


async def test_a_status_that_is_none_is_a_failure(interpretation: Interpretation, pool: Pool) -> None:
    interpretation.take(customization(WIDGET, statusReflection="s"))
    pool.answers = {Operation.STATUS: [1, 2]}
    found = await interpretation.reflect(obj(WIDGET), interpretation.offered(*WIDGET), "m1")
    assert found.unread
    assert "a list, expected an object" in found.problem


async def test_script_on_a_secret_reflects_nothing_and_is_withheld(interpretation: Interpretation, pool: Pool) -> None:
    interpretation.take(customization(SECRET, statusReflection="s", healthInterpretation="h"))
    pool.answers = {Operation.STATUS: {"password": VALUE}, Operation.HEALTH: InterpretError(f"{VALUE} is weak")}
    found = await interpretation.reflect(obj(SECRET, data={}), interpretation.offered(*SECRET), "m1")
    assert pool.asked == ["h"]
    assert found.status is None
    assert found.health == "Unknown"
    assert VALUE not in found.problem


def test_a_secret_goes_to_no_webhook(interpretation: Interpretation) -> None:
    rule = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "kinds": ["*"]}
    hook = {
        "name": "all.example.io",
        "rules": [rule],
        "clientConfig": {"url": "https://127.0.0.1:9/"},
        "interpreterContextVersions": ["v1alpha1"],
    }
    raw = Raw(msgspec.json.encode({"metadata": {"name": "hooks"}, "webhooks": [hook]}))
    interpretation.take(PolicyChanged(key=PolicyKey(WEBHOOKS, "", "hooks"), uid="u", manifest=raw))
    assert interpretation.offered(*WIDGET).retain
    assert not interpretation.offered(*SECRET).anything
    assert interpretation.take(customization(SECRET, retention="r")) == {SECRET}
    assert interpretation.offered(*SECRET).retain
