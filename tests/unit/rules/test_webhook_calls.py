"""A webhook is sent what its operation needs, and its answer counts only where it holds what it must."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest
from msgspec import json

from services._rules.interpreter import InterpretLater, Operation
from services._rules.interpreter.webhooks.webhook_calls import refused, request_body, result_of
from services._rules.interpreter.webhooks.webhook_index import ClientConfig, Webhook

HOOK = Webhook("c/w.example.io", ClientConfig(url="https://h.example.io"), (), 10.0, ("v1alpha1",))
WIDGET: dict[str, Any] = {
    "apiVersion": "example.io/v1",
    "kind": "Widget",
    "metadata": {"name": "w", "namespace": "ns"},
    "spec": {"replicas": 2},
}
OBSERVED = {**WIDGET, "spec": {"replicas": 5}}
ITEMS = [{"clusterName": "m1", "applied": True, "health": "Healthy", "status": {"ready": 1}, "appliedMessage": ""}]


def sent(operation: str, *arguments: Any) -> dict[str, Any]:
    context = json.decode(request_body(HOOK, "u", operation, arguments))
    assert context["apiVersion"] == "config.karmada.io/v1alpha1"
    assert context["kind"] == "ResourceInterpreterContext"
    request: dict[str, Any] = context["request"]
    return request


def answered(operation: str, *arguments: Any, context: dict[str, Any] | None = None, **response: Any) -> Any:
    told = {"response": {"uid": "u", "successful": True, **response}, **(context or {})}
    return result_of(HOOK, "u", operation, arguments or (WIDGET,), json.encode(told))


def patch(*operations: Any, patch_type: str = "JSONPatch") -> dict[str, str]:
    return {"patch": b64encode(json.encode(list(operations))).decode(), "patchType": patch_type}


def test_webhook_request_names_operation_and_object() -> None:
    assert sent(Operation.HEALTH, WIDGET) == {
        "uid": "u",
        "kind": {"group": "example.io", "version": "v1", "kind": "Widget"},
        "name": "w",
        "namespace": "ns",
        "operation": "InterpretHealth",
        "object": WIDGET,
        "replicas": 0,
    }
    core = sent(Operation.HEALTH, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})
    assert core["kind"] == {"group": "", "version": "v1", "kind": "Node"}
    assert "namespace" not in core


def test_each_operation_sends_its_own_arguments() -> None:
    assert sent(Operation.REVISE, WIDGET, 7)["replicas"] == 7
    retained = sent(Operation.RETAIN, WIDGET, OBSERVED)
    assert (retained["object"], retained["observedObject"]) == (WIDGET, OBSERVED)
    assert sent(Operation.AGGREGATE, WIDGET, ITEMS)["aggregatedStatus"] == [
        {"clusterName": "m1", "applied": True, "health": "Healthy", "status": {"ready": 1}}
    ]
    assert sent(Operation.AGGREGATE, WIDGET, None)["aggregatedStatus"] == []


def test_a_webhook_of_another_version_is_not_called() -> None:
    other = Webhook(HOOK.name, HOOK.client, (), 10.0, ("v2",))
    with pytest.raises(InterpretLater, match=r"c/w\.example\.io: interpreterContextVersions: must include v1alpha1"):
        request_body(other, "u", Operation.HEALTH, (WIDGET,))


def test_each_operation_takes_its_own_answer() -> None:
    assert answered(Operation.REPLICA, replicas=0) == {"replicas": 0, "requirements": None}
    needed = {"resourceRequest": {"cpu": "0.5"}}
    assert answered(Operation.REPLICA, replicas=3, replicaRequirements=needed) == {
        "replicas": 3,
        "requirements": {"resourceRequest": {"cpu": "500m"}},
    }
    assert answered(Operation.COMPONENT, components=[{"name": "a", "replicas": 2}]) == [{"name": "a", "replicas": 2}]
    assert answered(Operation.COMPONENT) is None
    reference = {"apiVersion": "v1", "kind": "Secret", "namespace": "ns", "name": "s"}
    assert answered(Operation.DEPENDENCY, dependencies=[reference, reference]) == [reference]
    assert answered(Operation.DEPENDENCY) == []
    assert answered(Operation.STATUS, rawStatus={"ready": 1}) == {"ready": 1}
    assert answered(Operation.HEALTH, healthy=False) is False


@pytest.mark.parametrize(
    ("operation", "arguments"),
    [
        (Operation.REVISE, (WIDGET, 7)),
        (Operation.RETAIN, (WIDGET, OBSERVED)),
        (Operation.AGGREGATE, (WIDGET, ITEMS)),
    ],
)
def test_a_patch_changes_the_object_and_none_leaves_it(operation: str, arguments: tuple[Any, ...]) -> None:
    change = patch({"op": "replace", "path": "/spec/replicas", "value": 9})
    assert answered(operation, *arguments, **change) == {**WIDGET, "spec": {"replicas": 9}}
    assert WIDGET["spec"] == {"replicas": 2}
    assert answered(operation, *arguments) == WIDGET
    assert answered(operation, *arguments, **patch()) == WIDGET


DOUBLING = [{"op": "copy", "from": "/spec", "path": f"/spec/{number}"} for number in range(64)]


@pytest.mark.parametrize(
    ("response", "told"),
    [
        ({"patch": "W10="}, "response.patchType: is missing, expected 'JSONPatch'"),
        ({"patchType": "JSONPatch"}, "response.patch: is required where response.patchType is set"),
        (patch(patch_type="MergePatch"), "response.patchType: is 'MergePatch', expected 'JSONPatch'"),
        ({"patch": "bm90IGpzb24=", "patchType": "JSONPatch"}, "response.patch: is no JSON Patch in base64"),
        (patch({"op": "replace", "path": "/spec/absent/deep", "value": 1}), "response.patch: cannot be applied"),
        (patch({"op": "spoil", "path": "/spec"}), "response.patch: cannot be applied"),
        (patch(5), "response.patch: cannot be applied"),
        (patch(*DOUBLING), "response.patch: cannot be applied"),
        (patch({"op": "remove", "path": "/kind"}), "response.patch: leaves an object without kind"),
        ({"patch": "%%", "patchType": "JSONPatch"}, "the answer is no ResourceInterpreterContext"),
    ],
)
def test_a_patch_that_is_none_is_an_error(response: dict[str, Any], told: str) -> None:
    with pytest.raises(InterpretLater) as caught:
        answered(Operation.REVISE, WIDGET, 3, **response)
    assert str(caught.value).startswith(f"webhook c/w.example.io: {told}")
    assert WIDGET["spec"] == {"replicas": 2}


@pytest.mark.parametrize(
    ("operation", "response", "told"),
    [
        (Operation.REPLICA, {}, "response.replicas: is required for InterpretReplica"),
        (Operation.STATUS, {}, "response.rawStatus: is required for InterpretStatus"),
        (Operation.HEALTH, {}, "response.healthy: is required for InterpretHealth"),
        (Operation.REPLICA, {"replicas": 2**31}, "the answer is no"),
        (Operation.REPLICA, {"replicas": 1.5}, "the answer is no"),
        (Operation.REPLICA, {"replicas": 1, "replicaRequirements": []}, "requirements: Expected `object`"),
        (Operation.HEALTH, {"healthy": "yes"}, "the answer is no"),
        (Operation.DEPENDENCY, {"dependencies": [{"kind": "Secret"}]}, "apiVersion"),
        (Operation.DEPENDENCY, {"dependencies": {}}, "dependencies"),
        (Operation.COMPONENT, {"components": [{"replicas": "many"}]}, "components"),
        (Operation.HEALTH, {"uid": "other"}, "response.uid: is not that of the request"),
        (Operation.HEALTH, {"uid": ""}, "response.uid: is missing"),
        (Operation.HEALTH, {"successful": False}, "response.status: is required where response.successful is false"),
        (
            Operation.HEALTH,
            {"successful": False, "status": {"code": 403, "message": "not today"}},
            "InterpretHealth was not successful: not today (code 403)",
        ),
    ],
)
def test_incomplete_webhook_response_is_an_error(operation: str, response: dict[str, Any], told: str) -> None:
    with pytest.raises(InterpretLater) as caught:
        answered(operation, **response)
    assert str(caught.value).startswith("webhook c/w.example.io: ")
    assert told in str(caught.value)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"null",
        b"[]",
        b"<html>",
        b'{"response":null}',
        b"\xff",
        b'{"response":' + b"[" * 100_000,
        b'{"kind":"Pod"}',
    ],
)
def test_an_answer_of_another_kind_is_an_error(answer: bytes) -> None:
    with pytest.raises(InterpretLater, match=r"webhook c/w\.example\.io: "):
        result_of(HOOK, "u", Operation.HEALTH, (WIDGET,), answer)


def test_webhook_refusal_is_shown_by_its_beginning() -> None:
    assert str(refused(HOOK, 503, b"no\n  upstream" + b"!" * 5000)).startswith(
        "webhook c/w.example.io: answered HTTP 503: no upstream!"
    )
    assert len(str(refused(HOOK, 503, b"\xff" * 5000))) < 500
