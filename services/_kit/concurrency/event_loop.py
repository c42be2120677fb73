"""Runs a process: the fastest event loop there is, and an end that comes soon after its work has ended."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from collections.abc import Coroutine
from typing import Any, Final

from services._kit.base import logs

OK: Final = 0
FAILED: Final = 1
CLOSING_SECONDS: Final = 5.0
"""How long the tasks of a process may take to end once its work has ended."""
GC_THRESHOLDS: Final = (25_000, 20, 20)
"""Decoded manifests are many small containers without cycles: the default would scan them every 700 objects."""


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
