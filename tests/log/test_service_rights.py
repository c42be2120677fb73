"""Users of services on a server with the configuration that `fleetlog certs` writes: own subjects, and no others."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import nats
import nats.errors
import pytest

from schemas.codec import encode, subject_of
from schemas.topology import BLOBS, FACTS, KEYS, SERVICES, STREAMS, SUBJECTS, WITHOUT_LOG
from services._kit.base.log_errors import LogError
from services._kit.base.settings import Settings, credentials, tls_context
from services._kit.log import streams as topology
from services._kit.log.connection import Connection
from services._kit.log.heartbeat_bus import NatsBus
from services._kit.log.jetstream import JetStreamLog
from services._kit.log.stream_port import NewMessage, match
from services._rules.identity.accounts import HUB_USER, OBSERVER_USER, SYSTEM_USER
from services._rules.identity.service_rights import inbox_prefix, pattern_of, streams_read, writers_of
from services.cli.common.running import Failed
from services.cli.installation import certificate_files
from services.cli.members.reached_addresses import ReachedAddresses
from services.cli.nats import authority
from services.cli.nats.login_check import log_in
from tests.natsserver import ProcessServer, find_binary
from tests.support.commands import run_command
from tests.support.facts import binding, cluster, placement, template
from tests.support.waiting import eventually

pytestmark = pytest.mark.skipif(find_binary() is None, reason="needs the nats-server binary")

WITH_LOG = [service for service in SERVICES if service not in WITHOUT_LOG]
PASSWORDS = certificate_files.PASSWORDS


class Deployed:
    """A server with TLS and accounts, and the files that identities come from."""

    def __init__(self, directory: Path) -> None:
        self.files = directory / "deploy"
        certificate_files.make(self.files)
        binary = find_binary()
        assert binary is not None
        self.server = ProcessServer(binary, directory)
        pair = {"cert": "crt", "key": "key"}
        tls = "\n".join(f'{name}_file: "{self.files}/tls/nats.{end}"' for name, end in pair.items())
        config = directory / "nats.conf"
        config.write_text(f'{config.read_text()}tls {{\n{tls}\n}}\ninclude "deploy/nats/accounts.conf"\n')

    @asynccontextmanager
    async def connected(self, user: str, password: str, inbox: str = "_INBOX") -> AsyncIterator[Known]:
        """A connection as a user, with what the server refused it."""
        settings = Settings(
            nats_user=user,
            nats_password_file=str(self.files / password),
            nats_inbox_prefix=inbox,
            tls_ca=str(self.files / "ca.crt"),
        )
        refused: list[str] = []
        connection = await Connection.open(
            self.server.url.replace("nats://", "tls://"),
            tls=tls_context(settings),
            on_error=lambda error: refused.append(str(error).lower()),
            **credentials(settings),
        )
        try:
            yield Known(connection, refused)
        finally:
            await connection.close()

    def service(self, name: str) -> AsyncIterator[Known]:
        """A connection as a service."""
        return self.connected(name, f"{PASSWORDS}/{name}", inbox_prefix(name))


class Known:
    """A connection and its refusals."""

    def __init__(self, connection: Connection, refused: list[str]) -> None:
        self.connection = connection
        self.refused = refused

    async def let(self, *subjects: str, data: bytes = b"forged") -> set[str]:
        """Which of these subjects the server lets this user publish on."""
        for subject in subjects:
            await self.connection.publish(subject, data)
        assert await self.connection.flushed(60.0)
        # The server answers in order: every refusal is there.
        allowed = {s for s in subjects if not any(f'publish to "{s.lower()}"' in text for text in self.refused)}
        self.refused.clear()
        return allowed


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    made = Deployed(tmp_path_factory.mktemp("rights"))
    made.server.start()
    yield made
    made.server.stop()


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Deployed]:
    """One whose log holds nothing yet."""
    made = Deployed(tmp_path)
    made.server.start()
    yield made
    made.server.stop()


@pytest.fixture
async def hub(deployed: Deployed) -> AsyncIterator[Connection]:
    async with deployed.connected(HUB_USER, "hub.password") as known:
        await topology.apply(known.connection)
        yield known.connection


def example(pattern: str) -> str:
    """A subject that a pattern matches."""
    return pattern.replace("*", "x").replace(">", "1.x.y.z")


EVERY = sorted(
    {example(pattern) for subject in SUBJECTS for pattern in (pattern_of(subject), *writers_of(subject).values())}
)
"""A subject of every family, and of every writer's part of it."""


