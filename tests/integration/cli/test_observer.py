"""Observers read the log of a server with accounts and write nothing, whatever they ask for."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from schemas.codec import encode
from schemas.events.lease import LeaseTaken
from schemas.topology import FACTS
from services._kit.base.log_errors import LogError
from services._kit.base.settings import Settings
from services._kit.log import streams as topology
from services._kit.log.connection import Connection
from services._kit.log.jetstream import JetStreamLog
from services._kit.log.stream_port import NewMessage
from services._rules.identity.accounts import HUB_API, OBSERVER_API, OBSERVER_USER, Passwords, accounts_config
from services.cli.common.logbook import LogAccess, log_access, open_log
from services.cli.common.running import Failed
from services.cli.installation.certificate_files import make
from services.cli.nats import authority as keys
from services.cli.nats.observer_identity import init
from services.cli.queries.event_list import events
from services.cli.queries.query_options import EventQuery
from tests.natsserver import ProcessServer, Server, find_binary
from tests.support.commands import run_command
from tests.support.waiting import eventually

pytestmark = pytest.mark.skipif(find_binary() is None, reason="needs the nats-server binary")


def _started(directory: Path, accounts: str) -> Server:
    binary = find_binary()
    assert binary is not None
    server = ProcessServer(binary, directory)
    config = directory / "nats.conf"
    config.write_text(config.read_text() + accounts)
    server.start()
    return server


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    started = _started(tmp_path, accounts_config(Passwords(hub="h", observer="o"), []))
    yield started
    started.stop()


@pytest.fixture
async def hub(server: Server) -> AsyncIterator[Connection]:
    connection = await Connection.open(server.url, user="hub", password="h")
    await topology.apply(connection)
    yield connection
    await connection.close()


def observer(server: Server, directory: Path) -> LogAccess:
    """How an observer gets in, by the services' own settings."""
    secret = directory / "observer.password"
    secret.write_text("o\n")
    return LogAccess(server.url, Settings(nats_user=OBSERVER_USER, nats_password_file=str(secret)))


async def _append(hub: Connection, *numbers: int) -> None:
    log = JetStreamLog(hub, FACTS.name)
    for number in numbers:
        await log.append([NewMessage(f"cluster.m{number % 3}", b"%d" % number)])


async def test_an_observer_reads_what_is_stored(hub: Connection, server: Server, tmp_path: Path) -> None:
    await _append(hub, *range(700))
    async with open_log(observer(server, tmp_path)) as connection:
        log = JetStreamLog(connection, FACTS.name)
        found = [message async for message in log.read(["cluster.m1", "cluster.m2"], 10, 690)]
        last = await log.last("cluster.m0")
        many = await log.last_many(["cluster.*"])
    wanted = [number for number in range(700) if number % 3 and 10 <= number + 1 <= 690]
    assert [int(message.data) for message in found] == wanted
    assert last is not None
    assert last.data == b"699"
    assert [message.data for message in many] == [b"697", b"698", b"699"]


async def test_an_observer_follows_what_is_appended(hub: Connection, server: Server, tmp_path: Path) -> None:
    await _append(hub, 0)
    async with open_log(observer(server, tmp_path)) as connection:
        pump, seen = JetStreamLog(connection, FACTS.name).pump(["cluster.*"]), []

        async def follow() -> None:
            async for delivery in pump:
                seen.extend(int(message.data) for message in delivery.messages)

        task = asyncio.create_task(follow())
        await eventually(lambda: seen == [0])
        await _append(hub, 1, 2)
        await eventually(lambda: seen == [0, 1, 2])
        await pump.close()
        await task


async def test_an_observer_writes_nothing(hub: Connection, server: Server, tmp_path: Path) -> None:
    await _append(hub, 1)
    body = json.dumps({"seq": 1, "batch": 1}).encode()
    async with open_log(observer(server, tmp_path)) as connection:
        await connection.publish("cluster.m1", b"forged")
        # An answer whose subject is the asker's choice must not be stored either.
        await connection.publish(f"{OBSERVER_API}.DIRECT.GET.FACTS", body, reply="lease.scheduler")
        await connection.publish(f"{OBSERVER_API}.STREAM.INFO.FACTS", b"", reply="lease.scheduler")
        create = json.dumps({"stream_name": "FACTS", "config": {"deliver_subject": "lease.scheduler"}}).encode()
        for api in (OBSERVER_API, HUB_API):
            await connection.publish(f"{api}.CONSUMER.CREATE.FACTS.x", create)
            await connection.publish(f"{api}.STREAM.PURGE.FACTS", b"{}")
        assert await connection.flushed(60.0)
        # Whatever was sent before this has been handled.
        assert (await JetStreamLog(connection, FACTS.name).identity()).last_seq == 1
    log = JetStreamLog(hub, FACTS.name)
    assert (await log.identity()).last_seq == 1
    assert await log.last("lease.scheduler") is None


