"""Readiness: what is wrong is named, and an outage counts once it has lasted."""

from __future__ import annotations

import time

import aiohttp
from prometheus_client import CollectorRegistry

from services._kit.base.health import Health, HealthServer
from services._kit.base.outage import Outage


def test_a_check_that_fails_is_a_reason_and_hides_no_other():
    health = Health()

    def fails() -> str:
        raise KeyError("m1")

    health.check("lanes", fails)
    health.check("log", lambda: "not connected")
    health.check("tasks", lambda: "")
    assert health.reasons() == {"lanes": "the check failed: KeyError: 'm1'", "log": "not connected"}


def test_checks_and_values_of_parts_stand_under_their_names():
    health, part = Health(), Health()
    health.include("executor-1", part)
    # Services add theirs later.
    part.check("lanes", lambda: "no member answers")
    part.fact("leader", lambda: True)
    health.fact("position", lambda: 7)
    assert health.document() == {
        "ready": False,
        "reasons": {"executor-1: lanes": "no member answers"},
        "position": 7,
        "executor-1": {"leader": True},
    }


async def test_one_check_is_answered_by_its_name() -> None:
    health = Health()
    health.check("hub", lambda: "cut off")
    health.check("entered", lambda: "")
    server = HealthServer(health, CollectorRegistry())
    await server.start()
    try:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as session:

            async def asked(path: str) -> tuple[int, str]:
                async with session.get(path) as answer:
                    return answer.status, await answer.text()

            assert await asked("/readyz/entered") == (200, "ok")
            assert await asked("/readyz/hub") == (503, "cut off")
            assert (await asked("/readyz/other"))[0] == 404
    finally:
        await server.stop()


def test_outage_counts_once_it_lasts_and_ends_with_an_answer(monkeypatch):
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    outage = Outage(after=5.0)
    outage.failed("HTTP 500")
    assert outage.trouble == ""
    now = 106.0
    outage.failed("no answer")
    assert outage.trouble == "no usable answer for 6 s: no answer"
    outage.over()
    assert outage.trouble == ""
    outage.failed("HTTP 500")
    assert outage.trouble == ""