async def ends(hub: Connection) -> dict[str, int]:
    # HISTORY follows FACTS in its own time.
    names = [stream.name for stream in STREAMS if not stream.sources]
    return {name: (await JetStreamLog(hub, name).identity()).last_seq for name in names}


@pytest.mark.parametrize("service", WITH_LOG)
async def test_a_service_writes_its_subjects_and_no_others(service: str, deployed: Deployed, hub: Connection) -> None:
    own = {writers[service]: subject.stream for subject in SUBJECTS if service in (writers := writers_of(subject))}
    others = [subject for subject in EVERY if not any(match(pattern, subject) for pattern in own)]
    if service == "cluster_monitor":
        others.append("absence.templates")
    async with deployed.service(service) as known:
        for pattern, stream in own.items():
            subject, log = example(pattern), JetStreamLog(known.connection, stream)
            await log.append([NewMessage(subject, b"own")])
            if stream == FACTS.name:
                await log.append([NewMessage(subject, b"own"), NewMessage(subject, b"own")])
            stored = await log.last(subject)
            assert stored is not None
            assert stored.data == b"own"
        assert not known.refused
        before = await ends(hub)
        assert not await known.let(*others)
        assert await ends(hub) == before


@pytest.mark.parametrize("service", WITH_LOG)
async def test_a_service_reads_its_streams_and_no_others(service: str, deployed: Deployed, hub: Connection) -> None:
    for stream, subject in (
        ("BLOBS", "blob.a"),
        ("KEYS", "key.a"),
        ("FACTS", "cluster.m1"),
        ("OBSERVED", "observed.a.b"),
    ):
        await JetStreamLog(hub, stream).append([NewMessage(subject, b"stored")])
    read = streams_read(service)
    async with deployed.service(service) as known:
        connection = known.connection
        assert await topology.check(connection) == []
        for name in read:
            log = JetStreamLog(connection, name)
            last = (await log.identity()).last_seq
            found = [message async for message in log.read([">"])]
            assert found or not last or name == "HISTORY"
            assert not last or await log.get(last) is not None
        if BLOBS.name in read:
            blobs = JetStreamLog(connection, BLOBS.name)
            assert await blobs.peek("blob.a") is not None
            assert len(await blobs.last_many(["blob.a"])) == 1
            # As among several servers, where the leader is asked to refuse a message first.
            blobs.replicated = True
            assert await blobs.last("blob.a") is not None
        assert not known.refused
        closed = [stream.name for stream in STREAMS if stream.name not in read]
        assert not await known.let(*(f"$JS.API.CONSUMER.CREATE.{name}.x" for name in closed), data=b"{}")
        assert not await known.let(*(f"$JS.API.DIRECT.GET.{name}" for name in closed), data=b"{}")
        for pattern in (">", "key.*", "_INBOX.>", f"{inbox_prefix('gateway' if service != 'gateway' else 'search')}.>"):
            known.refused.clear()
            await connection.listen(pattern, lambda _: None)
            await eventually(lambda: any("subscription" in text for text in known.refused), pattern)


async def test_only_some_change_streams(deployed: Deployed, hub: Connection) -> None:
    calls = (
        "CREATE",
        "UPDATE",
        "DELETE",
        "PURGE",
        "MSG.DELETE",
        "SNAPSHOT",
        "RESTORE",
        "PEER.REMOVE",
        "LEADER.STEPDOWN",
    )
    asked = [f"$JS.API.STREAM.{call}.{stream.name}" for call in calls for stream in STREAMS]
    before = await ends(hub)
    may = {}
    for service in WITH_LOG:
        async with deployed.service(service) as known:
            # What is no request is refused by the server's API where the user may ask.
            may[service] = await known.let(*asked, data=b"no request")
    assert may.pop("janitor") == {f"$JS.API.STREAM.PURGE.{name}" for name in ("FACTS", "OBSERVED", "BLOBS")}
    assert may.pop("detector") == {f"$JS.API.STREAM.{call}.{s.name}" for call in ("CREATE", "UPDATE") for s in STREAMS}
    assert not any(may.values()), may
    assert await ends(hub) == before


