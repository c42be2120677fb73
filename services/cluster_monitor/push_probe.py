"""Probes one push member at an interval: its readiness, its API discovery and its capacity."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import structlog
from msgspec.structs import replace

from schemas.manifest import Manifest
from services._kit.base.clock import Clock
from services._kit.concurrency.debounce import Debouncer
from services._kit.concurrency.supervision import spawn, supervise
from services._kit.concurrency.tasks import set_within
from services._kit.credentials.access import Members
from services._kit.kube.client import ApiError, KubeClient, Unreachable
from services._kit.members.impersonator import ensure_impersonation
from services._kit.members.member_probe import DiscoveryCache, probe_cluster
from services.cluster_monitor.state import Probe

log = structlog.get_logger("cluster_monitor.probing")


PROBE_SECONDS: Final = 60.0
"""How long one probe may take, all its requests together."""
SOON_SECONDS: Final = 3.0
"""When the next probe comes where another cluster answers: nothing is delivered until the member does again."""
SLACK_SECONDS: Final = 30.0
"""How much later than it may take at most a probe may end before it counts as missing."""
_ACCESS: Final = ("apiEndpoint", "secretRef", "insecureSkipTLSVerification", "proxyURL", "proxyHeader")
_IMPERSONATOR: Final = "impersonatorSecretRef"


class Prober:
    """Probes one member at an interval until closed; hands every probe to `take`, and calls `missing` without any.

    Where `take` returns True, the next probe follows soon. `lasted` gets the seconds of each probe that the member
    answered.
    """

    def __init__(
        self,
        name: str,
        members: Members,
        spec: Manifest,
        take: Callable[[Probe], bool | None],
        missing: Callable[[], None] = lambda: None,
        *,
        interval: float,
        clock: Clock,
        lasted: Callable[[float], None] = lambda _: None,
    ) -> None:
        self._name = name
        self._members = members
        self._spec = spec
        self._take = take
        self._lasted = lasted
        self._interval = interval
        self._clock = clock
        self._client: KubeClient | None = None
        self._entitled = False
        self._served = DiscoveryCache()
        self._early = asyncio.Event()
        self._restless = Debouncer(self._early.set)
        self._member = members.member(spec, self._early.set)
        self._missing = missing
        self._overdue = self._expect()
        self._task = supervise(f"prober:{name}", self._run)

    def update(self, spec: Manifest) -> None:
        """Use a changed Cluster spec from the next probe on, which comes at once where it changes the access."""
        if any(spec.get(name) != self._spec.get(name) for name in _ACCESS):
            client, self._client = self._client, None
            self._served.forget()
            self._member.close()
            self._member = self._members.member(spec, self._early.set)
            if client is not None:
                spawn(f"client-close:{self._name}", client.close())
            self._early.set()
        if any(spec.get(name) != self._spec.get(name) for name in (*_ACCESS, _IMPERSONATOR)):
            self._entitled = False
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
        self._overdue.cancel()
        self._member.close()
        await self._task.close()
        if self._client is not None:
            await self._client.close()

    async def _run(self) -> None:
        while True:
            self._early.clear()
            began = asyncio.get_running_loop().time()
            probe = await self._probe()
            if probe.online:
                self._lasted(asyncio.get_running_loop().time() - began)
            soon = self._take(probe)
            self._overdue.cancel()
            self._overdue = self._expect()
            if probe.online and self._client is not None:
                await self._entitle(self._client)
            await set_within(self._early, min(self._interval, SOON_SECONDS) if soon else self._interval)

    def _expect(self) -> asyncio.TimerHandle:
        """Start the timer that reports a missing probe, also if `take` fails."""
        return asyncio.get_running_loop().call_later(self._interval + PROBE_SECONDS + SLACK_SECONDS, self._missing)

    async def _probe(self) -> Probe:
        """One probe; whatever goes wrong is part of it."""
        now, member = self._clock.now(), self._member
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                client = await self._open()
                self._served.grow_old(asyncio.get_running_loop().time(), self._interval)
                probe = await probe_cluster(
                    client, self._name, self._spec.get("resourceModels") or [], now, self._served
                )
        except (ApiError, Unreachable, ValueError, OSError) as error:
            # A probe that took too long is an OSError, too.
            reason = str(error) or f"the probe did not end within {PROBE_SECONDS:g} s"
            return Probe(at=now, error=reason)
        except Exception as error:
            log.exception("probe_failed", cluster=self._name)
            return Probe(at=now, error=f"{type(error).__name__}: {str(error)[:500]}")
        if not probe.online and member.trouble:
            return Probe(at=now, error=member.trouble, expiry=member.expiry)
        return replace(probe, expiry=member.expiry)

    async def _entitle(self, client: KubeClient) -> None:
        """See to it once that requests can be made in the name of callers; no reason to call the member not ready."""
        reference = self._spec.get(_IMPERSONATOR) or {}
        if self._entitled or not reference.get("namespace"):
            return
        # Where the member refuses it, its administrator has to: asking again at every probe changes nothing.
        self._entitled = True
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                if await ensure_impersonation(client, str(reference["namespace"])):
                    log.info("impersonation_permitted", cluster=self._name)
        except (ApiError, Unreachable, OSError) as error:
            log.warning("impersonation_refused", cluster=self._name, reason=str(error)[:500])

    async def _open(self) -> KubeClient:
        if self._client is None:
            self._client = await self._member.open()
        return self._client
