"""Why no policy has taken up an object is said in one sentence, with what to change."""

from __future__ import annotations

from typing import Any

import pytest

from services._rules.policies.selection_diagnosis import why_unclaimed

WEB: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "shop", "labels": {"tier": "front"}},
}


def policy(name: str = "p", namespace: str = "shop", spec: dict[str, Any] | None = None, **selector: Any) -> Any:
    kind = "PropagationPolicy" if namespace else "ClusterPropagationPolicy"
    selectors = [{"apiVersion": "apps/v1", "kind": "Deployment", **selector}]
    return {
        "kind": kind,
        "metadata": {"name": name, **({"namespace": namespace} if namespace else {})},
        "spec": {"resourceSelectors": selectors, **(spec or {})},
    }


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (policy(apiVersion="v1"), "PropagationPolicy shop/p would select it, but its selector has apiVersion v1"),
        (policy(kind="deployment"), "has kind deployment, and the object Deployment"),
        (policy(namespace="other"), "it is for objects of namespace other, and this is in shop"),
        (policy(namespace=""), "selects it and has not taken it up yet"),
        (policy(labelSelector={"matchLabels": {"tier": "back"}}), "the object lacks the labels of its selector"),
        (policy(spec={"dependentOverrides": ["o1", "o2"]}), "OverridePolicy o1, o2 do not exist"),
        (policy(namespace="", spec={"dependentOverrides": ["wide"]}), "ClusterOverridePolicy wide does not exist"),
        (policy(spec={"activationPreference": "Lazy"}), "takes effect when the object itself changes"),
        (policy(spec={"dependentOverrides": ["there"]}), "has not taken it up yet"),
        (policy(kind="StatefulSet"), "no policy selects it"),
        (policy(kind="StatefulSet", apiVersion="v1"), "no policy selects it"),
    ],
)
def test_one_policy_is_explained(found: Any, words: str) -> None:
    (text,) = why_unclaimed(WEB, [found], {("OverridePolicy", "shop", "there")})
    assert words in text


def named(**selector: Any) -> Any:
    found = policy()
    found["spec"]["resourceSelectors"][0] |= selector
    return found


def test_selectors_of_other_names_are_no_near_misses() -> None:
    (text,) = why_unclaimed(WEB, [named(name="database")], ())
    assert text.startswith("no policy selects it")
    (text,) = why_unclaimed(WEB, [named(name="Web")], ())
    assert "has name Web, and the object web" in text
    (text,) = why_unclaimed(WEB, [named(name="web", kind="Deploymnt")], ())
    assert "has kind Deploymnt, and the object Deployment" in text


def test_near_misses_are_bounded() -> None:
    found = why_unclaimed(WEB, [policy(f"p{number}", apiVersion="v1") for number in range(10)], ())
    assert len(found) == 4
    assert found[-1] == "and 7 more policies miss it by as little"


def test_objects_of_the_system_are_never_propagated() -> None:
    obj = {**WEB, "metadata": {"name": "web", "namespace": "kube-system"}}
    (text,) = why_unclaimed(obj, [policy(namespace="")], ())
    assert "is never propagated" in text


@pytest.mark.parametrize("spec", [None, {}, {"resourceSelectors": None}, {"resourceSelectors": [{}]}])
def test_policies_of_any_shape_are_read(spec: Any) -> None:
    found = {"kind": "PropagationPolicy", "metadata": {"name": "p", "namespace": "shop"}, "spec": spec}
    (text,) = why_unclaimed(WEB, [found], ())
    assert text.startswith("no policy selects it")
