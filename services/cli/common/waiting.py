"""Waits until something is so, and knows what it waits for, so that a long wait can say it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from schemas.manifest import Manifest
from services._kit.kube.client import ApiError, KubeClient, Unreachable
from services.cli.common.running import NotReady

waiting: Final[dict[str, str]] = {}
"""What this process waits for, and the last complaint of each."""


async def wait_until(what: str, look: Callable[[], Awaitable[str]], seconds: float) -> None:
    """Look again and again until there is no complaint left; raises NotReady with the last one."""
    deadline = time.monotonic() + seconds
    pause = 0.02
    while True:
        complaint = waiting[what] = await look()
        if not complaint:
            waiting.pop(what, None)
            return
        if time.monotonic() > deadline:
            raise NotReady(f"{what}: {complaint}")
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, 0.25)


def condition(item: Manifest, kind: str) -> Manifest:
    """The condition of a type in the status of an object; empty where it has none."""
    conditions = (item.get("status") or {}).get("conditions") or ()
    return next((each for each in conditions if each["type"] == kind), {})


@asynccontextmanager
async def opened(source: Path | Manifest) -> AsyncIterator[KubeClient]:
    """A client of the API server that a kubeconfig names (its file, or decoded), closed afterwards."""
    client = await KubeClient.from_kubeconfig(source)
    try:
        yield client
    finally:
        await client.close()


async def answers(member: KubeClient) -> str:
    """Nothing when an API server is there, else what is wrong."""
    try:
        await member.request("GET", "/readyz", accept="*/*", timeout=5.0)
    except (ApiError, Unreachable) as error:
        return str(error)
    return ""
