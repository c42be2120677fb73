"""Looks at one push member now and then: is it ready, what does it serve, what room does it have."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from services._kit.clock import Clock
from services._kit.kube import ApiError, KubeClient, Unreachable
from services._kit.member_access import open_member
from services._kit.member_sample import Served, look
from services._kit.restless import Restless
from services.cluster_monitor.state import Probe

Manifest = dict[str, Any]


class Prober:
    """Probes one member at an interval until closed; hands every probe to `take`."""

    def __init__(
        self,
        name: str,
        control: KubeClient,
        spec: Manifest,
        take: Callable[[Probe], None],
        *,
        interval: float,
        clock: Clock,
    ) -> None:
        self._name = name
        self._control = control
        self._spec = spec
        self._take = take
        self._interval = interval
        self._clock = clock
        self._client: KubeClient | None = None
        self._served = Served()
        self._early = asyncio.Event()
        self._restless = Restless(self._early.set)
        self._task = asyncio.create_task(self._run())

    def update(self, spec: Manifest) -> None:
        """Use a changed Cluster spec from the next probe on."""
        if any(spec.get(name) != self._spec.get(name) for name in ("apiEndpoint", "secretRef")):
            client, self._client = self._client, None
            self._served.forget()
            if client is not None:
                self._closing = asyncio.create_task(client.close())
        self._spec = spec

    def look_soon(self) -> None:
        """Probe now instead of at the end of the interval: what the member serves has changed."""
        self._served.definitions_changed(asyncio.get_running_loop().time())
        self._early.set()

    def look_when_quiet(self) -> None:
        """Something changes in the member: probe once it has been quiet for a moment, or has gone on for long.

        That is for the room it has: what it serves is asked for at the interval.
        """
        self._restless.changed()

    async def close(self) -> None:
        """Stop probing."""
        self._restless.close()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        if self._client is not None:
            await self._client.close()

    async def _run(self) -> None:
        while True:
            self._early.clear()
            self._take(await self._probe())
            try:
                async with asyncio.timeout(self._interval):
                    await self._early.wait()
            except TimeoutError:
                continue

    async def _probe(self) -> Probe:
        now = self._clock.now()
        try:
            client = await self._open()
        except (ApiError, Unreachable, ValueError, OSError) as error:
            return Probe(at=now, error=str(error))
        self._served.grow_old(asyncio.get_running_loop().time(), self._interval)
        return await look(client, self._name, self._spec.get("resourceModels") or [], now, self._served)

    async def _open(self) -> KubeClient:
        if self._client is None:
            self._client = await open_member(self._control, self._spec)
        return self._client
