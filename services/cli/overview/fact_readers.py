"""Reads what is to be known of an installation: all at once, each part within a time of its own."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from importlib.metadata import version
from typing import Any, Final

import aiohttp
import msgspec

from schemas.codec import DecodeError, decode
from schemas.events.parked import KeyParked
from schemas.instance import InstanceReport
from schemas.subjects import HEARTBEATS, INSTANCES, unescape
from schemas.topology import FACTS, PARKED, SERVICES
from services._kit.base.log_errors import LogError
from services._kit.kube.client import ApiError, Unreachable
from services._kit.leadership.lease import Beat
from services._kit.log import streams as topology
from services._kit.log.connection import Connection
from services._kit.log.jetstream import JetStreamLog
from services._kit.log.jetstream_api import ApiAnswer, result
from services.cli.common.control_plane import open_control
from services.cli.common.installation_options import LogAndControlOptions
from services.cli.common.layout import Layout, agent_process
from services.cli.common.logbook import log_access, open_log, without_secret
from services.cli.common.running import Failed, complain, reporting
from services.cli.overview.certificate_ends import ends_in, server_end
from services.cli.overview.installation_facts import Answer, Disk, Facts, ParkedRecord, Process, Store
from services.cli.overview.status_facts import overview
from services.cli.supervision.process_identity import Roll, runs

EACH_SECONDS: Final = 8.0
"""How long one part may take."""
LISTEN_SECONDS: Final = 1.2
"""How long instances have to answer: leaders send a heartbeat every 0.3 seconds."""
MOST_INSTANCES: Final = 1000
MOST_RECORDS: Final = 20_000
"""Records of stream PARKED that are read, the newest."""
ANSWER_BYTES: Final = 4 << 20
ANSWER_SECONDS: Final = 3.0


class _Tier(ApiAnswer):
    storage: int = 0
    limits: dict[str, Any] = {}


async def look(log: LogAndControlOptions) -> Facts:
    """Everything that can be found out; what cannot be is named in it. Raises Failed where no log is named at all."""
    access = log_access(log.directory, log.nats)
    facts = Facts(now=time.time(), version=version("fleetlog"), where=without_secret(access.url))
    layout = Layout(log.directory)
    ours = not log.nats and layout.load() is not None
    looking: set[str] = set()
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(
            reporting(lambda seconds: complain(f"looking at {', '.join(sorted(looking))} … ({seconds:.0f} s)"))
        )

        async def part(name: str, read: Callable[[], Awaitable[None]]) -> None:
            looking.add(name)
            try:
                async with asyncio.timeout(EACH_SECONDS):
                    await read()
                facts.checked.append(name)
            except TimeoutError:
                facts.unchecked[name] = f"no answer within {EACH_SECONDS:g} s"
            except (Failed, LogError, ApiError, Unreachable, OSError, ValueError) as error:
                facts.unchecked[name] = str(error) or type(error).__name__
            finally:
                looking.discard(name)

        async def of_log() -> None:
            looking.add("log")
            try:
                connection = await stack.enter_async_context(open_log(access))
            except (Failed, OSError, ValueError) as error:
                facts.unchecked["log"] = str(error)
                return
            finally:
                looking.discard("log")
            facts.checked.append("log")
            await asyncio.gather(
                part("facts", lambda: _overview(facts, connection)),
                part("instances", lambda: _instances(facts, connection)),
                part("streams", lambda: _streams(facts, connection)),
                part("parked keys", lambda: _parked(facts, connection)),
                part("the log's certificate", lambda: server_end(facts, connection)),
            )

        parts = [of_log(), part("control plane", lambda: _control_plane(facts, log))]
        if ours:
            parts += [
                part("processes", lambda: _processes(facts, layout)),
                part("disk", lambda: asyncio.to_thread(_disk, facts, layout)),
                part("certificates", lambda: asyncio.to_thread(ends_in, facts, layout)),
            ]
        else:
            for name in ("processes", "disk", "certificates"):
                facts.unchecked[name] = "only those of an installation on this machine are, and --nats names a log"
        await asyncio.gather(*parts)
    return facts


async def _overview(facts: Facts, connection: Connection) -> None:
    facts.overview = await overview(JetStreamLog(connection, FACTS.name))


async def _instances(facts: Facts, connection: Connection) -> None:
    facts.instances, facts.leading = await instances_of(connection)


async def instances_of(connection: Connection) -> tuple[list[InstanceReport], dict[str, str]]:
    """What every instance says of itself, and who shows a leader's heartbeats, by service."""
    leading: dict[str, str] = {}
    found: dict[tuple[str, str], InstanceReport] = {}

    async def reported(message: Any) -> None:
        try:
            report = msgspec.json.decode(message.data, type=InstanceReport)
        except msgspec.MsgspecError:
            return  # A newer version answers in another way; its heartbeat is heard all the same.
        if len(found) < MOST_INSTANCES:
            found[report.service, report.instance] = report

    async def heard(message: Any) -> None:
        try:
            beat = msgspec.json.decode(message.data, type=Beat)
        except msgspec.MsgspecError:
            return
        leading[unescape(message.subject.partition(".")[2])] = beat.instance

    inbox = connection.inbox()
    subscriptions = [await connection.subscribe(inbox, reported), await connection.subscribe(HEARTBEATS, heard)]
    await connection.publish(INSTANCES, b"", reply=inbox)
    await asyncio.sleep(LISTEN_SECONDS)
    for subscription in subscriptions:
        await subscription.unsubscribe()
    return [found[key] for key in sorted(found)], leading


