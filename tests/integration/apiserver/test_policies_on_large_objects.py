"""Policies and match conditions on objects that are deep or wide: they decide by what they select, and others go on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from services.apiserver.admission.write_reviews import TURN
from services.apiserver.core.rule_budget import Budget
from tests.integration.apiserver.core_objects import until_answered
from tests.integration.apiserver.test_admission_policies import BINDINGS, POLICIES

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
BOXES = "/apis/lab.example.com/v1/namespaces/default/boxes"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
LABELLED = "!has(object.metadata.labels) || object.metadata.labels.all(k, k != 'forbidden')"
BUNDLED = (
    "object.spec.group != 'lab.example.com' || (has(object.metadata.annotations) && "
    "object.metadata.annotations.exists(k, k == 'lab.example.com/bundle') && "
    "!matches(object.metadata.annotations['lab.example.com/bundle'], 'v1.[0-4].[0-9]+'))"
)


def definition(plural: str, kind: str, schema: dict[str, Any], **notes: str) -> dict[str, Any]:
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    spec = {"group": "lab.example.com", "scope": "Namespaced", "names": {"plural": plural, "kind": kind}}
    metadata = {"name": f"{plural}.lab.example.com", "annotations": notes}
    return {"metadata": metadata, "spec": {**spec, "versions": [version]}}


def tree(depth: int, wide: int = 2) -> Any:
    return {f"f{number}": tree(depth - 1, wide) for number in range(wide)} if depth else 1


def described(depth: int, wide: int = 2) -> dict[str, Any]:
    """A schema with as many fields as a tree has."""
    if not depth:
        return {"type": "string", "description": "a leaf " * 8}
    return {"type": "object", "properties": {f"f{number}": described(depth - 1, wide) for number in range(wide)}}


def box(spec: Any, **labels: str) -> dict[str, Any]:
    return {
        "apiVersion": "lab.example.com/v1",
        "kind": "Box",
        "metadata": {"name": "b", "labels": labels},
        "spec": spec,
    }


async def in_force(client: Any, resources: str, *expressions: str, group: str = "lab.example.com") -> None:
    rule = {"operations": ["*"], "apiGroups": [group], "apiVersions": ["*"], "resources": [resources]}
    validations = [{"expression": expression} for expression in expressions]
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": validations}
    binding = {"policyName": "large", "validationActions": ["Deny"]}
    for path, given in ((POLICIES, spec), (BINDINGS, binding)):
        code, answer = await client("POST", path, {"metadata": {"name": "large"}, "spec": given})
        assert code == 201, answer


async def boxes_served(client: Any) -> None:
    code, answer = await client("POST", CRDS, definition("boxes", "Box", OPEN))
    assert code == 201, answer
    await until_answered(client, BOXES, 200)


@asynccontextmanager
async def a_neighbour(client: Any) -> AsyncIterator[list[int]]:
    """A client that asks for the version again and again and is answered each time."""
    codes: list[int] = []
    asked = asyncio.Event()

    async def ask() -> None:
        while True:
            codes.append((await client("GET", "/version"))[0])
            asked.set()

    task = asyncio.create_task(ask())
    await asked.wait()
    try:
        yield codes
        before = len(codes)
        while len(codes) == before:
            asked.clear()
            await asked.wait()
    finally:
        task.cancel()
    assert set(codes) == {200}


@pytest.mark.parametrize(("depth", "wide"), [(8, 2), (12, 2), (14, 2), (3, 24)])
async def test_large_objects_are_admitted_by_what_is_selected(client: Any, depth: int, wide: int) -> None:
    await boxes_served(client)
    await in_force(client, "boxes", LABELLED)
    async with a_neighbour(client):
        code, answer = await client("POST", BOXES, box(tree(depth, wide), a="b"))
        assert code == 201, answer
        code, answer = await client("POST", f"{BOXES}?dryRun=All", box(tree(depth, wide), forbidden="x"))
    assert (code, answer["reason"]) == (422, "Invalid")
    assert "failed expression" in answer["message"]


async def test_large_definitions_are_admitted(client: Any) -> None:
    await in_force(client, "customresourcedefinitions", BUNDLED, LABELLED, group="apiextensions.k8s.io")
    schema = {"type": "object", "properties": {"spec": described(9)}}
    notes = {"lab.example.com/bundle": "v1.5.0"}
    async with a_neighbour(client):
        code, answer = await client("POST", CRDS, definition("deeps", "Deep", schema, **notes))
        assert code == 201, answer
        notes = {"lab.example.com/bundle": "v1.2.0"}
        code, answer = await client("POST", CRDS, definition("others", "Other", schema, **notes))
    assert (code, answer["reason"]) == (422, "Invalid")


async def test_match_conditions_select_from_large_objects(client: Any) -> None:
    await boxes_served(client)
    rule = {"operations": ["*"], "apiGroups": ["lab.example.com"], "apiVersions": ["*"], "resources": ["boxes"]}
    condition = {"name": "labelled", "expression": f"!({LABELLED})"}
    hook = {
        "name": "hook.example.com",
        "rules": [rule],
        "matchConditions": [condition],
        "clientConfig": {"url": "https://127.0.0.1:1/none"},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    code, answer = await client("POST", WEBHOOKS, {"metadata": {"name": "hooks"}, "webhooks": [hook]})
    assert code == 201, answer
    async with a_neighbour(client):
        code, answer = await client("POST", BOXES, box(tree(12), a="b"))
        assert code == 201, answer
        code, answer = await client("POST", f"{BOXES}?dryRun=All", box(tree(12), forbidden="x"))
    assert code == 500
    assert "hook.example.com" in answer["message"]


async def test_others_get_their_turn_between_expressions(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted: turns of the loop between evaluations that together cost many times what one turn may."""
    await boxes_served(client)
    expression = "object.spec.l.all(x, x >= 0)"
    await in_force(client, "boxes", *[f"{expression} || object.metadata.name == 'n{number}'" for number in range(40)])
    turns = 0
    spent: dict[int, int] = {}
    evaluate = Budget.evaluate

    def counted(self: Budget, *given: Any) -> Any:
        before = self.spent
        result = evaluate(self, *given)
        spent[turns] = spent.get(turns, 0) + self.spent - before
        return result

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    monkeypatch.setattr(Budget, "evaluate", counted)
    task = asyncio.create_task(count())
    try:
        code, answer = await client("POST", BOXES, box({"l": [1] * 8_000}))
    finally:
        task.cancel()
    assert code == 201, answer
    one = 8_000 * 7
    assert sum(spent.values()) > 20 * TURN
    assert max(spent.values()) <= TURN + 2 * one
