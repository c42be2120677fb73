"""Wires one service to the log and runs it: the only place that knows concrete classes.

`log_reader` makes what `python -m services.<name>` calls; `serve` does the same in a process that runs several.
"""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, Final, Generic, NoReturn, Protocol, TypeVar, cast

import msgspec
from nats.aio.msg import Msg
from prometheus_client import CollectorRegistry

from schemas.hints import Purged
from schemas.shard_groups import MOST_GROUPS, SHARED, groups_of
from schemas.subjects import INSTANCES, PURGED
from schemas.topology import STREAMS
from services._kit.base import fault_points, logs
from services._kit.base.answer_limits import enforce
from services._kit.base.clock import SystemClock
from services._kit.base.flags import package_of, with_flags
from services._kit.base.health import Health, HealthServer
from services._kit.base.log_errors import LogError, LogReplaced
from services._kit.base.metrics import GroupCollector, KitMetrics, process_metrics
from services._kit.base.settings import Settings, SettingsError, load, tell_unknown
from services._kit.concurrency.event_loop import FAILED, OK, run_loop
from services._kit.concurrency.supervision import Supervisor, spawn
from services._kit.concurrency.tasks import all_of, end, first_of
from services._kit.content.blobs import Blobs
from services._kit.content.envelope_encryption import KEYS, Vault, keys_of
from services._kit.leadership.shard_balance import ShardBalance
from services._kit.log.awaited_log import Awaited, Complaints, connect, streams_usable
from services._kit.log.connection import Connection
from services._kit.log.heartbeat_bus import NatsBus
from services._kit.log.ids import default_instance
from services._kit.log.jetstream import JetStreamLog
from services._kit.runtime.decision_loop import LoopOptions
from services._kit.runtime.runner import Runner, filters_of
from services._kit.runtime.service import AnyService, Context
from services._kit.runtime.shared_consumer import SharedReading
from services._rules.log.stream_limits import RoomError, sizes

BAD_SETTINGS: Final = 2
LOG_REPLACED: Final = 3
"""The process holds the state of a log that is gone: its supervisor has to restart it."""

EXPECTED: Final = (LogReplaced, SettingsError, LogError, OSError)
"""What may end a service without being a bug."""


class Named(Protocol):
    """What a program asks of its service."""

    name: str


T = TypeVar("T", bound=Settings)
S = TypeVar("S", bound=Named)
Serving = Callable[[S, Settings, asyncio.Event, Any], Awaitable[None]]
Ready = Callable[[Runner[Any, Any]], None]


async def serve(
    service: AnyService,
    settings: Settings,
    stop: asyncio.Event,
    ready: Ready | None = None,
    options: LoopOptions | None = None,
    shared: SharedReading | None = None,
    siblings: Sequence[AnyService] = (),
) -> None:
    """Run a service until `stop` is set; `ready` is called once its projection is complete.

    With `shared` the streams are read together with other services of this process. `siblings` are the same service
    once more for every further shard group; then this process reads the streams once for all of them.

    Until the log and its streams are there it waits, alive and not ready.
    Raises LogReplaced when it has to restart with an empty state, LogError when the log cannot be used.
    """
    instance = settings.instance or default_instance(service.name)
    logger = logs.get(service=service.name, instance=instance)
    async with AsyncExitStack() as held:
        health = Health()
        awaited = Awaited(health, logger)
        server = await _front(settings, health, logger)
        if server is not None:
            held.push_async_callback(server.stop)
        connection = await _connected(settings, f"{service.name}/{instance}", awaited, logger, stop)
        if connection is None:
            return
        held.push_async_callback(connection.close)
        fault_points.arm(settings.fault_points, service.name)
        enforce(settings.answer_limits)
        services = (service, *siblings)
        groups = groups_of(len(services))
        own = SharedReading(streams_of(services)) if siblings and shared is None else None
        runners: list[Runner[Any, Any]] = [
            Runner(
                each,
                {stream.name: JetStreamLog(connection, stream.name) for stream in STREAMS},
                NatsBus(connection),
                instance,
                options=options or LoopOptions(takeover_after=settings.takeover_after),
                clock=SystemClock(),
                metrics=KitMetrics(service.name),
                logger=logger.bind(shard_group=group.index) if siblings else logger,
                shared=own or shared,
                group=group,
            )
            for each, group in zip(services, groups, strict=True)
        ]
        for runner in runners:
            offer = runner.health.check if service.leads else runner.health.fact
            offer("connection", lambda: "" if connection.is_connected else "not connected to the log")
        if own is not None:
            held.push_async_callback(own.close)
        async with Supervisor(runners[0].health, runners[0].metrics.reads):
            await _live(runners, settings, connection, stop, ready, server)


