"""What the words about a fact say of the difference to the fact before."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import Raw

from schemas.events.cluster import ClusterChanged
from schemas.events.policy import PolicyChanged
from schemas.events.template import TemplateChanged
from schemas.keys import ObjectKey, PolicyKey
from services._rules.history.changed_fields import changed_fields, field_words
from services._rules.history.event_words import summarize

KEY = ObjectKey("apps", "deployments", "default", "web")


def raw(value: object) -> Raw:
    return Raw(msgspec.json.encode(value))


def container(image: str, **more: Any) -> dict[str, Any]:
    return {"spec": {"template": {"spec": {"containers": [{"name": "side"}, {"name": "web", "image": image, **more}]}}}}


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ({"spec": {"replicas": 2}}, {"spec": {"replicas": 5}}, "spec.replicas 2 -> 5"),
        ({"spec": {"paused": True}}, {"spec": {}}, "spec.paused gone"),
        ({"spec": {}}, {"spec": {"paused": False}}, "spec.paused false"),
        (container("a:1"), container("a:2"), "spec.template.spec.containers[web].image a:1 -> a:2"),
        ({"a": [1, 2]}, {"a": [1, 3]}, "a[1] 2 -> 3"),
        ({"a": [1]}, {"a": [1, 2]}, "a"),
        ({"a": "x" * 100}, {"a": "y" * 100}, "a"),
        ({"status": {"a": 1}}, {"status": {"a": 2}}, ""),
        ({"data": {"a.b": "1"}}, {"data": {"a.b": "2"}}, "data[a.b]"),
        (
            {"metadata": {"labels": {"l": "1"}}, "spec": 1},
            {"metadata": {"labels": {"l": "2"}}, "spec": 2},
            "spec 1 -> 2, metadata.labels.l",
        ),
        ({"a": 1, "b": 1, "c": 1, "d": 1}, {"a": 2, "b": 2, "c": 2, "d": 2}, "a 1 -> 2, b 1 -> 2, c 1 -> 2, …"),
    ],
)
def test_fields_that_differ_are_named(before: Any, after: Any, words: str) -> None:
    assert field_words(before, after) == words


def test_texts_that_may_be_secret_are_not_shown() -> None:
    before, after = (container("a:1", env=[{"name": "PASSWORD", "value": value}]) for value in ("hush", "hash"))
    assert field_words(before, after) == "spec.template.spec.containers[web].env[PASSWORD].value"
    assert field_words({"data": {}}, {"data": {"password": "hush"}}) == "data.password"
    assert field_words({"a": "x"}, {"a": "y"}, texts=True) == "a x -> y"


def test_bytes_that_are_no_json_differ_in_nothing() -> None:
    assert changed_fields(b"{", b"}") == ""


def test_a_template_says_what_changed_in_it() -> None:
    old, new = (
        TemplateChanged(
            key=KEY,
            uid="u",
            api_version="apps/v1",
            kind="Deployment",
            digest=image,
            generation=generation,
            manifest=raw(container(image)),
        )
        for generation, image in ((1, "a:1"), (2, "a:2"))
    )
    assert summarize(new, old).startswith("changed: generation 1 -> 2: spec.template.spec.containers[web].image a:1")


def test_a_policy_says_what_changed_in_it() -> None:
    key = PolicyKey("PropagationPolicy", "default", "web")
    old = PolicyChanged(key=key, uid="u", generation=1, manifest=raw({"spec": {"priority": 1}}))
    new = PolicyChanged(key=key, uid="u", generation=2, manifest=raw({"spec": {"priority": 2}}))
    assert summarize(new, old).endswith("generation 2, spec.priority 1 -> 2")


def cluster(**parts: Any) -> ClusterChanged:
    ready = {"conditions": [{"type": "Ready", "status": "True", "reason": "ClusterReady"}, *parts.pop("more", ())]}
    manifest = {"metadata": {"labels": parts.pop("labels", {})}, "spec": parts.pop("spec", {}), "status": ready | parts}
    return ClusterChanged(name="m1", uid="c", manifest=raw(manifest))


@pytest.mark.parametrize(
    ("after", "words"),
    [
        (cluster(spec={"taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}]}), "taint a=b:NoSchedule"),
        (cluster(labels={"tier": "gold"}), "labels: tier gold"),
        (cluster(spec={"region": "west"}), "spec: region west"),
        (cluster(kubernetesVersion="v1.31"), "version v1.31"),
        (cluster(apiEnablements=[{}]), "its APIs changed"),
        (cluster(resourceSummary={"allocatable": {"cpu": "1"}}), "its capacity changed"),
        (cluster(more=[{"type": "Full", "status": "True", "reason": "Why"}]), "Full True (Why)"),
    ],
)
def test_a_cluster_says_what_changed_about_it(after: ClusterChanged, words: str) -> None:
    assert summarize(after, cluster()) == f"m1, Ready, {words}"
    assert summarize(after) == "m1, Ready"


def test_a_taint_that_is_taken_away_is_named() -> None:
    tainted = cluster(spec={"taints": [{"key": "a", "effect": "NoExecute"}]})
    assert summarize(cluster(), tainted) == "m1, Ready, taint a:NoExecute gone"
