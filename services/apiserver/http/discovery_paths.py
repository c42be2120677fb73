"""Paths outside resources: discovery, version, health, metrics and the OpenAPI documents."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec
from aiohttp import web

from services.apiserver.controllers.aggregation.aggregated_proxy import Backend
from services.apiserver.core import status_errors as status
from services.apiserver.core.delegated_resources import Delegated, listed, with_discovered, with_listed
from services.apiserver.core.request import version_document
from services.apiserver.core.status_errors import PlainError
from services.apiserver.flow.work_aside import WorkAside
from services.apiserver.http import aggregated_discovery as merging
from services.apiserver.http.handler import Answer, Request
from services.apiserver.kinds.registry import Registry
from services.apiserver.reads.negotiation import discovery_media, discovery_version, negotiate, not_acceptable

if TYPE_CHECKING:
    from services.apiserver.openapi.serve import Document

Find = Callable[[str, str], "Document | None"]
"""(path, Accept) -> the OpenAPI document, or None when the path is unknown."""

_CHECKS = ("ping", "log", "etcd")
_TASKS = "tasks"
_REASONS = {
    **dict.fromkeys(("log", "etcd"), "the log does not answer"),
    _TASKS: "one failed and is started again; the log of the server says why",
}


class Discovery:
    """Answers GET requests for everything that describes the server."""

    def __init__(
        self,
        registry: Registry,
        git_version: str,
        ready: Callable[[], bool],
        openapi: Find,
        tasks_run: Callable[[], bool] = lambda: True,
    ) -> None:
        self._registry = registry
        self._git_version = git_version
        self._ready = ready
        self._tasks_run = tasks_run
        self._openapi = openapi
        self._turn = asyncio.Lock()
        self.aside = WorkAside()
        """Makes documents."""
        self.address = ""
        self.extra: Callable[[], list[Backend]] = list
        """Group versions that other servers answer for."""
        self.delegated: Callable[[], list[Delegated]] = list
        """Resources of this server's group versions that other servers answer for."""

    async def route(self, request: Request, parts: list[str]) -> Answer | web.StreamResponse | None:
        """Answer a path this object knows."""
        first = parts[0] if parts else ""
        if first in ("healthz", "livez", "readyz"):
            return self._health(request, parts)
        if first in ("api", "apis") and len(parts) <= (2 if first == "api" else 3):
            return self._discover(request, parts)
        if not parts:
            return Answer(200, msgspec.json.encode({"paths": self._paths()}))
        if first == "version" and len(parts) == 1:
            return Answer(200, msgspec.json.encode(version_document(self._git_version)))
        if first == "metrics" and len(parts) == 1:
            from prometheus_client import generate_latest

            return Answer(200, generate_latest(), media="text/plain; version=0.0.4; charset=utf-8")
        if first == "openapi":
            found = await self._document(request.path, request.http.headers.get("Accept", ""))
            if found is not None:
                if parts[1:] == ["v3"] and self.extra():
                    index = merging.openapi_index(msgspec.json.decode(found.body), self.extra())
                    return Answer(200, msgspec.json.encode(index), media=found.media)
                return Answer(200, found.body, media=found.media)
        return None

    async def _document(self, path: str, accept: str) -> "Document | None":
        """An OpenAPI document; it is made aside of the event loop after each change of the kinds, one at a time."""
        async with self._turn:
            for _ in range(3):
                try:
                    return await self.aside.run("openapi", self.aside.heavy, self._openapi, path, accept)
                except (RuntimeError, KeyError):
                    # Kinds changed meanwhile.
                    continue
            return self._openapi(path, accept)

    # -- discovery documents

    def _discover(self, request: Request, parts: list[str]) -> Answer:
        accept = request.http.headers.get("Accept", "")
        registry = self._registry
        if len(parts) == 1:
            version = discovery_version(accept)
            if version:
                document = registry.aggregated(core=parts[0] == "api", version=version)
                if parts[0] == "apis":
                    document = with_discovered(document, self.delegated(), self.served)
                    document = merging.aggregated(document, self.extra(), self._priorities())
                body = msgspec.json.encode(document)
                return Answer(200, body, media=discovery_media(version))
            _check_form(accept)
            if parts[0] == "api":
                return Answer(200, msgspec.json.encode(registry.api_versions(self.address)))
            return Answer(
                200,
                msgspec.json.encode(merging.group_list(registry.api_group_list(), self.extra(), self._priorities())),
            )
        _check_form(accept)
        if parts[0] == "api":
            found = registry.api_resource_list("", parts[1])
        elif len(parts) == 2:
            found = merging.group(parts[1], registry.api_group(parts[1]), self.extra())
        else:
            more = listed(self.delegated(), parts[1], parts[2], self.served)
            found = with_listed(registry.api_resource_list(parts[1], parts[2]), more)
        if found is None:
            raise PlainError(404, "404 page not found\n")
        if request.method not in ("GET", "HEAD") and len(parts) == 3:
            raise status.method_not_allowed()
        return Answer(200, msgspec.json.encode(found))

    def served(self, group: str, version: str, plural: str) -> str | None:
        """The kind that this server stores at a path."""
        kind = self._registry.find(group, version, plural)
        return kind.resource.kind if kind is not None else None

    def _priorities(self) -> dict[str, int]:
        best: dict[str, int] = {}
        for group, _, priority, _ in self._registry.group_versions():
            best[group] = max(priority, best.get(group, 0))
        return best

    def _paths(self) -> list[str]:
        out = ["/api", "/apis", "/healthz", "/livez", "/metrics", "/openapi/v2", "/readyz", "/version"]
        for group, version, _, _ in self._registry.group_versions():
            out += [f"/apis/{group}", f"/apis/{group}/{version}"] if group else [f"/api/{version}"]
        return sorted(set(out))

    # -- health

    def _health(self, request: Request, parts: list[str]) -> Answer:
        excluded = request.query.get("exclude", "")
        # Who lives although a task is being started again is not to be killed for that.
        checks = (*_CHECKS, _TASKS) if parts[0] == "readyz" else _CHECKS
        if len(parts) > 2 or (len(parts) == 2 and parts[1] not in checks):
            raise PlainError(404, "404 page not found\n")
        good = {"ping": True, "log": self._ready(), "etcd": self._ready(), _TASKS: self._tasks_run()}
        names = [parts[1]] if len(parts) == 2 else list(checks)
        failed = [n for n in names if not good[n] and n != excluded]
        code = 500 if failed else 200
        text = "text/plain; charset=utf-8"
        if "verbose" not in request.query and not failed:
            return Answer(code, b"ok", media=text)
        lines = []
        for name in names:
            if name == excluded:
                lines.append(f"[+]{name} excluded: ok")
            else:
                lines.append(f"[+]{name} ok" if good[name] else f"[-]{name} failed: {_REASONS[name]}")
        if excluded and excluded not in checks:
            lines.append(f'warn: some health checks cannot be excluded: no matches for "{excluded}"')
        lines.append(f"{parts[0]} check {'failed' if failed else 'passed'}")
        return Answer(code, ("\n".join(lines) + "\n").encode(), media=text)


def _check_form(accept: str) -> None:
    plain = ",".join(c for c in accept.split(",") if "as=" not in c)
    if accept and plain and negotiate(plain) is None:
        raise not_acceptable()
