"""Overrides may say anything: what leaves no object, or another one, is a problem on the work and nothing else."""

from typing import Any

import msgspec
import pytest
from msgspec import Raw

from schemas.codec import Known, subject_of
from schemas.events.policy import PolicyChanged
from schemas.events.work import WorkRendered
from schemas.keys import PolicyKey
from services.override_renderer.decide import AtHand, decide
from services.override_renderer.state import RendererState, fold
from tests.support.facts import KEY, binding, cluster, placement, template


def rendered(overriders: dict[str, Any]) -> WorkRendered:
    """The work of a Deployment with one override."""
    content = {
        "kind": "OverridePolicy",
        "metadata": {"name": "op", "namespace": "default"},
        "spec": {"overrideRules": [{"overriders": overriders}]},
    }
    key = PolicyKey("OverridePolicy", "default", "op")
    facts: tuple[Known, ...] = (
        cluster("m1"),
        template(),
        binding(1),
        placement(m1=1),
        PolicyChanged(key=key, uid="o", manifest=Raw(msgspec.json.encode(content))),
    )
    state = RendererState()
    for seq, fact in enumerate(facts, 1):
        fold(state, seq, subject_of(fact), fact)
    (event,) = decide(state, KEY, AtHand()).events
    assert isinstance(event, WorkRendered)
    return event


@pytest.mark.parametrize("value", ["text", ["a"], 5, True, None, {"a": 1}, {"a": None}, {"a": ["b"]}, {"a": "b"}, {}])
@pytest.mark.parametrize("path", ["/metadata/labels", "/metadata/annotations", "/metadata", "/spec", "/spec/template"])
def test_whatever_stands_where_texts_are_due_is_rendered_or_told(path: str, value: Any) -> None:
    work = rendered({"plaintext": [{"path": path, "operator": "add", "value": value}]})
    assert bool(work.problem) != bool(work.digest)
    if path in ("/metadata/labels", "/metadata/annotations"):
        sound = value is None or (isinstance(value, dict) and all(isinstance(text, str) for text in value.values()))
        assert bool(work.problem) is not sound
        assert sound or path[1:].replace("/", ".") in work.problem


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("/metadata/name", "other"),
        ("/metadata/name", ""),
        ("/metadata/name", None),
        ("/metadata/namespace", "kube-system"),
        ("/metadata/namespace", None),
        ("/kind", "DaemonSet"),
        ("/apiVersion", "apps/v2"),
        ("/metadata", {}),
        ("/metadata", None),
    ],
)
def test_an_override_cannot_make_another_object(path: str, value: Any) -> None:
    work = rendered({"plaintext": [{"path": path, "operator": "replace", "value": value}]})
    assert "another object" in work.problem
    assert "OverridePolicy default/op" in work.problem
    assert not work.digest


@pytest.mark.parametrize("path", ["/metadata", "/metadata/name", "/metadata/namespace", "/apiVersion", "/kind"])
def test_an_override_cannot_take_away_what_an_object_is_known_by(path: str) -> None:
    work = rendered({"plaintext": [{"path": path, "operator": "remove"}]})
    assert "OverridePolicy default/op" in work.problem


def test_names_that_stay_may_be_written_again() -> None:
    again = [{"path": "/metadata/name", "operator": "replace", "value": KEY.name}]
    assert not rendered({"plaintext": again}).problem


def test_what_is_nested_too_deeply_is_told() -> None:
    deep: Any = {}
    for _ in range(700):
        deep = {"a": deep}
    items = [
        {"path": "/spec/deep", "operator": "add", "value": deep},
        {"path": "/spec/deep" + "/a" * 700 + "/b", "operator": "add", "value": deep},
    ]
    assert "nested too deeply" in rendered({"plaintext": items}).problem
