"""`fleetlog parked` shows what services set aside, and has them try again or leave it alone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from services._kit.base.settings import Settings
from services._kit.log.connection import Connection
from services._kit.runtime.service_wiring import serve
from services.cli.common.installation_options import LogAndControlOptions
from services.cli.common.logbook import LogAccess, streams
from services.cli.common.running import Failed
from services.cli.overview.parked_keys import drop, retry, show
from services.cli.overview.status_command import doctor, status
from tests.log.toy import Toy, key, wanted
from tests.natsserver import Server
from tests.support.waiting import eventually

BAD = str(key("bad"))


@pytest.fixture
async def service(connection: Connection, nats_server: Server) -> AsyncIterator[Toy]:
    """A service with one parked key."""
    toy, stop, settings = Toy(), asyncio.Event(), Settings(nats_url=nats_server.url, apply_topology=True)
    toy.broken = {"bad"}
    ready = asyncio.Event()
    task = asyncio.create_task(serve(toy, settings, stop, lambda _: ready.set()))
    await ready.wait()
    await streams(connection)["FACTS"].append([wanted("bad"), wanted("good")])

    async def recorded() -> bool:
        return (await streams(connection)["PARKED"].identity()).last_seq > 0

    await eventually(recorded)
    yield toy
    stop.set()
    with suppress(asyncio.CancelledError):
        await task


async def test_a_parked_key_is_shown_with_its_reason(
    service: Toy, nats_server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await show(LogAccess(nats_server.url), "", "json", everything=False) == 0
    (record,) = json.loads(capsys.readouterr().out)
    assert (record["service"], record["key"], record["state"], record["times"]) == ("toy", BAD, "parked", 1)
    assert "bad is broken" in record["reason"]
    assert await show(LogAccess(nats_server.url), "other", "", everything=True) == 0
    assert capsys.readouterr().out == "No key is parked.\n"


async def test_a_retry_waits_for_what_becomes_of_the_key(
    service: Toy, nats_server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    access = LogAccess(nats_server.url)
    assert await retry(access, [BAD], "", "", everything=False) == 1
    assert "parked again: RuntimeError: bad is broken" in capsys.readouterr().err
    service.broken = set()
    assert await retry(access, (), "toy", "mended", everything=False) == 0
    assert "is parked no more" in capsys.readouterr().err
    with pytest.raises(Failed, match="no key is parked"):
        await retry(access, (), "", "", everything=True)


async def test_giving_up_needs_a_word_and_ends_the_finding(
    service: Toy, nats_server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    access = LogAccess(nats_server.url)
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    with pytest.raises(Failed, match="--yes"):
        await drop(access, [BAD], "", "", everything=False, yes=False)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda _: "no")
    assert await drop(access, [BAD], "", "", everything=False, yes=False) == 1
    assert await drop(access, [BAD], "", "goes", everything=False, yes=True) == 0

    async def given_up() -> bool:
        capsys.readouterr()
        await show(access, "", "json", everything=True)
        return [one["state"] for one in json.loads(capsys.readouterr().out)] == ["dropped"]

    await eventually(given_up)


async def test_a_name_that_is_not_parked_is_refused(service: Toy, nats_server: Server) -> None:
    access = LogAccess(nats_server.url)
    with pytest.raises(Failed, match="no parked key"):
        await retry(access, ["nothing"], "", "", everything=False)
    with pytest.raises(Failed, match="name the keys"):
        await drop(access, (), "", "", everything=False, yes=True)


async def test_status_and_doctor_name_the_parked_key(
    service: Toy, nats_server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    log = LogAndControlOptions(nats=nats_server.url)
    assert await status(log, "json") == 1
    page = json.loads(capsys.readouterr().out)
    assert [one["service"] for one in page["instances"]] == ["toy"]
    assert page["parked"][0]["key"] == BAD
    assert await doctor(log, "json") == 1
    said = json.loads(capsys.readouterr().out)
    (finding,) = [one for one in said["findings"] if "parked" in one["message"]]
    assert (finding["severity"], finding["about"]) == ("error", "toy")
    assert "fleetlog parked retry --service toy" in finding["remedy"]
    assert {"log", "facts", "instances", "streams", "parked keys"} <= set(said["checked"])
    assert "disk" in said["unchecked"]


async def test_a_doctor_without_a_log_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert await doctor(LogAndControlOptions(nats="nats://127.0.0.1:1")) == 1
    shown = capsys.readouterr().out
    assert "ERROR  log: " in shown
    assert "--nats" in shown
