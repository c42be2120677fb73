"""Overrides may say anything: what leaves no object, or another one, is a problem on the work and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.events.work import WorkRendered
from schemas.manifest import Manifest
from tests.support.facts import KEY, binding, cluster, override, placement, template
from tests.support.harness import RendererHarness


def rendered(*plaintext: Manifest) -> WorkRendered:
    """The work of a Deployment with one override."""
    rule = {"overriders": {"plaintext": list(plaintext)}}
    renderer = RendererHarness(cluster("m1"), template(), binding(1), placement(m1=1), override(rule))
    event = renderer.decided()
    assert isinstance(event, WorkRendered)
    return event


@pytest.mark.parametrize("value", ["text", ["a"], 5, True, None, {"a": 1}, {"a": None}, {"a": ["b"]}, {"a": "b"}, {}])
@pytest.mark.parametrize("path", ["/metadata/labels", "/metadata/annotations", "/metadata", "/spec", "/spec/template"])
def test_override_of_any_type_is_rendered_or_reported(path: str, value: Any) -> None:
    work = rendered({"path": path, "operator": "add", "value": value})
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
def test_override_cannot_change_the_identity(path: str, value: Any) -> None:
    work = rendered({"path": path, "operator": "replace", "value": value})
    assert "another object" in work.problem
    assert "OverridePolicy default/op" in work.problem
    assert not work.digest


@pytest.mark.parametrize("path", ["/metadata", "/metadata/name", "/metadata/namespace", "/apiVersion", "/kind"])
def test_override_cannot_remove_the_identity(path: str) -> None:
    work = rendered({"path": path, "operator": "remove"})
    assert "OverridePolicy default/op" in work.problem


def test_override_may_repeat_the_name() -> None:
    again = [{"path": "/metadata/name", "operator": "replace", "value": KEY.name}]
    assert not rendered(*again).problem


def test_override_nested_too_deeply_is_reported() -> None:
    deep: Any = {}
    for _ in range(700):
        deep = {"a": deep}
    items = [
        {"path": "/spec/deep", "operator": "add", "value": deep},
        {"path": "/spec/deep" + "/a" * 700 + "/b", "operator": "add", "value": deep},
    ]
    assert "nested too deeply" in rendered(*items).problem
