"""Keeps a second agent of the same cluster from acting, with a Lease object in the member (coordination.k8s.io/v1).

While the member's API does not answer, the agent keeps the Lease and its reports to the hub, and requests nothing else.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Final

import structlog

from schemas.manifest import Manifest
from services._kit.base.clock import Clock
from services._kit.base.log_errors import FenceLost
from services._kit.kube.client import ApiError, KubeClient, Unreachable, resource_path

log = structlog.get_logger("agent.holding")

NAME: Final = "fleetlog-agent"
_RENEWALS: Final = 3
_HELD: Final = 0.8
"""Share of the Lease's duration in which its last renewal is trusted."""


class LeaderLease:
    """The place of the one acting agent; the same instance, started again, takes its own place at once."""

    def __init__(self, client: KubeClient, namespace: str, instance: str, seconds: float, clock: Clock) -> None:
        self.trouble = "not looked at the Lease yet"
        """Why this agent does not act; empty while it does."""
        self.held = asyncio.Event()
        self.lost = asyncio.Event()
        self.lost.set()
        self._client = client
        self._path = resource_path("coordination.k8s.io", "v1", "leases", namespace, NAME)
        self._all = resource_path("coordination.k8s.io", "v1", "leases", namespace)
        self._instance = instance
        self._seconds = seconds
        self._clock = clock
        self._renewed_at = 0.0
        self._seen: tuple[str, str] | None = None
        self._seen_at = 0.0
        self._news = asyncio.Event()

    @property
    def fresh(self) -> bool:
        """Whether the place was confirmed lately; a member that does not answer cannot confirm it."""
        return self.held.is_set() and self._clock.monotonic() - self._renewed_at < self._seconds

    @property
    def holds(self) -> bool:
        """Whether no other agent can hold the Lease now."""
        return self.held.is_set() and self._clock.monotonic() - self._renewed_at < self._seconds * _HELD

    async def wait(self) -> None:
        """Return once the Lease is confirmed; raises FenceLost when another agent holds it."""
        while not self.holds:
            if not self.held.is_set():
                raise FenceLost(0, f"another agent acts in this cluster: {self.trouble}")
            await self._news.wait()

    async def run(self) -> None:
        """Acquire and renew the Lease while no other agent holds it, until cancelled."""
        while True:
            began = self._clock.monotonic()
            silent = False
            try:
                problem = await self._acquire()
            except Unreachable as error:
                problem, silent = str(error), True
            except ApiError as error:
                problem, silent = f"the Lease {self._path} cannot be used: {error}", error.status >= 500
            if not problem:
                self._renewed_at = began
                self._hold()
            elif silent and self.held.is_set():
                self.trouble = problem
            else:
                self._lose(problem)
            await asyncio.sleep(min(self._seconds / _RENEWALS, 1.0 if problem else self._seconds))

    async def resign(self) -> None:
        """Release the Lease for the next agent."""
        if not self.held.is_set():
            return
        self._lose("this agent stops")
        try:
            lease = await self._client.get(self._path)
            if lease["spec"].get("holderIdentity") == self._instance:
                lease["spec"]["holderIdentity"] = ""
                await self._client.update(self._path, lease)
        except (ApiError, Unreachable):
            return  # It runs out by itself.

    def _hold(self) -> None:
        self.trouble = ""
        self.lost.clear()
        self.held.set()
        self._notify()

    def _lose(self, why: str) -> None:
        if why != self.trouble:
            log.info("agent_does_not_act", reason=why)
        self.trouble = why
        self.held.clear()
        self.lost.set()
        self._notify()

    def _notify(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    async def _acquire(self) -> str:
        """Acquire or renew the Lease; why that failed, or empty."""
        try:
            lease = await self._client.get(self._path)
        except ApiError as error:
            if error.status != 404:
                raise
            return await self._write(None)
        spec = lease.get("spec") or {}
        holder = spec.get("holderIdentity") or ""
        if holder and holder != self._instance:
            # Clocks of machines differ: what counts is how long we have seen no renewal.
            mark = (holder, str(spec.get("renewTime")))
            now = self._clock.monotonic()
            if mark != self._seen:
                self._seen, self._seen_at = mark, now
            if now - self._seen_at < float(spec.get("leaseDurationSeconds") or self._seconds):
                return f"the place is held by agent {holder}"
        return await self._write(lease)

    async def _write(self, lease: Manifest | None) -> str:
        now = datetime.fromtimestamp(self._clock.now(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {
            "holderIdentity": self._instance,
            "leaseDurationSeconds": max(1, round(self._seconds)),
            "renewTime": now,
            "acquireTime": now,
        }
        try:
            if lease is None:
                head = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": NAME}}
                await self._client.create(self._all, {**head, "spec": spec})
            else:
                before = lease.get("spec") or {}
                if before.get("holderIdentity") == self._instance and before.get("acquireTime"):
                    spec["acquireTime"] = before["acquireTime"]
                await self._client.update(self._path, {**lease, "spec": {**before, **spec}})
        except ApiError as error:
            if error.status == 409:
                return "the place is held by another agent that was faster"
            raise
        return ""
