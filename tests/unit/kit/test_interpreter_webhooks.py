"""Webhooks are called over https with connections that are kept, and none of them holds up another's objects."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from schemas.events.policy import PolicyChanged, PolicyDeleted
from schemas.keys import PolicyKey
from services._kit.interpretation.interpreter_levels import Interpreters
from services._kit.interpretation.webhook_client import AT_ONCE, LARGEST, WebhookLevel
from services._kit.kube.client import ApiError, KubeClient, Unreachable, encode
from services._rules.interpreter import InterpretLater, Operation
from services._rules.interpreter.configuration import WEBHOOKS
from tests.support.webhook_server import Request, WebhookServer, webhook_server

PATIENCE = 60.0


def obj(name: str = "w", kind: str = "Widget", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "example.io/v1", "kind": kind, "metadata": {"name": name, "namespace": "ns"}, "spec": spec}


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[WebhookServer]:
    async with webhook_server(tmp_path) as made:
        yield made


@pytest.fixture
async def level() -> AsyncIterator[WebhookLevel]:
    made = WebhookLevel()
    yield made
    await made.close()


def using(level: WebhookLevel, *configurations: dict[str, Any]) -> None:
    level.replace({manifest["metadata"]["name"]: manifest for manifest in configurations})


async def healthy(level: WebhookLevel, **fields: Any) -> Any:
    async with asyncio.timeout(PATIENCE):
        return await level.call(Operation.HEALTH, (obj(**fields),))


async def wrong(level: WebhookLevel, **fields: Any) -> str:
    with pytest.raises(InterpretLater) as caught:
        await healthy(level, **fields)
    assert str(caught.value).startswith("webhook c/w.example.io: ")
    return str(caught.value)


async def test_a_webhook_answers_over_a_connection_that_is_kept(server: WebhookServer, level: WebhookLevel) -> None:
    using(level, server.configuration())
    server.answer = lambda request: {"healthy": request["object"]["spec"]["good"]}
    assert [await healthy(level, good=good) for good in (True, False, True)] == [True, False, True]
    assert len({request["uid"] for request in server.requests}) == 3
    assert len(server.connections) == 1
    # A change elsewhere in the configurations closes no connection.
    using(level, server.configuration(timeoutSeconds=5), server.configuration("d", ["Gadget"]))
    assert await healthy(level, good=True) is True
    assert len(server.connections) == 1


async def test_a_hanging_webhook_holds_up_only_its_own_objects(tmp_path: Path, level: WebhookLevel) -> None:
    released = asyncio.Event()

    async def hang(request: Request) -> dict[str, Any]:
        await released.wait()
        return {"healthy": True}

    async with webhook_server(tmp_path / "a") as hanging, webhook_server(tmp_path / "b") as quick:
        hanging.answer, quick.answer = hang, lambda request: {"healthy": True}
        using(level, hanging.configuration("h", ["Gadget"], timeoutSeconds=30), quick.configuration())
        many = [asyncio.create_task(healthy(level, name=f"g{n}", kind="Gadget")) for n in range(AT_ONCE + 4)]
        await hanging.until(lambda requests: len(requests) == AT_ONCE)
        assert [await healthy(level, name=f"w{n}") for n in range(20)] == [True] * 20
        assert not any(task.done() for task in many)
        assert len(hanging.requests) == AT_ONCE
        released.set()
        assert await asyncio.gather(*many) == [True] * len(many)


async def test_a_webhook_that_does_not_answer_in_time_is_named(server: WebhookServer, level: WebhookLevel) -> None:
    forever = asyncio.Event()

    async def hang(request: Request) -> dict[str, Any]:
        await forever.wait()
        return {}

    server.answer = hang
    using(level, server.configuration(timeoutSeconds=1))
    assert "no answer within 1 s (timeoutSeconds)" in await wrong(level)


async def test_a_connection_that_ends_in_the_middle_is_tried_once_more(
    server: WebhookServer, level: WebhookLevel
) -> None:
    using(level, server.configuration())
    left = 1

    def cut(request: Request) -> dict[str, Any]:
        nonlocal left
        if left:
            left -= 1
            for transport in server.connections:
                transport.abort()  # type: ignore[attr-defined]
        return {"healthy": True}

    server.answer = cut
    assert await healthy(level) is True
    assert len(server.requests) == 2
    left = 100
    assert "cannot be called" in await wrong(level)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (lambda request: web.Response(text="<html>"), "the answer is no ResourceInterpreterContext"),
        (lambda request: web.Response(status=500, text="broken"), "answered HTTP 500: broken"),
        (lambda request: web.Response(status=307, headers={"Location": "https://127.0.0.1:1/"}), "answered HTTP 307"),
        (lambda request: web.Response(body=b" " * (LARGEST + 1)), f"more than {LARGEST}"),
        (lambda request: web.Response(body=b"\x1f\x8b", headers={"Content-Encoding": "gzip"}), "its gzip stream ends"),
    ],
    ids=["garbage", "failure", "redirect", "huge", "packed"],
)
async def test_an_answer_that_is_none_is_an_error_of_the_webhook(
    server: WebhookServer, level: WebhookLevel, answer: Any, told: str
) -> None:
    using(level, server.configuration())
    server.answer = answer
    assert told in await wrong(level)
    # And the next call finds it mended.
    server.answer = lambda request: {"healthy": True}
    assert await healthy(level) is True


async def test_large_objects_are_sent(server: WebhookServer, level: WebhookLevel) -> None:
    using(level, server.configuration())
    server.answer = lambda request: {"healthy": len(request["object"]["spec"]["data"]) == 3 << 20}
    assert await healthy(level, data="x" * (3 << 20)) is True


async def test_only_a_certificate_of_the_bundle_is_trusted(
    tmp_path: Path, server: WebhookServer, level: WebhookLevel
) -> None:
    async with webhook_server(tmp_path / "other") as other:
        client = {"url": server.url, "caBundle": other.ca_bundle}
        using(level, server.configuration(clientConfig=client))
        told = await wrong(level)
        assert f"the certificate of 127.0.0.1:{server.port} is not trusted: " in told
        assert "(clientConfig.caBundle)" in told
        using(level, server.configuration(clientConfig={"url": server.url}))
        assert "is not trusted" in await wrong(level)
        using(level, server.configuration(clientConfig={"url": server.url, "caBundle": "bm9uZQ=="}))
        assert "clientConfig.caBundle: holds no PEM certificates" in await wrong(level)
    async with webhook_server(tmp_path / "named", "elsewhere.example.io") as named:
        using(level, named.configuration())
        assert "is not trusted: " in await wrong(level)
    assert server.requests == []


async def test_nobody_listening_is_told(level: WebhookLevel, tmp_path: Path) -> None:
    async with webhook_server(tmp_path) as gone:
        using(level, gone.configuration())
    assert f"cannot be called: no connection to 127.0.0.1:{gone.port}: " in await wrong(level)
    using(level, gone.configuration(clientConfig={"url": "https://h:99999/"}))
    assert "clientConfig.url: https://h:99999/ is no URL" in await wrong(level)


class Control(KubeClient):
    """A control plane with one Service, or trouble instead of it."""

    def __init__(self, found: dict[str, Any] | Exception) -> None:
        super().__init__("http://127.0.0.1:1", ssl_context=None, headers={})
        self.found = found
        self.paths: list[str] = []

    async def get(self, path: str, **kwargs: Any) -> dict[str, Any]:
        self.paths.append(path)
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


def service(port: int, **spec: Any) -> dict[str, Any]:
    return {"spec": {"type": "ClusterIP", "clusterIP": "127.0.0.1", "ports": [{"port": port}], **spec}}


def behind(server: WebhookServer, **fields: Any) -> dict[str, Any]:
    place = {"namespace": "ns", "name": "svc", "path": "/a", "port": server.port, **fields}
    return server.configuration(clientConfig={"service": place, "caBundle": server.ca_bundle})


@pytest.mark.parametrize(
    "spec", [{}, {"type": "ExternalName", "clusterIP": "", "externalName": "localhost", "ports": []}]
)
async def test_a_service_is_found_in_the_control_plane(
    tmp_path: Path, level: WebhookLevel, spec: dict[str, Any]
) -> None:
    async with webhook_server(tmp_path, "svc.ns.svc") as server:
        server.answer = lambda request: {"healthy": True}
        control = Control(service(server.port, **spec))
        level.reach_services(control)
        using(level, behind(server))
        assert [await healthy(level) for _ in range(3)] == [True] * 3
        # Looked up for the connection, not for each call.
        assert control.paths == ["/api/v1/namespaces/ns/services/svc"]


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (service(1), "is not among the ports of the Service"),
        (service(0, clusterIP="None"), "the Service is headless"),
        (service(0, clusterIP=""), "the Service is headless"),
        (ApiError(404, "NotFound", "gone"), "clientConfig.service: svc.ns.svc has no address here"),
        (ApiError(403, "Forbidden", "not you"), "clientConfig.service: cannot be looked up: not you"),
        (Unreachable("silence"), "clientConfig.service: cannot be looked up: silence"),
        (None, "clientConfig.service: svc.ns.svc has no address here"),
    ],
)
async def test_a_service_that_cannot_be_called_is_told(
    server: WebhookServer, level: WebhookLevel, found: dict[str, Any] | Exception | None, told: str
) -> None:
    if isinstance(found, dict) and found["spec"]["ports"] == [{"port": 0}]:
        found["spec"]["ports"] = [{"port": server.port}]
    if found is not None:
        level.reach_services(Control(found))
    using(level, behind(server))
    assert told in await wrong(level)
    assert server.requests == []


async def test_a_webhook_that_is_replaced_finishes_its_calls(tmp_path: Path, level: WebhookLevel) -> None:
    released = asyncio.Event()

    async def hang(request: Request) -> dict[str, Any]:
        await released.wait()
        return {"healthy": False}

    async with webhook_server(tmp_path / "a") as old, webhook_server(tmp_path / "b") as new:
        old.answer, new.answer = hang, lambda request: {"healthy": True}
        using(level, old.configuration(timeoutSeconds=30))
        call = asyncio.create_task(healthy(level))
        await old.until(lambda requests: len(requests) == 1)
        using(level, new.configuration())
        assert await healthy(level) is True
        released.set()
        assert await call is False


async def test_calls_that_wait_fail_when_the_level_closes(server: WebhookServer) -> None:
    level = WebhookLevel()
    forever = asyncio.Event()

    async def hang(request: Request) -> dict[str, Any]:
        await forever.wait()
        return {}

    server.answer = hang
    using(level, server.configuration())
    calls = [asyncio.create_task(healthy(level)) for _ in range(AT_ONCE + 1)]
    await server.until(lambda requests: len(requests) == AT_ONCE)
    await level.close()
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(answer) for answer in answers] == [InterpretLater] * len(calls)
    assert all("cannot be called" in str(answer) for answer in answers)
    assert len(server.requests) == AT_ONCE


def fact(manifest: dict[str, Any], name: str = "c") -> PolicyChanged:
    return PolicyChanged(key=PolicyKey(WEBHOOKS, "", name), uid="u", manifest=encode(manifest))  # type: ignore[arg-type]


async def test_webhooks_come_into_force_and_go_with_facts(server: WebhookServer) -> None:
    interpreters = Interpreters()
    try:
        assert not interpreters.customized("example.io/v1", "Widget", Operation.REPLICA)
        assert interpreters.take(fact(server.configuration()))
        assert interpreters.customized("example.io/v1", "Widget", Operation.REPLICA)
        server.answer = lambda request: {"replicas": 4, "replicaRequirements": {"resourceRequest": {"cpu": "1"}}}
        assert await interpreters.interpret(Operation.REPLICA, obj()) == (4, {"resourceRequest": {"cpu": "1"}})
        assert interpreters.take(PolicyDeleted(key=PolicyKey(WEBHOOKS, "", "c"), uid="u"))
        assert not interpreters.customized("example.io/v1", "Widget", Operation.REPLICA)
    finally:
        await interpreters.close()
