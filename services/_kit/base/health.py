"""Serves liveness, readiness and metrics of a process: /healthz, /readyz and /metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

Check = Callable[[], str]


class Health:
    """Named checks; each gives a reason why the process is not ready, or an empty text."""

    def __init__(self) -> None:
        self._checks: dict[str, Check] = {}
        self._facts: dict[str, Callable[[], Any]] = {}
        self._parts: dict[str, Health] = {}

    def check(self, name: str, check: Check) -> None:
        """Add or replace a check."""
        self._checks[name] = check

    def fact(self, name: str, value: Callable[[], Any]) -> None:
        """Add a value that /readyz shows beside the reasons."""
        self._facts[name] = value

    def include(self, name: str, part: Health) -> None:
        """Add the checks and values of a part under its name."""
        self._parts[name] = part

    def reasons(self) -> dict[str, str]:
        """Why the process is not ready, by check; empty when it is."""
        found = {name: _asked(check) for name, check in self._checks.items()}
        for part, health in self._parts.items():
            found |= {f"{part}: {name}": reason for name, reason in health.reasons().items()}
        return {name: reason for name, reason in found.items() if reason}

    def reason(self, name: str) -> str | None:
        """Why one check does not pass, empty where it does; None without such a check."""
        check = self._checks.get(name)
        return None if check is None else _asked(check)

    @property
    def ready(self) -> bool:
        """Whether every check passes."""
        return not self.reasons()

    def document(self) -> dict[str, Any]:
        """What /readyz answers."""
        reasons = self.reasons()
        parts = {name: health.facts() for name, health in self._parts.items()}
        return {"ready": not reasons, "reasons": reasons, **self.facts(), **parts}

    def facts(self) -> dict[str, Any]:
        """What /readyz shows beside the reasons."""
        return {name: value() for name, value in self._facts.items()}


def _asked(check: Check) -> str:
    try:
        return check()
    except Exception as error:  # noqa: BLE001 - a check that fails is not ready; the other checks still run
        return f"the check failed: {type(error).__name__}: {error}"


class HealthServer:
    """The HTTP server; `port` is known after `start`."""

    def __init__(self, health: Health, registry: CollectorRegistry, host: str = "127.0.0.1", port: int = 0) -> None:
        self.health = health
        self.registry = registry
        self.host = host
        self.port = port
        self.app = web.Application()
        self.app.add_routes(
            [
                web.get("/healthz", self._healthz),
                web.get("/livez", self._healthz),
                web.get("/readyz", self._readyz),
                web.get("/readyz/{check}", self._checked),
                web.get("/metrics", self._metrics),
            ]
        )
        self._runner: web.AppRunner | None = None

    def show(self, health: Health, registry: CollectorRegistry) -> None:
        """Answer with this from now on: what was there before was for the time of waiting."""
        self.health, self.registry = health, registry

    async def start(self) -> None:
        """Listen; raises OSError when the port is taken."""
        self._runner = web.AppRunner(self.app, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self.host, self.port)
        await site.start()
        for address in self._runner.addresses:
            self.port = address[1]

    async def stop(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _healthz(self, _: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def _readyz(self, _: web.Request) -> web.Response:
        document = self.health.document()
        return web.Response(
            body=msgspec.json.encode(document),
            status=200 if document["ready"] else 503,
            content_type="application/json",
        )

    async def _checked(self, request: web.Request) -> web.Response:
        reason = self.health.reason(request.match_info["check"])
        if reason is None:
            raise web.HTTPNotFound(text="there is no check of this name")
        return web.Response(text=reason or "ok", status=503 if reason else 200)

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=generate_latest(self.registry), headers={"Content-Type": CONTENT_TYPE_LATEST})
