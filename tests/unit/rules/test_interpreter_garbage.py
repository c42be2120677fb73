"""Whatever a field holds, an interpretation answers or refuses by name; nothing else escapes and no input changes."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from services._rules.delivery.semantic_equal import needs_update
from services._rules.interpreter import InterpretError, NativeInterpreter, Operation
from services._rules.interpreter.native.prune import prune

NATIVE = NativeInterpreter()
GARBAGE: list[Any] = [None, "text", 7, 1.5, True, [], {}, ["x"], [None], [7], {"a": 1}, {"a": None}, 2**70, ""]
POD: dict[str, Any] = {
    "containers": [
        {
            "name": "c",
            "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
            "resources": {"requests": {"cpu": "1"}},
            "volumeMounts": [{"name": "v", "mountPath": "/v"}],
        }
    ],
    "volumes": [{"name": "v", "projected": {"sources": [{"secret": {"name": "s"}}]}}],
    "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}},
}
METADATA = {
    "name": "x",
    "namespace": "n",
    "generation": 2,
    "labels": {"resourcetemplate.karmada.io/retain-replicas": "true"},
    "annotations": {"resourcetemplate.karmada.io/generation": "1"},
}
OBJECTS: list[dict[str, Any]] = [
    {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "spec": {"replicas": 1, "template": {"spec": POD}, "volumeClaimTemplates": [{"metadata": {"name": "v"}}]},
        "status": {"replicas": 1, "observedGeneration": 2, "conditions": [{"type": "X", "status": "True"}]},
    },
    {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "spec": {"replicas": 1},
        "status": {"replicas": 1, "observedGeneration": 2},
    },
    {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "spec": {"parallelism": 1, "selector": {"matchLabels": {"controller-uid": "u"}}, "template": {"spec": POD}},
        "status": {"startTime": "2026-01-01T00:00:00Z", "conditions": [{"type": "Complete", "status": "False"}]},
    },
    {"apiVersion": "v1", "kind": "Pod", "spec": POD, "status": {"phase": "Running", "containerStatuses": [{}]}},
    {
        "apiVersion": "v1",
        "kind": "Service",
        "spec": {"type": "LoadBalancer", "clusterIP": "10.0.0.1", "healthCheckNodePort": 30000},
        "status": {"loadBalancer": {"ingress": [{"ip": "10.0.0.1", "ports": [{"port": 80}]}]}},
    },
    {"apiVersion": "v1", "kind": "ServiceAccount", "secrets": [{"name": "x-token-a"}]},
    {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token", "data": {"a": "YQ=="}},
    {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "status": {"disruptedPods": {"p": "2026-01-01T00:00:00Z"}, "currentHealthy": 1},
    },
    {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "spec": {"tls": [{"secretName": "s"}]}},
]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, member in members:
        yield (*path, name)
        yield from places(member, (*path, name))


def spoiled(obj: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for path in places(obj):
        for garbage in GARBAGE:
            copied = copy.deepcopy(obj)
            at: Any = copied
            for name in path[:-1]:
                at = at[name]
            at[path[-1]] = copy.deepcopy(garbage)
            yield copied


def ask_everything(obj: dict[str, Any], sound: dict[str, Any]) -> int:
    item = {"clusterName": "m1", "status": obj.get("status")}
    refused = 0
    for ask in (
        lambda: NATIVE.interpret(Operation.REPLICA, obj),
        lambda: NATIVE.interpret(Operation.REVISE, obj, 3),
        lambda: NATIVE.interpret(Operation.RETAIN, obj, sound),
        lambda: NATIVE.interpret(Operation.RETAIN, sound, obj),
        lambda: NATIVE.interpret(Operation.AGGREGATE, obj, [item], "2026-01-01T00:00:00Z"),
        lambda: NATIVE.interpret(Operation.AGGREGATE, sound, [item], "2026-01-01T00:00:00Z"),
        lambda: NATIVE.interpret(Operation.DEPENDENCY, obj),
        lambda: NATIVE.interpret(Operation.STATUS, obj),
        lambda: NATIVE.interpret(Operation.HEALTH, obj),
        lambda: prune(obj),
        lambda: needs_update(obj, sound, sound),
        lambda: needs_update(sound, obj, obj),
    ):
        try:
            ask()
        except InterpretError:
            refused += 1
    return refused


@pytest.mark.parametrize("obj", OBJECTS, ids=lambda obj: str(obj["kind"]))
def test_garbage_is_refused_by_name(obj: dict[str, Any]) -> None:
    sound = {**obj, "metadata": METADATA}
    refused = 0
    for bad in spoiled(sound):
        before = copy.deepcopy(bad)
        refused += ask_everything(bad, sound)
        assert bad == before
    assert refused