async def _front(settings: Settings, health: Health, logger: Any) -> HealthServer | None:
    """Answers about this process from its first moment on: what it waits for may take long."""
    if settings.http_port < 0:
        return None
    registry = CollectorRegistry(auto_describe=False)
    process_metrics(registry)
    server = HealthServer(health, registry, settings.http_host, settings.http_port)
    await server.start()
    logger.info("listening", host=server.host, port=server.port)
    return server


async def _connected(
    settings: Settings, name: str, awaited: Awaited, logger: Any, stop: asyncio.Event
) -> Connection | None:
    """A connection to a log that has all its streams; None when asked to stop meanwhile."""
    try:
        asked = sizes(settings.topology_bytes) if settings.apply_topology else {}
    except RoomError as error:
        raise SettingsError(f"FLEETLOG_TOPOLOGY_BYTES: {error}") from None
    complaints = Complaints(logger, settings.nats_url)
    connection = await connect(settings, name, awaited, complaints, stop)
    if connection is None:
        return None
    try:
        usable = streams_usable(connection, settings, asked, awaited, complaints)
        if await first_of(usable, stop.wait()) is None:
            return connection
    except BaseException:
        await connection.close()
        raise
    await connection.close()
    return None


async def _live(
    runners: Sequence[Runner[Any, Any]],
    settings: Settings,
    connection: Connection,
    stop: asyncio.Event,
    ready: Ready | None,
    server: HealthServer | None,
) -> None:
    """Run a service below its Supervisor: what it starts from here on ends before this returns."""
    runner = runners[0]
    health, registry = runner.health, runner.metrics.registry
    if len(runners) > 1:
        health = Health()
        for each in runners:
            health.include(each.name, each.health)
        registry = GroupCollector.registry({str(each.group.index): each.metrics.registry for each in runners})
    process_metrics(registry)
    vault: Vault | None = None
    try:
        if server is not None:
            server.show(health, registry)
        if (key_file := keys_of(settings)) is not None:
            vault = Vault(runner.logs[KEYS], key_file)
            await vault.start()
            runner.health.fact("locked_secrets", lambda: vault.trouble if vault is not None else "")
        blobs = Blobs(runner.logs["BLOBS"], vault=vault, clock=runner.clock)
        async with AsyncExitStack() as started:
            for each in runners:
                await _hear_purges(connection, each)
                await _answer_for_itself(connection, each)
                await each.service.start(_context(each, connection, blobs))
                started.push_async_callback(each.service.stop)
            await _run_until(runners, stop, connection, ready)
    finally:
        if server is not None:
            await server.stop()
        if vault is not None:
            await vault.stop()


def _context(runner: Runner[Any, Any], connection: Connection, blobs: Blobs) -> Context[Any, Any]:
    return Context(
        logs=runner.logs,
        projection=runner.projection,
        mark=runner.mark,
        clock=runner.clock,
        blobs=blobs,
        health=runner.health,
        connection=connection,
        guard=runner.guard,
        restoration=runner.restoration,
        metrics=runner.metrics,
        appender=runner.appender,
        group=runner.group,
    )


async def _hear_purges(connection: Connection, runner: Runner[Any, Any]) -> None:
    """Let the service forget what the janitor announces to be gone."""

    async def hear(message: Msg) -> None:
        try:
            purged = msgspec.json.decode(message.data, type=Purged)
        except msgspec.MsgspecError:
            return  # A newer version encodes it in another way; the next start forgets as well.
        runner.projection.state.forget(purged)

    await connection.subscribe(PURGED, hear)


async def _answer_for_itself(connection: Connection, runner: Runner[Any, Any]) -> None:
    """Let the commands that look at an installation ask this instance how it is."""

    async def answer(message: Msg) -> None:
        if message.reply:
            await connection.publish(message.reply, msgspec.json.encode(runner.report()))

    await connection.subscribe(INSTANCES, answer)


async def _run_until(
    runners: Sequence[Runner[Any, Any]], stop: asyncio.Event, connection: Connection, ready: Ready | None
) -> None:
    """Run until asked to stop, the connection is closed for good, or a runner fails."""

    async def caught_up() -> None:
        for runner in runners:
            await runner.until(partial(_is_ready, runner))
        if ready is not None:
            ready(runners[0])

    parts = [runner.run() for runner in runners]
    if len(runners) > 1:
        parts.append(_balance(runners, connection).run())
    telling = spawn("catching-up", caught_up())
    try:
        await first_of(all_of(parts), stop.wait(), connection.closed.wait())
    finally:
        await end(telling)
    if connection.closed.is_set() and not stop.is_set():
        raise LogError("the server of the log closed the connection for good; are the credentials still valid?")


