"""Definitions and objects made to hold up the server: others are answered meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from services.apiserver.crds import rule_checks, rules
from tests.integration.apiserver.core_objects import until_answered

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GEARS = "/apis/h.example.com/v1/gears"
NUMBERS = {"type": "array", "maxItems": 60, "items": {"type": "integer"}}


def definition(spec: dict[str, Any]) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"spec": {"type": "object", **spec}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "gears", "kind": "Gear"}
    spec = {"group": "h.example.com", "scope": "Cluster", "names": names, "versions": [version]}
    return {"metadata": {"name": "gears.h.example.com"}, "spec": spec}


def rules_of(*texts: str) -> list[dict[str, str]]:
    return [{"rule": text} for text in texts]


async def beside(client: Any, request: asyncio.Task[Any]) -> int:
    """How many others are answered, one after the other, before this request."""
    answered = 0
    while not request.done():
        assert (await client("GET", "/version"))[0] == 200
        answered += 1
    return answered


async def served(client: Any, spec: dict[str, Any]) -> None:
    code, answer = await client("POST", CRDS, definition(spec))
    assert code == 201, answer
    await until_answered(client, GEARS, 200)


async def create(client: Any, **spec: Any) -> tuple[int, str]:
    code, answer = await client("POST", GEARS, {"metadata": {"name": "x"}, "spec": spec})
    return code, answer.get("message", "")


async def test_a_pattern_that_backtracks(client: Any) -> None:
    await served(client, {"properties": {"s": {"type": "string", "pattern": "^(a+)+$"}}})
    # Who tries all ways to divide these letters comes to no end.
    assert (await create(client, s="a" * 100_000 + "!"))[0] == 422


async def test_patterns_without_a_bound_are_refused(client: Any) -> None:
    for pattern in ("(?=a)", "((a{1,1000}){1,1000}){1,1000}"):
        body = definition({"properties": {"s": {"type": "string", "pattern": pattern}}})
        code, status = await client("POST", CRDS, body)
        assert code == 422
        assert "must be a valid regular expression" in status["message"]


async def test_a_definition_of_many_rules(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # Each rule is longer than a slice, whatever the machine.
    monkeypatch.setattr(rule_checks, "SLICE", -1.0)
    monkeypatch.setattr(rules, "SLICE", -1.0)
    rules.load()
    many = rules_of(*(f"self.n > {number} || self.l.all(x, x > {number})" for number in range(200)))
    body = definition({"properties": {"n": {"type": "integer"}, "l": NUMBERS}, "x-kubernetes-validations": many})
    request = asyncio.create_task(client("POST", CRDS, body))
    assert await beside(client, request) > 10
    assert (await request)[0] == 201
