"""Scripts and webhooks sum statuses; one that fails holds up the objects of its own kind only, and says so there."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import json

from services._rules.interpreter.configuration import WEBHOOKS
from tests.integration.status.summing import (
    SUMS,
    Control,
    configured,
    control_plane,
    customization,
    definition,
    removed,
)
from tests.support.webhook_server import Request, webhook_server

ENDLESS = "function AggregateStatus() while true do pcall(function() while true do end end) end end"


@pytest.fixture
async def control(tmp_path: Path) -> AsyncIterator[Control]:
    definitions = [definition("Widget"), definition("Gadget"), definition("Plain", status=False)]
    definitions.append(definition("Strict", fields={"ready": {"type": "integer"}}))
    async with control_plane(tmp_path, *definitions) as made:
        yield made


async def test_a_script_sums_and_its_answer_is_written_once_per_change(control: Control) -> None:
    script = customization("Widget", SUMS)
    await control.say(script)
    await control.make("Widget", "w")
    await control.report("Widget", "w", m1=1, m2=2)
    async with control.aggregator():
        await control.shows("Widget", "w", ready=3, by="script")
        await control.report("Widget", "w", m2=4)
        await control.shows("Widget", "w", ready=5, by="script")
        # Another script: everything of the kind is summed again.
        await control.say(customization("Widget", SUMS.replace('"script"', '"another"')))
        await control.shows("Widget", "w", ready=5, by="another")
    before = list(control.written)
    async with control.aggregator():
        # After a restart nothing differs, so that nothing is written but what comes anew.
        await control.make("Widget", "v")
        await control.report("Widget", "v", m1=7, m2=0)
        await control.shows("Widget", "v", ready=7, by="another")
    assert set(control.written[len(before) :]) == {"v"}


async def test_what_nobody_interprets_any_more_is_left_as_it_is(control: Control) -> None:
    script, other = customization("Widget", SUMS), customization("Gadget", SUMS)
    await control.say(script, other)
    for kind in ("Widget", "Gadget"):
        await control.make(kind, kind.lower())
        await control.report(kind, kind.lower(), m1=1, m2=1)
    async with control.aggregator():
        await control.shows("Widget", "widget", ready=2, by="script")
        await control.say(removed(script))
        for kind in ("Widget", "Gadget"):
            await control.report(kind, kind.lower(), m1=5)
        await control.shows("Gadget", "gadget", ready=6, by="script")
        assert await control.status("Widget", "widget") == {"ready": 2, "by": "script"}
        assert await control.warnings("widget") == []
        await control.say(script)
        await control.shows("Widget", "widget", ready=6, by="script")


async def test_endless_script_keeps_the_last_status(control: Control) -> None:
    await control.say(customization("Widget", SUMS), customization("Gadget", SUMS))
    await control.make("Widget", "w")
    await control.report("Widget", "w", m1=1, m2=1)
    async with control.aggregator():
        await control.shows("Widget", "w", ready=2, by="script")
        await control.say(customization("Widget", ENDLESS))
        await control.report("Widget", "w", m1=5)
        for number in range(5):
            await control.make("Gadget", f"g{number}")
            await control.report("Gadget", f"g{number}", m1=number, m2=1)
        for number in range(5):
            await control.shows("Gadget", f"g{number}", ready=number + 1, by="script")
        await control.warned("w", "AggregateStatus: ", "processor time", "The status stays as it was")
        assert await control.status("Widget", "w") == {"ready": 2, "by": "script"}
        await control.say(customization("Widget", SUMS))
        await control.shows("Widget", "w", ready=6, by="script")


async def test_a_script_that_fails_for_one_object_says_so_there(control: Control) -> None:
    wrong = {
        "number": ("return 7", "AggregateStatus returned a number, expected a table"),
        "text": ("desired.status = 'fine' return desired", "status: is a text, expected an object"),
        "error": ("error('no such luck')", "no such luck"),
    }
    cases = "\n".join(f"if desired.metadata.name == '{name}' then {body} end" for name, (body, _) in wrong.items())
    await control.say(customization("Widget", SUMS.replace("local ready = 0", f"local ready = 0\n{cases}")))
    for name in (*wrong, "w"):
        await control.make("Widget", name)
        await control.report("Widget", name, m1=1, m2=1)
    async with control.aggregator():
        await control.shows("Widget", "w", ready=2, by="script")
        for name, (_, told) in wrong.items():
            await control.warned(name, told, "The status stays as it was; correct what interprets example.io/v1 Widget")
            assert await control.status("Widget", name) is None


async def test_a_kind_without_a_status_subresource_is_told(control: Control) -> None:
    await control.say(customization("Plain", SUMS))
    await control.make("Plain", "p")
    await control.report("Plain", "p", m1=1, m2=1)
    async with control.aggregator():
        await control.warned("p", "has no status subresource", "CustomResourceDefinition")


async def test_status_pruned_by_the_control_plane_is_written_once(control: Control) -> None:
    await control.say(customization("Strict", SUMS))
    await control.make("Strict", "s")
    await control.report("Strict", "s", m1=1, m2=2)
    async with control.aggregator():
        # The schema knows no `by`.
        await control.shows("Strict", "s", ready=3)
        await control.report("Strict", "s", m1=1, m2=2)
        await control.report("Strict", "s", m1=1)
        await control.make("Strict", "t")
        await control.report("Strict", "t", m1=3, m2=4)
        await control.shows("Strict", "t", ready=7)
        await control.report("Strict", "s", m2=7)
        await control.shows("Strict", "s", ready=8)
    assert control.written.count("s") == 2


async def test_a_webhook_sums_and_while_it_hangs_others_proceed(control: Control, tmp_path: Path) -> None:
    released = asyncio.Event()

    def add(request: Request) -> dict[str, Any]:
        ready = sum(item["status"]["ready"] for item in request["aggregatedStatus"])
        patch = [{"op": "add", "path": "/status", "value": {"ready": ready, "by": "webhook"}}]
        return {"patchType": "JSONPatch", "patch": b64encode(json.encode(patch)).decode()}

    async def hang(request: Request) -> dict[str, Any]:
        await released.wait()
        return add(request)

    async with webhook_server(tmp_path / "hook") as server:
        server.answer = hang
        await control.say(configured(WEBHOOKS, "c", server.configuration(timeoutSeconds=30)))
        await control.say(customization("Gadget", SUMS))
        for number in range(20):
            await control.make("Widget", f"w{number}")
            await control.report("Widget", f"w{number}", m1=number, m2=1)
        await control.make("Gadget", "g")
        async with control.aggregator():
            await server.until(lambda requests: len(requests) > 1)
            await control.report("Gadget", "g", m1=3, m2=4)
            await control.shows("Gadget", "g", ready=7, by="script")
            assert await control.status("Widget", "w0") is None
            released.set()
            for number in range(20):
                await control.shows("Widget", f"w{number}", ready=number + 1, by="webhook")
            # A refusal is told, and asked about again without a change.
            server.answer = lambda request: {"successful": False, "status": {"code": 7, "message": "closed"}}
            await control.report("Widget", "w3", m1=10)
            await control.warned("w3", "webhook c/w.example.io: AggregateStatus was not successful: closed (code 7)")
            assert await control.status("Widget", "w3") == {"ready": 4, "by": "webhook"}
            server.answer = add
            await control.shows("Widget", "w3", ready=11, by="webhook")
