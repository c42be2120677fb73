"""A webhook of users decides what is kept of a member's object, its status and its health; away, it is asked again."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web
from msgspec import Raw, UnsetType

from schemas.events.policy import PolicyChanged
from schemas.keys import PolicyKey
from services._kit.delivery.lane_parts import LaneSettings
from services._rules.interpreter import Operation
from services._rules.interpreter.configuration import WEBHOOKS
from tests.integration.interpreted.conftest import Ground
from tests.support.webhook_server import Request, WebhookServer, webhook_server
from tests.support.widgets import key_of, path_of, widget_work

W = key_of()


@pytest.fixture
def settings() -> LaneSettings:
    """A webhook that was away is asked again soon."""
    return LaneSettings(backoff=0.01, longest_backoff=0.05)


def answer(request: Request) -> dict[str, Any]:
    """Keep the size, tell the phase, judge by it."""
    if request["operation"] == Operation.RETAIN:
        size = request["observedObject"]["spec"]["size"]
        patch = [{"op": "replace", "path": "/spec/size", "value": size}]
        return {"patchType": "JSONPatch", "patch": b64encode(msgspec.json.encode(patch)).decode()}
    phase = request["object"].get("status", {}).get("phase", "")
    return {"rawStatus": {"phase": phase}} if request["operation"] == Operation.STATUS else {"healthy": phase == "Up"}


def use(ground: Ground, server: WebhookServer) -> None:
    manifest = Raw(msgspec.json.encode(server.configuration()))
    ground.take(PolicyChanged(key=PolicyKey(WEBHOOKS, "", "c"), uid="u", manifest=manifest))


def status(ground: Ground) -> Any:
    seen = ground.seen.get(W)
    return None if seen is None or isinstance(seen.status, UnsetType) else msgspec.json.decode(seen.status)


async def test_a_webhook_that_is_away_is_asked_again_until_it_answers(ground: Ground, tmp_path: Path) -> None:
    async with webhook_server(tmp_path / "hook") as server:
        server.answer = lambda request: web.Response(status=503)
        use(ground, server)
        ground.want(widget_work(size=1))
        await ground.reported(lambda: W in ground.seen)
        assert (ground.seen[W].applied, ground.seen[W].health) == (True, "Unknown")
        await server.until(lambda requests: len(requests) > 6)
        assert len(ground.reports) == 1, "the same trouble is told once"
        server.answer = answer
        await ground.reported(lambda: status(ground) == {"phase": ""})
        assert ground.seen[W].health == "Unhealthy"
        await ground.client.patch(path_of(W), {"spec": {"size": 5}})
        ground.want(widget_work(size=2, colour="blue"))
        await ground.reported(lambda: ground.seen[W].work_seq == 2)
        assert (await ground.widget())["spec"] == {"size": 5, "colour": "blue"}
