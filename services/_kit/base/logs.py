"""Structured logs: one JSON object per line on standard error, fast, and never with a payload in it.

A process that runs several services gives each its own file: what is logged in the context of a service goes there.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Iterable, MutableMapping
from contextvars import ContextVar
from typing import Any, BinaryIO, Final, cast

import msgspec
import structlog

LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40}
_encoder = msgspec.json.Encoder(enc_hook=str)
_place: ContextVar[tuple[BinaryIO, int] | None] = ContextVar("place", default=None)
"""Where the service of this context logs, and from which level on; None: the process's standard error, everything."""


def render(_: Any, __: str, event: MutableMapping[str, Any]) -> bytes:
    """The line of one event: `event` first, then the rest in order."""
    return _encoder.encode({"event": event.pop("event", ""), **event})


def configure(service: str, instance: str, level: str = "info", stream: BinaryIO | None = None) -> Any:
    """Set up logging of this process and return its logger; raises ValueError for an unknown level."""
    _set_up(_number(level), stream or cast("BinaryIO", _Placed()))
    return structlog.get_logger(service=service, instance=instance)


def configure_several(levels: Iterable[str]) -> None:
    """Set up logging of a process that runs several services; each calls `write_to` in its own context."""
    _set_up(min(map(_number, levels)), cast("BinaryIO", _Placed()), _drop_quieter)


def write_to(file: BinaryIO, level: str) -> None:
    """Log to this file from now on, in this context and in tasks that it starts; raises ValueError."""
    _place.set((file, _number(level)))


def _number(level: str) -> int:
    if level.lower() not in LEVELS:
        raise ValueError(f"log level {level!r} is none of {', '.join(LEVELS)}")
    return LEVELS[level.lower()]


class _Placed:
    """The file of the current writer, resolved on each access: standard error may be another one by then."""

    def write(self, line: bytes) -> int:
        return self._file().write(line)

    def flush(self) -> None:
        self._file().flush()

    def _file(self) -> BinaryIO:
        place = _place.get()
        return sys.stderr.buffer if place is None else place[0]


def _drop_quieter(_: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Keep to the level of the service whose context this is: that of the process is the lowest of all."""
    place = _place.get()
    if place is not None and LEVELS.get(method, place[1]) < place[1]:
        raise structlog.DropEvent
    return event


def _set_up(number: int, stream: BinaryIO, *first: Any) -> None:
    structlog.configure(
        processors=[
            *first,
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            render,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.BytesLoggerFactory(stream),
        cache_logger_on_first_use=True,
    )
    logging.getLogger("nats").setLevel(logging.CRITICAL)


def tell_strays(loop: asyncio.AbstractEventLoop, logger: Any) -> None:
    """Log unawaited exceptions as any other event; a connection that broke while it was idle is no bug."""

    def log_stray(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        message = str(context.get("message", ""))
        # Of a handshake that was cut off, an event loop tells without the connection.
        if "transport" in context or "protocol" in context or isinstance(error, ConnectionError):
            logger.warning("connection broke", what=message, reason=f"{type(error).__name__}: {error}")
        else:
            logger.error("stray error", what=message, exc_info=error)

    loop.set_exception_handler(log_stray)


def get(**bound: Any) -> Any:
    """A logger with more fields bound."""
    return structlog.get_logger(**bound)
