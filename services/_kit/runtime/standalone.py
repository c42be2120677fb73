"""Runs a service that reads no log: settings, logs, health, metrics and a graceful stop, as every other service has."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from services._kit.base.answer_limits import enforce
from services._kit.base.health import Health, HealthServer
from services._kit.base.metrics import KitMetrics, process_metrics
from services._kit.base.settings import Settings
from services._kit.concurrency.supervision import Supervisor
from services._kit.runtime.service_wiring import Program

T = TypeVar("T", bound=Settings)


class Surroundings(Struct, frozen=True, eq=False):
    """What a running service may use; handed to its `start`."""

    health: Health
    metrics: KitMetrics


class Standalone(Protocol):
    """A service that answers by what it is asked; its tasks end with it."""

    name: str

    async def start(self, surroundings: Surroundings) -> None:
        """Open connections, register metrics, listen."""

    async def stop(self) -> None:
        """The last call: close connections."""


async def serve_standalone(service: Standalone, settings: Settings, stop: asyncio.Event, logger: Any) -> None:
    """Run a service until `stop` is set; raises OSError where it cannot listen."""
    enforce(settings.answer_limits)
    health, metrics = Health(), KitMetrics(service.name)
    process_metrics(metrics.registry)
    async with Supervisor(health, metrics.reads):
        server: HealthServer | None = None
        try:
            await service.start(Surroundings(health, metrics))
            if settings.http_port >= 0:
                server = HealthServer(health, metrics.registry, settings.http_host, settings.http_port)
                await server.start()
                logger.info("listening", host=server.host, port=server.port)
            logger.info("ready")
            await stop.wait()
        finally:
            await service.stop()
            if server is not None:
                await server.stop()


def standalone(factory: Callable[[T], Standalone], settings_type: type[T]) -> Program[T, Standalone]:
    """The program of a service that reads no log."""
    return Program(factory, settings_type, serve_standalone)