async def test_messages_that_are_not_stored_reach_their_service(deployed: Deployed, hub: Connection) -> None:
    async with deployed.service("estimator") as estimator, deployed.service("descheduler") as descheduler:

        async def answer(message) -> None:
            await estimator.connection.publish(message.reply, b"3")

        await estimator.connection.subscribe("unschedulable.*", answer)
        assert await estimator.connection.flushed(60.0)
        found = await descheduler.connection.request("unschedulable.m1", timeout=60.0)
        assert found.data == b"3"
        assert not await descheduler.let("instances", "purged", "hello.m1", "tunnel.m1.x", "alive.estimator")
        heard: list[bytes] = []
        await NatsBus(descheduler.connection).subscribe("alive.descheduler", heard.append)
        assert await NatsBus(descheduler.connection).deliver("alive.descheduler", b"beat", 60.0)
        await eventually(lambda: heard == [b"beat"])
        # A command asks every instance, and hears the answers.
        await descheduler.connection.subscribe("instances", lambda message: _reply(descheduler.connection, message))
        assert await descheduler.connection.flushed(60.0)
        assert (await hub.request("instances", timeout=60.0)).data == b"well"
        assert not estimator.refused
        assert not descheduler.refused


async def _reply(connection: Connection, message) -> None:
    await connection.publish(message.reply, b"well")


async def test_the_wrong_password_opens_nothing(deployed: Deployed) -> None:
    found = await log_in(
        deployed.server.url.replace("nats://", "tls://"),
        "test",
        60.0,
        tls=tls_context(Settings(tls_ca=str(deployed.files / "ca.crt"))),
        user="scheduler",
        password=(deployed.files / PASSWORDS / "janitor").read_text(),
    )
    assert isinstance(found, str)
    assert "authorization" in found.lower()


async def test_the_system_user_asks_servers_and_reads_no_log(deployed: Deployed, hub: Connection) -> None:
    await JetStreamLog(hub, KEYS.name).append([NewMessage("key.a", b"x")])
    async with deployed.connected(SYSTEM_USER, certificate_files.SYSTEM_PASSWORD) as known:
        report = await known.connection.request("$SYS.REQ.SERVER.PING.JSZ", b'{"accounts": true}', timeout=60.0)
        assert json.loads(report.data)["data"]["streams"] == len(STREAMS)
        with pytest.raises(LogError):
            await JetStreamLog(known.connection, FACTS.name).identity()


async def test_plain_clients_observe_over_tls(deployed: Deployed, hub: Connection) -> None:
    facts = JetStreamLog(hub, FACTS.name)
    await facts.append([NewMessage("lease.scheduler", b"stored")])
    client = await nats.connect(
        deployed.server.url.replace("nats://", "tls://"),
        user=OBSERVER_USER,
        password=(deployed.files / certificate_files.OBSERVER_PASSWORD).read_text(),
        tls=ssl.create_default_context(cafile=str(deployed.files / "ca.crt")),
    )
    try:
        streams = client.jetstream(prefix="observer.api")
        heard = await client.subscribe("placement.>")
        # A request, not the client's flush: its ping overtakes what waits to be sent.
        await streams.account_info()
        await facts.append([NewMessage("placement.1.x", b"live")])
        assert (await heard.next_msg(60)).data == b"live"
        assert (await streams.stream_info("FACTS")).state.messages > 1
        assert (await streams.get_last_msg("FACTS", "lease.scheduler")).data == b"stored"
        end = (await facts.identity()).last_seq
        for subject in ("placement.1.x", "$JS.API.STREAM.PURGE.FACTS", "observer.api.STREAM.PURGE.FACTS"):
            await client.publish(subject, b"{}")
        await streams.account_info()
        assert (await facts.identity()).last_seq == end
        with pytest.raises(nats.errors.Error):
            await streams.stream_info("KEYS", subjects_filter=">")
    finally:
        await client.close()