async def test_who_may_write_is_no_observer(hub: Connection, server: Server) -> None:
    async with open_log(LogAccess(server.url, Settings(nats_user="hub", nats_password="h"))) as connection:
        assert not connection.observes


async def _operated(directory: Path, *, observer: bool) -> Server:
    """A server whose accounts are signed by the operator's keys in `keys`."""
    server = ProcessServer(str(find_binary()), directory)
    await init(directory / "keys", directory, server.url, resolver_dir=None, name="test", observer=observer)
    config = directory / "nats.conf"
    config.write_text(f'{config.read_text()}include "keys/{keys.CONFIG}"\n')
    server.start()
    return server


async def test_observers_of_an_operator_read_and_do_not_write(tmp_path: Path) -> None:
    place = tmp_path / "keys"
    server = await _operated(tmp_path, observer=False)
    try:
        hub = await Connection.open(server.url, user_credentials=str(place / keys.HUB_CREDS))
        try:
            await topology.apply(hub)
            await _append(hub, 1)
            # Keys that are there already: the running server is handed the accounts.
            await init(place, tmp_path, "", resolver_dir=None, name="", observer=True)
            access = LogAccess(server.url, Settings(nats_creds=str(place / keys.OBSERVER_CREDS)))
            async with open_log(access) as connection:
                log = JetStreamLog(connection, FACTS.name)
                assert [message.data async for message in log.read(["cluster.*"])] == [b"1"]
                with pytest.raises(LogError):
                    await log.append([NewMessage("cluster.m1", b"forged")])
            assert (await JetStreamLog(hub, FACTS.name).identity()).last_seq == 1
            with pytest.raises(Failed, match="already"):
                await init(place, tmp_path, "", resolver_dir=None, name="", observer=True)
        finally:
            await hub.close()
    finally:
        server.stop()


async def test_a_fresh_operator_may_have_observers_at_once(tmp_path: Path) -> None:
    server = await _operated(tmp_path, observer=True)
    creds = tmp_path / "keys" / keys.OBSERVER_CREDS
    try:
        async with open_log(LogAccess(server.url, Settings(nats_creds=str(creds)))) as connection:
            assert connection.observes
    finally:
        server.stop()


async def test_commands_use_the_settings_of_the_services(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deploy = tmp_path / "deploy"
    make(deploy)
    tls = "\n".join(f'{key}_file: "{deploy / "tls" / f"nats.{end}"}"' for key, end in (("cert", "crt"), ("key", "key")))
    server = _started(tmp_path, f'tls {{\n{tls}\n}}\ninclude "deploy/nats/accounts.conf"\n')
    try:
        url = server.url.replace("nats://", "tls://")
        with pytest.raises(Failed, match="FLEETLOG_TLS_CA"):
            await events(log_access(tmp_path, url), EventQuery())
        monkeypatch.setenv("FLEETLOG_TLS_CA", str(deploy / "ca.crt"))
        with pytest.raises(Failed, match="FLEETLOG_NATS_PASSWORD_FILE"):
            await events(log_access(tmp_path, url), EventQuery())
        monkeypatch.setenv("FLEETLOG_NATS_USER", "hub")
        monkeypatch.setenv("FLEETLOG_NATS_PASSWORD_FILE", str(deploy / "hub.password"))
        async with open_log(log_access(tmp_path, url)) as hub:
            await topology.apply(hub)
            await JetStreamLog(hub, FACTS.name).append(
                [NewMessage("lease.scheduler", encode(LeaseTaken(service="scheduler", instance="a")))]
            )
        settings = tmp_path / "settings.json"
        settings.write_text(
            json.dumps(
                {
                    "nats_url": url,
                    "nats_user": OBSERVER_USER,
                    "nats_password_file": str(deploy / "observer.password"),
                    "scheduler_name": "is none of the log's",
                }
            )
        )
        variables = {"FLEETLOG_SETTINGS_FILE": str(settings), "FLEETLOG_TLS_CA": str(deploy / "ca.crt")}
        shown = await asyncio.to_thread(run_command, "fleetlog", "events", **variables)
        assert shown.returncode == 0, shown.stderr
        assert "LeaseTaken" in shown.stdout
        # A directory among the arguments is meant, whatever the environment names.
        elsewhere = ("events", "--dir", str(tmp_path / "none"))
        shown = await asyncio.to_thread(run_command, "fleetlog", *elsewhere, FLEETLOG_NATS_URL=url, **variables)
        assert "no installation in" in shown.stderr
    finally:
        server.stop()
