"""The events of one open watch, as its client reads them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp

from services.search.union.provenance_marks import CACHED_FROM
from services.search.union.version_map import VersionMap, read_version
from tests.support.waiting import PATIENCE


class Watching:
    """A watch that has begun."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self._answer = answer

    async def next(self) -> dict[str, Any]:
        """The next event; empty at the end."""
        async with asyncio.timeout(PATIENCE):
            line = await self._answer.content.readline()
        return json.loads(line) if line else {}

    async def some(self, count: int) -> list[dict[str, Any]]:
        """So many events."""
        return [await self.next() for _ in range(count)]


def told(event: dict[str, Any]) -> tuple[str, str, str]:
    """Kind of change, cluster and name."""
    metadata = event["object"]["metadata"]
    return event["type"], metadata["annotations"][CACHED_FROM], metadata["name"]


def versions(event: dict[str, Any]) -> VersionMap:
    """What an event says of the versions of all clusters."""
    return read_version(event["object"]["metadata"]["resourceVersion"])
