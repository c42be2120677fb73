"""Definitions and objects made to hold up the server: others are answered meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from resource import RUSAGE_THREAD, getrusage
from typing import Any

from tests.integration.apiserver.core_objects import until_answered

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GEARS = "/apis/h.example.com/v1/gears"
LONGEST_WAIT = 0.5
"""Seconds that this thread, with the server's loop, may compute between a question and its answer.

What the kernel does for it meanwhile, such as to start a process beside a large one on a busy machine, does not count.
"""
NUMBERS = {"type": "array", "maxItems": 60, "items": {"type": "integer"}}


def definition(spec: dict[str, Any]) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"spec": {"type": "object", **spec}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "gears", "kind": "Gear"}
    spec = {"group": "h.example.com", "scope": "Cluster", "names": names, "versions": [version]}
    return {"metadata": {"name": "gears.h.example.com"}, "spec": spec}


def computed() -> float:
    """Seconds that this thread computed so far."""
    return getrusage(RUSAGE_THREAD).ru_utime


def rules(*texts: str) -> list[dict[str, str]]:
    return [{"rule": text} for text in texts]


@asynccontextmanager
async def a_neighbour(client: Any) -> AsyncIterator[None]:
    """A client that asks for the version all the time, and never waits for long."""
    waits: list[float] = []
    ended = asyncio.Event()

    async def ask() -> None:
        while not ended.is_set():
            begun = computed()
            assert (await client("GET", "/version"))[0] == 200
            waits.append(computed() - begun)

    task = asyncio.create_task(ask())
    yield
    ended.set()
    await task
    assert max(waits) < LONGEST_WAIT


async def served(client: Any, spec: dict[str, Any]) -> None:
    code, answer = await client("POST", CRDS, definition(spec))
    assert code == 201, answer
    await until_answered(client, GEARS, 200)


async def create(client: Any, **spec: Any) -> tuple[int, str]:
    code, answer = await client("POST", GEARS, {"metadata": {"name": "x"}, "spec": spec})
    return code, answer.get("message", "")


async def test_a_pattern_that_backtracks(client: Any) -> None:
    await served(client, {"properties": {"s": {"type": "string", "pattern": "^(a+)+$"}}})
    async with a_neighbour(client):
        assert (await create(client, s="a" * 100_000 + "!"))[0] == 422


async def test_patterns_without_a_bound_are_refused(client: Any) -> None:
    for pattern in ("(?=a)", "((a{1,1000}){1,1000}){1,1000}"):
        body = definition({"properties": {"s": {"type": "string", "pattern": pattern}}})
        code, status = await client("POST", CRDS, body)
        assert code == 422
        assert "must be a valid regular expression" in status["message"]


async def test_a_definition_of_many_rules(client: Any) -> None:
    many = rules(*(f"self.n > {number} || self.l.all(x, x > {number})" for number in range(200)))
    body = definition({"properties": {"n": {"type": "integer"}, "l": NUMBERS}, "x-kubernetes-validations": many})
    async with a_neighbour(client):
        assert (await client("POST", CRDS, body))[0] == 201


async def test_a_rule_that_loops(client: Any) -> None:
    loops = "self.l.all(x, self.l.all(y, self.l.all(z, x != y || y != z || true)))"
    await served(client, {"properties": {"l": NUMBERS}, "x-kubernetes-validations": rules(loops)})
    async with a_neighbour(client):
        code, text = await create(client, l=list(range(60)))
        assert code == 422
        assert "call cost exceeds limit for rule" in text
