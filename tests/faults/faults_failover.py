"""Fault: a member is tainted and well again while failover and scheduler die; what fits nowhere else stays."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from schemas.codec import Known, decode
from schemas.events.eviction import EvictionRequested
from schemas.keys import ObjectKey
from schemas.manifest import Manifest
from schemas.subjects import escape, object_key
from services._kit.kube.client import resource_path
from services._kit.log.fact_history import origin
from services._kit.log.stream_port import Message
from tests.faults.ground import Ground
from tests.faults.scene import Scene
from tests.support.eviction_invariants import broken_evictions

_TAINTED = "member2"
_TAINT = {"key": "failing", "effect": "NoExecute"}


class Evicting(Ground):
    """An installation that evicts by taints."""

    def environment(self) -> dict[str, str]:
        """With what is off otherwise."""
        return {
            **super().environment(),
            "FLEETLOG_FEATURE_GATES": "Failover=true",
            "FLEETLOG_ENABLE_NO_EXECUTE_TAINT_EVICTION": "true",
        }


async def killed(scene: Scene) -> None:
    """kill -9 of failover and scheduler while a member is tainted, and again when it is well."""

    async def kill() -> None:
        dead = {name: scene.fleet.kill(name) for name in ("failover", "scheduler")}
        for name, pid in dead.items():
            await scene.wait(f"the {name} is back", lambda name=name, pid=pid: scene.back(name, pid))

    async def fail() -> None:
        await _taint(scene, [_TAINT])
        await scene.wait("something is evicted", lambda: _evicting(scene))
        await kill()
        await _taint(scene, [])
        await kill()

    await scene.under_load(fail)
    await scene.wait("no eviction is under way", lambda: _over(scene))
    facts: dict[ObjectKey, list[tuple[int, Known]]] = defaultdict(list)
    for message in await _history(scene):
        facts[object_key(message.subject)].append((origin(message), decode(message.subject, message.data)))
    scene.outcome.checks["evictions that keep what may stay"] = len(facts)
    scene.outcome.complaints += [complaint for found in facts.values() for complaint in broken_evictions(found)]


async def _taint(scene: Scene, taints: list[Manifest]) -> None:
    path = resource_path("cluster.karmada.io", "v1alpha1", "clusters", "", _TAINTED)
    await scene.load.insist(lambda: scene.eyes.control.patch(path, {"spec": {"taints": taints}}), "patch")


async def _evicting(scene: Scene) -> bool:
    messages = await scene.eyes.messages("FACTS", (f"eviction.*.*.{escape(scene.namespace)}.*",))
    newest = {message.subject: message for message in messages}
    return any(isinstance(decode(message.subject, message.data), EvictionRequested) for message in newest.values())


async def _over(scene: Scene) -> bool:
    return not await _evicting(scene)


async def _history(scene: Scene) -> Sequence[Message]:
    mine = escape(scene.namespace)
    found = [await scene.history(f"{facet}.*.*.{mine}.*") for facet in ("eviction", "placement", "work")]
    return sorted((message for messages in found for message in messages), key=origin)
