"""Wires one service to the log and runs it: the only place that knows concrete classes.

`log_reader` makes what `python -m services.<name>` calls; `serve` does the same in a process that runs several.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final, Generic, NoReturn, Protocol, TypeVar

import msgspec
from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from schemas.hints import Purged
from schemas.subjects import INSTANCES, PURGED
from schemas.topology import STREAMS
from services._kit.base import fault_points, logs
from services._kit.base.answer_limits import enforce
from services._kit.base.clock import SystemClock
from services._kit.base.flags import package_of, with_flags
from services._kit.base.health import HealthServer
from services._kit.base.log_errors import LogError, LogReplaced
from services._kit.base.metrics import KitMetrics, process_metrics
from services._kit.base.settings import Settings, SettingsError, credentials, load, tls_context
from services._kit.concurrency.supervision import Supervisor, spawn
from services._kit.concurrency.tasks import end, first_of
from services._kit.content.blobs import Blobs
from services._kit.content.envelope_encryption import KEYS, Vault, keys_of
from services._kit.log import streams as topology
from services._kit.log.connection import Connection
from services._kit.log.heartbeat_bus import NatsBus
from services._kit.log.ids import default_instance
from services._kit.log.jetstream import JetStreamLog
from services._kit.log.stream_port import Log
from services._kit.runtime.decision_loop import LoopOptions
from services._kit.runtime.runner import Runner
from services._kit.runtime.service import AnyService, Context
from services._kit.runtime.shared_consumer import SharedReading
from services._rules.log.stream_limits import RoomError, sizes

OK: Final = 0
FAILED: Final = 1
BAD_SETTINGS: Final = 2
LOG_REPLACED: Final = 3
"""The process holds the state of a log that is gone: its supervisor has to restart it."""
CONNECT_PATIENCE: Final = 60.0
CLOSING_SECONDS: Final = 5.0
"""How long the tasks of a process may take to end once its work has ended."""
GC_THRESHOLDS: Final = (25_000, 20, 20)
"""Decoded manifests are many small containers without cycles: the default would scan them every 700 objects."""

EXPECTED: Final = (LogReplaced, SettingsError, LogError, OSError)
"""What may end a service without being a bug."""


class Named(Protocol):
    """What a program asks of its service."""

    name: str


T = TypeVar("T", bound=Settings)
S = TypeVar("S", bound=Named)
Serving = Callable[[S, Settings, asyncio.Event, Any], Awaitable[None]]
Ready = Callable[[Runner[Any, Any]], None]


async def connect(settings: Settings, name: str, logger: Any, stop: asyncio.Event) -> Connection | None:
    """Connect to the log, waiting a minute for its server; None when asked to stop meanwhile, LogError after that."""
    problem = ""

    def complain(error: Exception) -> None:
        nonlocal problem
        if (text := f"{type(error).__name__}: {error}") != problem:
            problem = text
            logger.warning("connection trouble", url=settings.nats_url, reason=text)

    # The client itself retries without end once it is set to reconnect without end.
    opening = Connection.open(
        settings.nats_url, name=name, on_error=complain, tls=tls_context(settings), **credentials(settings)
    )
    try:
        opened = await first_of(opening, stop.wait(), seconds=CONNECT_PATIENCE)
    except TimeoutError:
        raise LogError(f"no server of the log answers at {settings.nats_url}: {problem}") from None
    except (NatsError, OSError) as error:
        raise LogError(f"the log at {settings.nats_url} cannot be used: {error}") from error
    return opened if isinstance(opened, Connection) else None


async def serve(
    service: AnyService,
    settings: Settings,
    stop: asyncio.Event,
    ready: Ready | None = None,
    options: LoopOptions | None = None,
    shared: SharedReading | None = None,
) -> None:
    """Run a service until `stop` is set; `ready` is called once its projection is complete.

    With `shared` the streams are read together with other services of this process.

    Raises LogReplaced when it has to restart with an empty state, LogError when the log cannot be used.
    """
    instance = settings.instance or default_instance(service.name)
    logger = logs.get(service=service.name, instance=instance)
    connection = await connect(settings, f"{service.name}/{instance}", logger, stop)
    if connection is None:
        return
    fault_points.arm(settings.fault_points, service.name)
    enforce(settings.answer_limits)
    try:
        if settings.apply_topology:
            try:
                asked = sizes(settings.topology_bytes)
            except RoomError as error:
                raise SettingsError(f"FLEETLOG_TOPOLOGY_BYTES: {error}") from None
            await topology.apply(connection, replicas=settings.topology_replicas, sizes=asked)
        problems = await topology.check(connection)
        for problem in problems:
            logger.error("topology", problem=problem)
        if problems:
            raise LogError(f"the streams are not as this version needs them: {problems[0]}")
        streams: dict[str, Log] = {stream.name: JetStreamLog(connection, stream.name) for stream in STREAMS}
        metrics = KitMetrics(service.name)
        process_metrics(metrics.registry)
        options = options or LoopOptions(takeover_after=settings.takeover_after)
        runner: Runner[Any, Any] = Runner(
            service,
            streams,
            NatsBus(connection),
            instance,
            options=options,
            clock=SystemClock(),
            metrics=metrics,
            logger=logger,
            shared=shared,
        )
        runner.health.check("connection", lambda: "" if connection.is_connected else "not connected to the log")
        async with Supervisor(runner.health, metrics.reads):
            await _live(service, settings, connection, runner, metrics, stop, ready)
    finally:
        await connection.close()


async def _live(
    service: AnyService,
    settings: Settings,
    connection: Connection,
    runner: Runner[Any, Any],
    metrics: KitMetrics,
    stop: asyncio.Event,
    ready: Ready | None,
) -> None:
    """Run a service below its Supervisor: what it starts from here on ends before this returns."""
    logger = logs.get(service=service.name, instance=runner.lease.instance)
    server: HealthServer | None = None
    vault: Vault | None = None
    try:
        if settings.http_port >= 0:
            server = HealthServer(runner.health, metrics.registry, settings.http_host, settings.http_port)
            await server.start()
            logger.info("listening", host=server.host, port=server.port)
        if (key_file := keys_of(settings)) is not None:
            vault = Vault(runner.logs[KEYS], key_file)
            await vault.start()
            runner.health.fact("locked_secrets", lambda: vault.trouble if vault is not None else "")
        context: Context[Any, Any] = Context(
            logs=runner.logs,
            projection=runner.projection,
            mark=runner.mark,
            clock=runner.clock,
            blobs=Blobs(runner.logs["BLOBS"], vault=vault, clock=runner.clock),
            health=runner.health,
            connection=connection,
            guard=runner.guard,
            restoration=runner.restoration,
            metrics=metrics,
            appender=runner.appender,
        )
        await _hear_purges(connection, runner)
        await _answer_for_itself(connection, runner)
        await service.start(context)
        try:
            await _run_until(runner, stop, connection, ready)
        finally:
            await service.stop()
    finally:
        if server is not None:
            await server.stop()
        if vault is not None:
            await vault.stop()


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
    runner: Runner[Any, Any], stop: asyncio.Event, connection: Connection, ready: Ready | None
) -> None:
    """Run until asked to stop, the connection is closed for good, or the runner fails."""

    async def caught_up() -> None:
        await runner.until(lambda: runner.projection.ready)
        if ready is not None:
            ready(runner)

    telling = spawn("catching-up", caught_up())
    try:
        await first_of(runner.run(), stop.wait(), connection.closed.wait())
    finally:
        await end(telling)
    if connection.closed.is_set() and not stop.is_set():
        raise LogError("the server of the log closed the connection for good; are the credentials still valid?")


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
            settings = load(kind, with_flags(kind, arguments, package_of(kind)))
            service = self._factory(settings)
            instance = settings.instance or default_instance(service.name)
            logger = logs.configure(service.name, instance, settings.log_level)
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
        sys.exit(self(sys.argv[1:]))


def log_reader(factory: Callable[[T], AnyService], settings_type: type[T]) -> Program[T, AnyService]:
    """The program of a service that reads the log."""
    return Program(factory, settings_type, _serve_logged)


async def _serve_logged(service: AnyService, settings: Settings, stop: asyncio.Event, logger: Any) -> None:
    def ready(runner: Runner[Any, Any]) -> None:
        # Objects alive after the start live as long as the process: exclude them from garbage collection.
        gc.collect()
        gc.freeze()
        logger.info("ready", position=dict(runner.projection.position))

    await serve(service, settings, stop, ready)


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


def run_loop(main: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine on the fastest event loop there is, and end the process soon after it.

    A task that does not end when it is cancelled, as that of a client which reconnects, would keep the process.
    """
    gc.set_threshold(*GC_THRESHOLDS)
    closing: list[threading.Timer] = []

    async def run() -> None:
        code = FAILED
        try:
            await main
            code = OK
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else FAILED
            raise
        finally:
            timer = threading.Timer(CLOSING_SECONDS, _leave, (code,))
            timer.daemon = True
            timer.start()
            closing.append(timer)

    try:
        import uvloop
    except ImportError:
        runner = asyncio.run
    else:
        runner = uvloop.run
    try:
        runner(run())
    finally:
        for timer in closing:
            timer.cancel()


def _leave(code: int) -> None:
    logs.get().warning("tasks_do_not_end", seconds=CLOSING_SECONDS)
    os._exit(code)
