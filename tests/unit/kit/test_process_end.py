"""A process ends soon after its work, with the code of it, whatever its tasks do."""

from __future__ import annotations

import subprocess
import sys

import pytest

CODE = """
import asyncio
from services._kit.concurrency import event_loop

event_loop.CLOSING_SECONDS = 0.1


async def endless(began):
    began.set()
    while True:
        try:
            await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            continue


async def main():
    began = asyncio.Event()
    kept = asyncio.get_running_loop().create_task(endless(began))
    await began.wait()
    {end}


event_loop.run_loop(main())
"""


@pytest.mark.parametrize(("end", "code"), [("return", 0), ("raise SystemExit(3)", 3), ("raise ValueError('x')", 1)])
def test_a_task_that_ignores_its_end_keeps_no_process(end: str, code: int) -> None:
    source = CODE.replace("{end}", end)
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code, done.stderr
