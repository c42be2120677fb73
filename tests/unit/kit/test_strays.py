"""What nothing waited for is logged: a bug as an error, a connection that broke as what it is."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from services._kit.base.logs import tell_strays


@pytest.mark.parametrize(
    ("context", "event", "level"),
    [
        ({"exception": KeyError("cluster")}, "stray error", "error"),
        ({"message": "no exception"}, "stray error", "error"),
        ({"exception": KeyError("x"), "transport": object()}, "connection broke", "warning"),
        ({"exception": ConnectionResetError()}, "connection broke", "warning"),
        ({"exception": BrokenPipeError()}, "connection broke", "warning"),
    ],
)
async def test_strays_are_told_as_what_they_are(context: dict[str, Any], event: str, level: str) -> None:
    loop = asyncio.get_running_loop()
    tell_strays(loop, structlog.get_logger())
    try:
        with capture_logs() as logged:
            loop.call_exception_handler({"message": "a future", **context})
    finally:
        loop.set_exception_handler(None)
    assert [(line["event"], line["log_level"]) for line in logged] == [(event, level)]
