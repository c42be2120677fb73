"""Levels of interpretation: the first that offers an operation for a kind answers, and its error is final."""

from typing import Any

import pytest

from services._rules.interpreter import InterpretError, NativeInterpreter, interpret_chain

DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "prod"},
    "spec": {"replicas": 2, "template": {"spec": {"containers": [], "nodeSelector": {"a": "b"}}}},
}


class OnlyReplicas(NativeInterpreter):
    """A level that offers replicas of Deployments and nothing else."""

    def __init__(self, problem: InterpretError | None = None) -> None:
        self.problem = problem

    def hook_enabled(self, api_version: str, kind: str, operation: str) -> bool:
        return (kind, operation) == ("Deployment", "InterpretReplica")

    def get_replicas(self, obj: dict[str, Any], *, quota: bool = False) -> tuple[int, dict[str, Any] | None]:
        if self.problem is not None:
            raise self.problem
        return 42, {}


def test_the_first_level_that_offers_the_operation_answers() -> None:
    chain = interpret_chain([OnlyReplicas(), NativeInterpreter()])
    assert chain.get_replicas(DEPLOYMENT) == (42, {})
    assert chain.revise_replica(DEPLOYMENT, 5)["spec"]["replicas"] == 5


def test_an_error_does_not_fall_through() -> None:
    chain = interpret_chain([OnlyReplicas(InterpretError("broken")), NativeInterpreter()])
    with pytest.raises(InterpretError, match="broken"):
        chain.get_replicas(DEPLOYMENT)


def test_quota_estimation_fills_in_the_namespace() -> None:
    chain = interpret_chain([NativeInterpreter()])
    assert chain.get_replicas(DEPLOYMENT, quota=True)[1] == {
        "nodeClaim": {"nodeSelector": {"a": "b"}},
        "namespace": "prod",
    }


def test_an_operation_that_no_level_offers_is_named() -> None:
    chain = interpret_chain([OnlyReplicas(), NativeInterpreter()])
    assert not chain.hook_enabled("v1", "ConfigMap", "Retain")
    with pytest.raises(InterpretError, match="Retain for v1 ConfigMap"):
        chain.retain({"apiVersion": "v1", "kind": "ConfigMap"}, {})


def test_references_of_any_level_are_validated() -> None:
    class Selecting(OnlyReplicas):
        def hook_enabled(self, api_version: str, kind: str, operation: str) -> bool:
            return operation == "InterpretDependency"

        def get_dependencies(self, obj: dict[str, Any]) -> list[dict[str, Any]]:
            return [{"apiVersion": "v1", "kind": "Secret", "labelSelector": obj["selector"]}]

    chain = interpret_chain([Selecting()])
    valid = {"selector": {"matchLabels": {"a": "b"}}}
    assert chain.get_dependencies(valid)[0]["labelSelector"] == valid["selector"]
    with pytest.raises(InterpretError, match="labelSelector"):
        chain.get_dependencies({"selector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}})