async def test_commands_read_as_observers_over_tls(fresh: Deployed, tmp_path: Path) -> None:
    async with fresh.connected(HUB_USER, "hub.password") as known:
        await topology.apply(known.connection)
        facts = JetStreamLog(known.connection, FACTS.name)
        for event in (template(), binding(), cluster("m1"), placement(m1=2)):
            await facts.append([NewMessage(subject_of(event), encode(event))])
    variables = {
        "FLEETLOG_NATS_URL": fresh.server.url.replace("nats://", "tls://"),
        "FLEETLOG_TLS_CA": str(fresh.files / "ca.crt"),
        "FLEETLOG_NATS_USER": OBSERVER_USER,
        "FLEETLOG_NATS_PASSWORD_FILE": str(fresh.files / certificate_files.OBSERVER_PASSWORD),
    }
    exported = tmp_path / "log.jsonl.gz"
    for arguments, words in (
        (("events", "--subject", "placement.>", "--tail", "1"), "PlacementDecided"),
        (("history", "deployments.apps/nginx"), "PlacementDecided"),
        (("explain", "deployments.apps/nginx"), "m1"),
        (("status",), "Log: tls://"),
        (("log", "export", str(exported)), ""),
    ):
        done = await asyncio.to_thread(run_command, "fleetlog", *arguments, **variables)
        assert words in done.stdout, (arguments, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr, arguments
        assert done.returncode == 0 or arguments == ("status",), (arguments, done.stderr)
    assert exported.stat().st_size > 0
    refused = await asyncio.to_thread(run_command, "fleetlog", "log", "verify", **variables)
    assert refused.returncode == 1
    assert "only reads" in refused.stderr


async def test_services_with_signed_credentials_write_their_own(tmp_path: Path) -> None:
    place = tmp_path / "keys"
    binary = find_binary()
    assert binary is not None
    server = ProcessServer(binary, tmp_path)
    made = authority.create(place, server.url, tmp_path / "resolver")
    config = tmp_path / "nats.conf"
    config.write_text(f'{config.read_text()}include "keys/{authority.CONFIG}"\n')
    server.start()
    refused: list[str] = []
    try:
        hub = await Connection.open(server.url, user_credentials=str(made.hub_creds))
        await topology.apply(hub)
        own = await Connection.open(
            server.url,
            user_credentials=str(place / "services/cluster_monitor.creds"),
            inbox_prefix=inbox_prefix("cluster_monitor").encode(),
            on_error=lambda error: refused.append(str(error).lower()),
        )
        known = Known(own, refused)
        await JetStreamLog(own, FACTS.name).append([NewMessage("cluster.m1", b"own")])
        await JetStreamLog(own, FACTS.name).append([NewMessage("absence.clusters", b"own")])
        assert not refused
        assert not await known.let("lease.scheduler", "absence.templates", "key.a", "$JS.API.STREAM.PURGE.FACTS")
        await own.close()
        system = await Connection.open(server.url, user_credentials=str(made.system_creds))
        report = await system.request("$SYS.REQ.SERVER.PING.JSZ", b'{"accounts": true}', timeout=60.0)
        assert json.loads(report.data)["data"]["streams"] == len(STREAMS)
        await system.close()
        await hub.close()
    finally:
        server.stop()


def test_a_leaked_password_is_replaced(tmp_path: Path) -> None:
    deploy = tmp_path / "deploy"
    certificate_files.make(deploy)
    before = {path.name: path.read_text() for path in (deploy / PASSWORDS).iterdir()}
    assert certificate_files.write(deploy, ReachedAddresses(), (), (), ("scheduler", OBSERVER_USER)) == 0
    after = {path.name: path.read_text() for path in (deploy / PASSWORDS).iterdir()}
    assert {name for name in after if after[name] != before[name]} == {"scheduler"}
    accounts = (deploy / "nats/accounts.conf").read_text()
    assert before["scheduler"] not in accounts
    assert after["scheduler"] in accounts
    with pytest.raises(Failed, match="no user 'webhook'"):
        certificate_files.write(deploy, ReachedAddresses(), (), (), ("webhook",))