def _is_ready(runner: Runner[Any, Any]) -> bool:
    return runner.projection.ready


def _balance(runners: Sequence[Runner[Any, Any]], connection: Connection) -> ShardBalance:
    first = runners[0]
    return ShardBalance(
        first.service.name,
        first.lease.instance,
        [runner.lease for runner in runners],
        NatsBus(connection),
        lambda: all(map(_is_ready, runners)),
        first.clock,
        first.options.heartbeat,
    )


class Program(Generic[T, S]):
    """The program of one service: `main` of its `__main__`. `serving` runs it until an event is set."""

    def __init__(self, factory: Callable[[T], S], settings_type: type[T], serving: Serving[S]) -> None:
        self._factory = factory
        self._settings_type = settings_type
        self._serving = serving

    def __call__(self, arguments: Sequence[str] = ()) -> int:
        """Run until SIGTERM or SIGINT; the exit code of the process.

        `arguments` are flags (`--help` lists them), which go before variables.
        """
        try:
            kind = self._settings_type
            environment = with_flags(kind, arguments, package_of(kind))
            settings = load(kind, environment)
            service = self._factory(settings)
            instance = settings.instance or default_instance(service.name)
            logger = logs.configure(service.name, instance, settings.log_level)
            tell_unknown(kind, environment, logger)
        except (SettingsError, ValueError) as error:
            print(f"fleetlog: {error}", file=sys.stderr)  # noqa: T201 - logging is not set up yet
            return BAD_SETTINGS
        try:
            run_loop(self._until_signal(service, settings, logger))
        except EXPECTED as error:
            return ended_by(error, logger)
        logger.info("stopped")
        return OK

    async def _until_signal(self, service: S, settings: Settings, logger: Any) -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        logs.tell_strays(loop, logger)
        await self._serving(service, settings, stop, logger)

    def exit(self) -> NoReturn:
        """Run with the flags of the command line, and end the process."""
        code = self(sys.argv[1:])
        # At its end the interpreter would look through all objects once more, for seconds on a busy machine.
        gc.freeze()
        sys.exit(code)


def log_reader(factory: Callable[[T], AnyService], settings_type: type[T]) -> Program[T, AnyService]:
    """The program of a service that reads the log."""

    async def serving(service: AnyService, settings: Settings, stop: asyncio.Event, logger: Any) -> None:
        # The program loaded these settings: they are of the type that the factory takes.
        more = siblings_of(service, partial(factory, cast("T", settings)), settings)
        await _serve_logged(service, settings, stop, logger, more)

    return Program(factory, settings_type, serving)


def siblings_of(service: AnyService, make: Callable[[], AnyService], settings: Settings) -> list[AnyService]:
    """A service once more for every shard group but the first; raises SettingsError for a number that cannot be."""
    if not 1 <= settings.shard_groups <= MOST_GROUPS:
        raise SettingsError(f"FLEETLOG_SHARD_GROUPS is {settings.shard_groups}; it has to be 1 to {MOST_GROUPS}")
    return [make() for _ in range(1, settings.shard_groups)] if service.name in SHARED else []


def streams_of(services: Sequence[AnyService]) -> Counter[str]:
    """How many of the shard groups of a service read each stream."""
    groups = zip(services, groups_of(len(services)), strict=True)
    return Counter(stream for service, group in groups for stream in filters_of(service, group))


async def _serve_logged(
    service: AnyService, settings: Settings, stop: asyncio.Event, logger: Any, siblings: Sequence[AnyService]
) -> None:
    def ready(runner: Runner[Any, Any]) -> None:
        # Objects alive after the start live as long as the process: exclude them from garbage collection.
        gc.collect()
        gc.freeze()
        logger.info("ready", position=dict(runner.projection.position))

    await serve(service, settings, stop, ready, siblings=siblings)


def ended_by(error: BaseException, logger: Any) -> int:
    """Log what ended a service; returns the exit code for its supervisor."""
    match error:
        case LogReplaced():
            logger.error("log replaced", reason=str(error))
            return LOG_REPLACED
        case SettingsError():
            logger.error("settings", reason=str(error))
            return BAD_SETTINGS
        case LogError() | OSError():
            logger.error("stopped", reason=str(error))
        case _:
            logger.error("stopped", exc_info=error)
    return FAILED
