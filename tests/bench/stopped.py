"""One member stands still for a while: how long deliveries to the others take meanwhile, and how soon it catches up.

The policy tolerates members that are not ready: what is measured is delivery, not how long a member has to answer again
before it counts as ready (30 seconds).
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from typing import Final

from services.cli.common.layout import CONTROL
from tests.bench.measures import CONFIG_MAPS, POLICIES, Bench, config_map, emit, percentile
from tests.bench.observing import Observer
from tests.bench.processes import running

RATE: Final = 20.0
"""ConfigMaps per second."""
STOPPED: Final = "member2"


async def stopped(bench: Bench, seconds: float) -> None:
    """The p99 to the other members, undisturbed and while one is stopped, and what that one still lacks afterwards."""
    if STOPPED not in bench.members or len(bench.members) < 2:
        return
    tolerations = [{"operator": "Exists"}]
    await _tolerate(bench, tolerations)
    observers = {name: await bench.observer(name, CONFIG_MAPS, {"exists": lambda _: True}) for name in bench.members}
    others = [observer for name, observer in observers.items() if name != STOPPED]
    calm = await _stream(bench, "calm", seconds, others)
    pid = running(bench.layout)[STOPPED]
    os.kill(pid, signal.SIGSTOP)
    try:
        began = time.perf_counter()
        disturbed = await _stream(bench, "stopped", seconds, others)
        await asyncio.sleep(max(0.0, began + seconds - time.perf_counter()))
    finally:
        os.kill(pid, signal.SIGCONT)
    resumed = time.perf_counter()
    names = [f"stopped-{number}" for number in range(len(disturbed))]
    last = await observers[STOPPED].all("exists", names)
    for name, values in (("undisturbed", calm), ("one_stopped", disturbed)):
        note = {"seconds": seconds, "objects": len(values)}
        emit(f"delivered_to_others_ms_median_{name}", percentile(values, 0.5) * 1000, "ms", **note)
        emit(f"delivered_to_others_ms_p99_{name}", percentile(values, 0.99) * 1000, "ms", **note)
    emit("stopped_member_caught_up_seconds", last - resumed, "s", objects=len(names), stopped_seconds=seconds)
    await bench.clients[CONTROL].request("DELETE", CONFIG_MAPS, timeout=120.0)
    for observer in observers.values():
        # A member keeps a ConfigMap of its own in every namespace.
        await observer.until(lambda observer=observer: observer.present.isdisjoint(names), "copies gone")  # type: ignore[misc]  # bound now
        await observer.stop()
    await _tolerate(bench, None)


async def _tolerate(bench: Bench, tolerations: list[dict[str, str]] | None) -> None:
    patch = {"spec": {"placement": {"clusterTolerations": tolerations}}}
    await bench.clients[CONTROL].patch(f"{POLICIES}/bench", patch)


async def _stream(bench: Bench, prefix: str, seconds: float, observers: list[Observer]) -> list[float]:
    """ConfigMaps at a steady rate; seconds from each POST to its copy in all observed members but the stopped one."""
    began: dict[str, float] = {}
    posts: list[asyncio.Task[None]] = []
    start = time.perf_counter()
    for number in range(max(1, int(seconds * RATE))):
        await asyncio.sleep(max(0.0, start + number / RATE - time.perf_counter()))
        name = f"{prefix}-{number}"
        began[name] = time.perf_counter()
        posts.append(asyncio.create_task(bench.create(CONTROL, CONFIG_MAPS, [config_map(name)])))
    await asyncio.gather(*posts)
    for observer in observers:
        await observer.all("exists", list(began))
    return [max(observer.first["exists"][name] for observer in observers) - at for name, at in began.items()]
