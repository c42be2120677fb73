"""Runs one container of a pod: starts it again when it ended, asks its probes, and ends it with its hook."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import structlog
from docker.errors import APIError, NotFound
from docker.models.containers import Container

from schemas.manifest import Manifest
from services._kit.concurrency.tasks import first_of, set_within
from tests.containers.cluster.pod_options import Unsupported, probe_of
from tests.containers.cluster.probes import asked, until_failed

log = structlog.get_logger(__name__)
PAUSES: Final = (1.0, 2.0, 4.0, 10.0)


class PodContainer:
    """One container from its making to the end of its pod; `made` is what the engine has of it."""

    def __init__(self, spec: Manifest, name: str, address: str, changed: Callable[[], Awaitable[None]]) -> None:
        """`changed` is told when the status is another one."""
        self.spec = spec
        self.name = name
        self.made: Container | None = None
        self.restarts = 0
        self.ready = False
        self.began = ""
        self._address = address
        self._changed = changed
        self._died = asyncio.Event()
        self._code = 0
        self._started = False
        self._running = False
        self._last: Manifest = {}

    def ended(self, code: int) -> None:
        """The engine says that the container ended."""
        self._code = code
        self._running = False
        self._died.set()

    async def run(self, doomed: asyncio.Event, grace: Callable[[], float]) -> None:
        """Run what was made until the pod is doomed; `grace` says then how long the end may take."""
        assert self.made is not None
        container = self.made
        while not doomed.is_set():
            self._died.clear()
            self._running, self.ready, self._started = True, False, probe_of(self.spec, "startupProbe") is None
            self.began = now()
            await asyncio.to_thread(container.start)
            await self._changed()
            reason = await first_of(self._probed(container), _named(self._died, ""), _named(doomed, ""))
            self.ready = False
            if doomed.is_set():
                break
            if reason:
                log.warning("a container is ended by its probe", container=self.name, probe=reason)
                await self._end(container, grace())
            ended = {"exitCode": self._code, "reason": reason or "Error", "startedAt": self.began, "finishedAt": now()}
            self._last = {"terminated": ended}
            self.restarts += 1
            await self._changed()
            log.warning("a container ended", container=self.name, code=self._code, restarts=self.restarts)
            await set_within(doomed, PAUSES[min(self.restarts, len(PAUSES)) - 1])
        if self._running:
            await self._changed()
            await self._end(container, grace())

    def status(self, refusal: str) -> Manifest:
        """What the status of the pod says of it; `refusal` is why the pod cannot be started."""
        if self._running:
            state: Manifest = {"running": {"startedAt": self.began}, "waiting": None}
        elif refusal:
            state = {"waiting": {"reason": "CreateContainerConfigError", "message": refusal}, "running": None}
        else:
            reason = "CrashLoopBackOff" if self.restarts else "ContainerCreating"
            state = {"waiting": {"reason": reason}, "running": None}
        return {
            "name": self.spec["name"],
            "image": self.spec["image"],
            "imageID": self.spec["image"],
            "state": state,
            "lastState": self._last,
            "ready": self.ready,
            "started": self._started and self._running,
            "restartCount": self.restarts,
            "containerID": f"docker://{self.made.id}" if self.made else "",
        }

    async def _probed(self, container: Container) -> str:
        """The name of the probe that failed for good; changes of readiness are reported."""
        startup = probe_of(self.spec, "startupProbe")
        if startup is not None:
            ask = partial(self._asked, container, startup.asks, startup.timeout)
            if not await until_failed(startup, ask, first=True):
                return "startupProbe"
            self._started = True
        liveness, readiness = probe_of(self.spec, "livenessProbe"), probe_of(self.spec, "readinessProbe")

        async def look() -> str:
            good = bad = 0
            while True:
                well = readiness is None or await self._asked(container, readiness.asks, readiness.timeout)
                good, bad = (good + 1, 0) if well else (0, bad + 1)
                before = self.ready
                if readiness is None or good >= readiness.successes:
                    self.ready = True
                elif bad >= readiness.failures:
                    self.ready = False
                if self.ready is not before or good + bad == 1:
                    await self._changed()
                await asyncio.sleep(readiness.period if readiness else 3600)

        async def live() -> str:
            if liveness is None:
                await asyncio.Event().wait()
                raise AssertionError
            await until_failed(liveness, partial(self._asked, container, liveness.asks, liveness.timeout), first=False)
            return "livenessProbe"

        return await first_of(look(), live())

    async def _asked(self, container: Container, asks: Manifest, seconds: float) -> bool:
        return await asked(asks, self.spec, self._address, container, seconds)

    async def _end(self, container: Container, grace: float) -> None:
        """The hook, the signal to end, and the end, all within the grace period."""
        until = time.monotonic() + grace
        hook = (self.spec.get("lifecycle") or {}).get("preStop")
        if hook and self._running and grace:
            await first_of(self._hooked(container, hook), _named(self._died, None), seconds=grace)
        await asyncio.to_thread(_signal, container, "SIGTERM")
        if not await set_within(self._died, max(until - time.monotonic(), 0)):
            log.warning("a container did not end in its grace period", container=self.name, seconds=grace)
            await asyncio.to_thread(_signal, container, "SIGKILL")
            await self._died.wait()

    async def _hooked(self, container: Container, hook: Manifest) -> None:
        if "exec" not in hook:
            raise Unsupported("preStop: exec only")
        try:
            code, output = await asyncio.to_thread(container.exec_run, hook["exec"]["command"])
        except APIError as error:
            code, output = 1, str(error).encode()
        if code:
            log.warning("a hook failed", container=self.name, code=code, output=output.decode(errors="replace"))


async def _named(event: asyncio.Event, name: Any) -> Any:
    await event.wait()
    return name


def _signal(container: Container, name: str) -> None:
    try:
        container.kill(name)
    except (APIError, NotFound) as error:
        # It ended meanwhile: that is seen by its end.
        log.info("a signal came too late", container=container.name, reason=str(error))


def now() -> str:
    """This moment as statuses have it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
