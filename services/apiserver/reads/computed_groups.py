"""Group versions whose resources are no kinds: what is read there is computed for each request.

Custom and external metrics are such: what they serve changes with what is measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from aiohttp import web

from schemas.manifest import Manifest
from services.apiserver.core.status_errors import method_not_allowed

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from services.apiserver.http.handler import Request


class ComputedGroup(Protocol):
    """One group; `versions` begin with the preferred one."""

    group: str
    versions: tuple[str, ...]

    def resources(self, version: str) -> list[dict[str, Any]]:
        """Entries of an APIResourceList."""
        ...

    def answer(self, version: str, parts: Sequence[str], query: dict[str, str]) -> Manifest:
        """What is read at a path below the version; raises ApiError."""
        ...


class ComputedGroups:
    """All such groups of one server."""

    def __init__(self) -> None:
        self._groups: dict[str, ComputedGroup] = {}

    def add(self, group: ComputedGroup) -> None:
        """Answer for a group."""
        self._groups[group.group] = group

    def __iter__(self) -> Iterator[ComputedGroup]:
        return iter(self._groups.values())

    def route(self, request: Request, parts: list[str]) -> Awaitable[web.StreamResponse | None] | None:
        """Answer a path of such a group; None for every other path."""
        if len(parts) < 3 or parts[0] != "apis":
            return None
        group = self._groups.get(parts[1])
        if group is None or parts[2] not in group.versions:
            return None
        return self._answered(request, group, parts[2], parts[3:])

    async def _answered(
        self, request: Request, group: ComputedGroup, version: str, parts: list[str]
    ) -> web.StreamResponse:
        if request.method not in ("GET", "HEAD"):
            raise method_not_allowed()
        if parts:
            found = group.answer(version, parts, request.query)
        else:
            found = {
                "kind": "APIResourceList",
                "apiVersion": "v1",
                "groupVersion": f"{group.group}/{version}",
                "resources": group.resources(version),
            }
        return web.Response(body=msgspec.json.encode(found), content_type="application/json")
