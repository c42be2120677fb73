"""When a member is looked at: at an interval, and soon after it changed."""

from __future__ import annotations

import asyncio

from services._kit.clock import SystemClock
from services._kit.kube import KubeClient
from services.cluster_monitor.probing import Prober
from services.cluster_monitor.state import Probe


async def test_a_member_that_changed_is_looked_at_once_when_it_is_quiet_again() -> None:
    probes: asyncio.Queue[Probe] = asyncio.Queue()
    control = KubeClient("http://127.0.0.1:1", ssl_context=None, headers={})
    prober = Prober("m1", control, {}, probes.put_nowait, interval=3600.0, clock=SystemClock())
    try:
        await probes.get()
        for _ in range(5):
            prober.look_when_quiet()
        assert probes.empty()
        probe = await probes.get()
        assert "apiEndpoint" in probe.error
        assert probes.empty()
    finally:
        await prober.close()
        await control.close()
