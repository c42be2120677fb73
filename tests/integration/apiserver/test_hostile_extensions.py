"""Webhooks, extension servers and slow clients that mean harm: a neighbour is answered meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.integration.apiserver.test_admission_webhooks import Hooks
from tests.support.apiserver_process import ServerProcess

MAPS = "/api/v1/namespaces/default/configmaps"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
SLOW_CLIENTS = 300


@pytest.fixture
async def target(tmp_path: Path) -> AsyncIterator[ServerProcess]:
    found = ServerProcess(tmp_path, CONTROLLERS="1", ALLOW_LOCAL_EXTENSIONS="127.0.0.1")
    yield found
    assert await asyncio.to_thread(found.stop) == 0
    assert "Traceback" not in found.log()


@pytest.fixture
async def hooks(tmp_path: Path) -> AsyncIterator[Hooks]:
    made = Hooks(tmp_path / "hook")
    await made.start()
    yield made
    await made.runner.cleanup()


async def hooked(target: ServerProcess, hooks: Hooks, seconds: int = 30) -> None:
    """Have a webhook asked about every ConfigMap."""
    rule = {"operations": ["*"], "apiGroups": [""], "apiVersions": ["*"], "resources": ["configmaps"]}
    webhook = {
        "name": "w.example.com",
        "clientConfig": {"url": f"{hooks.url}/w", "caBundle": hooks.bundle},
        "rules": [rule],
        "sideEffects": "None",
        "timeoutSeconds": seconds,
        "admissionReviewVersions": ["v1"],
    }
    body = {"metadata": {"name": "w"}, "webhooks": [webhook]}
    code, answer = await asyncio.to_thread(target.send, "POST", WEBHOOKS, body)
    assert code == 201, answer


@pytest.mark.parametrize(
    ("reply", "codes"),
    [
        ({"patch": [{"op": "replace", "path": "/kind", "value": "Secret"}]}, {500}),
        ({"warnings": ["a\r\nSet-Cookie: b", "c" * 100_000]}, {201}),
        ({"allowed": False, "status": {"code": 99_999, "message": "m"}}, {403}),
        ({"allowed": False, "status": {"code": -1, "message": "m\r\nX: y"}}, {400, 403}),
        ({"patch": [{"op": "add", "path": "/data", "value": {"k": "v" * 2_000_000}}]}, {413, 422, 500}),
        ({"patch": [{"op": "copy", "from": "/metadata", "path": f"/metadata/l{n}"} for n in range(3000)]}, {422, 500}),
    ],
    ids=["kind", "warnings", "code", "negative", "large", "copies"],
)
async def test_answers_of_webhooks_hurt_nobody(
    target: ServerProcess, hooks: Hooks, reply: dict[str, Any], codes: set[int]
) -> None:
    hooks.replies["w"] = reply
    await hooked(target, hooks)
    body = {"metadata": {"name": "a"}}
    with target.neighbour():
        code, answer = await asyncio.to_thread(target.send, "POST", MAPS, body)
    assert code in codes, answer
    stored = (await asyncio.to_thread(target.send, "GET", f"{MAPS}/a"))[0]
    assert stored == (200 if code == 201 else 404)


async def test_webhooks_that_never_answer_hold_up_nobody(target: ServerProcess, hooks: Hooks) -> None:
    silence = asyncio.Event()
    asked = hooks.answer

    async def wait(request: web.Request) -> web.Response:
        await silence.wait()
        return await asked(request)

    app = web.Application()
    app.router.add_post("/{name}", wait)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=hooks.context).start()
    hooks.url = f"https://127.0.0.1:{runner.addresses[0][1]}"
    await hooked(target, hooks, seconds=1)
    with target.neighbour():
        names = (f"a{number}" for number in range(20))
        sent = [asyncio.to_thread(target.send, "POST", MAPS, {"metadata": {"name": name}}) for name in names]
        codes = {code for code, _ in await asyncio.gather(*sent)}
    assert codes == {500}
    await runner.cleanup()


async def test_clients_that_never_finish_hold_up_nobody(target: ServerProcess) -> None:
    head = b"POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer mallory\r\n"
    begun = (b"", head, head + b"Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{")
    async with contextlib.AsyncExitStack() as stack:
        with target.neighbour():
            for number in range(SLOW_CLIENTS):
                _, writer = await asyncio.open_connection("127.0.0.1", target.port)
                stack.callback(writer.close)
                writer.write(begun[number % len(begun)])
                await writer.drain()
            code, answer = await asyncio.to_thread(
                target.send, "POST", MAPS, {"metadata": {"name": "b"}}, user="neighbour"
            )
            assert code == 201, answer
