"""Runs several services in one process and one event loop, each with its own connection, lease, port and log file.

For services that nothing waits for, where memory counts: a process costs more than what one of them needs. Their
streams are read once for all. When one ends, all do: the supervisor of the process starts them together again.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from msgspec import Struct

from services._kit.base import logs
from services._kit.base.settings import Settings, SettingsError, load, tell_unknown
from services._kit.concurrency.event_loop import FAILED, OK, run_loop
from services._kit.concurrency.tasks import all_of
from services._kit.log.ids import default_instance
from services._kit.runtime.runner import Runner
from services._kit.runtime.service import AnyService
from services._kit.runtime.service_wiring import (
    BAD_SETTINGS,
    ended_by,
    serve,
    siblings_of,
    streams_of,
)
from services._kit.runtime.shared_consumer import SharedReading


class Part(Struct, frozen=True):
    """One of the services: how it is made, its variables (over those of the process), and where it logs."""

    factory: Callable[[Any], AnyService]
    settings_type: type[Settings]
    environment: Mapping[str, str]
    log: Path


class _Made(Struct, frozen=True):
    service: AnyService
    siblings: Sequence[AnyService]
    settings: Settings
    environment: Mapping[str, str]
    log: Path


def run_services(parts: Sequence[Part]) -> int:
    """Run services until SIGTERM or SIGINT, or until one of them ends; the exit code of the process."""
    try:
        made = [_make(part) for part in parts]
        logs.configure_several(part.settings.log_level for part in made)
    except (SettingsError, ValueError) as error:
        print(f"fleetlog: {error}", file=sys.stderr)  # noqa: T201 - logging is not set up yet
        return BAD_SETTINGS
    codes: list[int] = []
    with ExitStack() as opened:
        files = [opened.enter_context(part.log.open("ab")) for part in made]
        run_loop(_until_signal(list(zip(made, files, strict=True)), codes))
    return next((code for code in codes if code != OK), OK)


def _make(part: Part) -> _Made:
    environment = {**os.environ, **part.environment}
    settings = load(part.settings_type, environment)
    service = part.factory(settings)
    siblings = siblings_of(service, partial(part.factory, settings), settings)
    return _Made(service, siblings, settings, environment, part.log)


async def _until_signal(parts: Sequence[tuple[_Made, BinaryIO]], codes: list[int]) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    logs.tell_strays(loop, logs.get())
    reading: Counter[str] = Counter()
    for part, _ in parts:
        reading.update(streams_of((part.service, *part.siblings)))
    shared = SharedReading(reading)
    not_ready = {part.service.name for part, _ in parts}

    def ready(name: str) -> None:
        not_ready.discard(name)
        if not not_ready:
            # Objects alive after the start live as long as the process: exclude them from garbage collection.
            gc.collect()
            gc.freeze()

    try:
        await all_of(_serve(part, file, stop, shared, codes, ready) for part, file in parts)
    finally:
        await shared.close()


async def _serve(
    part: _Made,
    file: BinaryIO,
    stop: asyncio.Event,
    shared: SharedReading,
    codes: list[int],
    ready: Callable[[str], None],
) -> None:
    """Run one service; however it ends, the others are asked to stop."""
    name, settings = part.service.name, part.settings
    logs.write_to(file, settings.log_level)
    logger = logs.get(service=name, instance=settings.instance or default_instance(name))
    tell_unknown(type(settings), part.environment, logger)

    def started(runner: Runner[Any, Any]) -> None:
        logger.info("ready", position=dict(runner.projection.position))
        ready(name)

    try:
        await serve(part.service, settings, stop, started, shared=shared, siblings=part.siblings)
    except Exception as error:  # noqa: BLE001 - reported in the log of the service, and by the exit code
        codes.append(ended_by(error, logger))
    else:
        logger.info("stopped")
        # A service that ends before `stop` is set has failed, also without an exception.
        codes.append(OK if stop.is_set() else FAILED)
    finally:
        stop.set()
