"""What an object takes of a ResourceQuota, and the words of an API server for one that does not fit."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.manifest import Manifest
from services._rules.kubernetes.resource_quota import concerns, refusal, usage


def pod(cpu: str = "", memory: str = "", phase: str = "Running", **spec: Any) -> Manifest:
    requests = {name: amount for name, amount in (("cpu", cpu), ("memory", memory)) if amount}
    return {"spec": {"containers": [{"resources": {"requests": requests}}], **spec}, "status": {"phase": phase}}


def quota(*scopes: str, **hard: str) -> Manifest:
    limits = {name.replace("_", "."): amount for name, amount in hard.items()}
    return {"metadata": {"name": "team"}, "spec": {"hard": limits, "scopes": list(scopes)}}


def used(*pods: Manifest) -> list[Any]:
    return [usage("", "pods", one) for one in pods]


def test_quota_refusal_names_requested_used_and_limited() -> None:
    limit = quota(cpu="1", pods="9")
    wanted = usage("", "pods", pod("600m"))
    assert refusal(limit, wanted, used(pod("400m"))) == ""
    assert (
        refusal(limit, wanted, used(pod("500m")))
        == "exceeded quota: team, requested: cpu=600m, used: cpu=500m, limited: cpu=1"
    )


def test_every_amount_that_is_exceeded_is_named() -> None:
    limit = quota(requests_cpu="1", requests_memory="1Gi", pods="1")
    text = refusal(limit, usage("", "pods", pod("2", "2Gi")), used(pod("1", "1Gi")))
    assert text == (
        "exceeded quota: team, requested: pods=1,requests.cpu=2,requests.memory=2Gi, "
        "used: pods=1,requests.cpu=1,requests.memory=1Gi, limited: pods=1,requests.cpu=1,requests.memory=1Gi"
    )


def test_pod_must_specify_limited_resources() -> None:
    assert refusal(quota(cpu="1", memory="1Gi"), usage("", "pods", pod("1")), []) == (
        "failed quota: team: must specify memory"
    )


def test_finished_pod_uses_no_quota() -> None:
    limit = quota(cpu="1", pods="1")
    assert (
        refusal(limit, usage("", "pods", pod("1")), used(pod("1", phase="Succeeded"), pod("1", phase="Failed"))) == ""
    )


@pytest.mark.parametrize(
    ("group", "plural", "obj", "name", "amount"),
    [
        ("", "configmaps", {}, "configmaps", "1"),
        ("", "secrets", {}, "count/secrets", "1"),
        ("apps", "deployments", {}, "count/deployments.apps", "1"),
        ("", "services", {"spec": {"type": "LoadBalancer", "ports": [{}, {}]}}, "services.nodeports", "2"),
        ("", "services", {"spec": {"type": "LoadBalancer"}}, "services.loadbalancers", "1"),
        ("", "services", {"spec": {"type": "NodePort", "ports": [{}]}}, "services.nodeports", "1"),
        (
            "",
            "persistentvolumeclaims",
            {"spec": {"resources": {"requests": {"storage": "5Gi"}}}},
            "requests.storage",
            "5Gi",
        ),
    ],
)
def test_kinds_are_counted_by_their_names(group: str, plural: str, obj: Manifest, name: str, amount: str) -> None:
    assert str(usage(group, plural, obj)[name]) == amount


@pytest.mark.parametrize(
    ("scope", "limited"),
    [
        ("Terminating", pod("1", activeDeadlineSeconds=5)),
        ("NotTerminating", pod("1")),
        ("BestEffort", pod()),
        ("NotBestEffort", pod("1")),
    ],
)
def test_scopes_choose_pods(scope: str, limited: Manifest) -> None:
    others = [one for one in (pod("1", activeDeadlineSeconds=5), pod("1"), pod()) if one != limited]
    assert concerns(quota(scope, pods="1"), "pods", limited)
    assert not all(concerns(quota(scope, pods="1"), "pods", one) for one in others)
    assert not concerns(quota(scope, pods="1"), "configmaps", {})