async def _streams(facts: Facts, connection: Connection) -> None:
    facts.fills = await topology.fills(connection)
    if not connection.observes:
        facts.topology = await topology.check(connection)
    tier = await result(connection, "INFO", {}, _Tier)
    facts.store = Store(tier.storage, int(tier.limits.get("max_storage") or -1))


async def _parked(facts: Facts, connection: Connection) -> None:
    facts.parked = await parked_records(connection)


async def parked_records(connection: Connection) -> list[ParkedRecord]:
    """The last record of every key on stream PARKED; raises LogError."""
    log, facts = JetStreamLog(connection, PARKED.name), JetStreamLog(connection, FACTS.name)
    end = (await log.identity()).last_seq
    found: dict[tuple[str, str], ParkedRecord] = {}
    async for message in log.read(["parked.*"], max(1, end - MOST_RECORDS), end):
        try:
            event = decode(message.subject, message.data)
        except DecodeError:
            continue
        if isinstance(event, KeyParked):
            before = found.get((event.service, event.key))
            found[event.service, event.key] = ParkedRecord(
                event.service,
                event.key,
                event.reason,
                event.position,
                event.at or message.time,
                before.times + 1 if before else 1,
                event.subject,
            )
    for key, record in found.items():
        if record.key == record.subject and not record.subject.startswith("observed."):
            last = await facts.peek(record.subject)
            found[key] = msgspec.structs.replace(record, readable=last is None or last.seq != record.position)
    return list(found.values())


async def _control_plane(facts: Facts, log: LogAndControlOptions) -> None:
    async with open_control(log.target) as control:
        try:
            await control.client.request("GET", "/readyz", accept="*/*", timeout=EACH_SECONDS - 1)
            facts.control_plane = ""
        except (ApiError, Unreachable) as error:
            facts.control_plane = str(error)


async def _processes(facts: Facts, layout: Layout) -> None:
    """What runs here, and what it answers."""
    installation = layout.load()
    assert installation is not None
    entries = Roll(layout.roll).read()
    facts.processes = [Process(one.name, runs(one.running), one.running.pid) for one in entries]
    if not any(process.running for process in facts.processes):
        facts.processes = []
        return
    agents = {agent_process(member.name) for member in installation.pull_members}
    ports = {name: port for name, port in installation.ports.items() if name in SERVICES or name in agents}
    timeout = aiohttp.ClientTimeout(total=ANSWER_SECONDS)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        facts.answers = list(await asyncio.gather(*(_answer(session, *each) for each in sorted(ports.items()))))


async def _answer(session: aiohttp.ClientSession, name: str, port: int) -> Answer:
    try:
        async with session.get(f"http://127.0.0.1:{port}/readyz", allow_redirects=False) as response:
            document = msgspec.json.decode(await response.content.read(ANSWER_BYTES), type=_Ready)
    except TimeoutError:
        return Answer(name, error=f"no answer within {ANSWER_SECONDS:g} s")
    except (aiohttp.ClientError, OSError, msgspec.MsgspecError) as error:
        return Answer(name, error=str(error) or type(error).__name__)
    return Answer(name, document.ready, document.reasons)


class _Ready(msgspec.Struct):
    ready: bool = False
    reasons: dict[str, str] = {}


def _disk(facts: Facts, layout: Layout) -> None:
    usage = shutil.disk_usage(layout.directory)
    facts.disk = Disk(str(layout.directory), usage.free, usage.total)
