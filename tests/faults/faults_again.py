"""Faults: something goes and comes back under the same name while nobody looks."""

from __future__ import annotations

import asyncio
import signal

from schemas.codec import decode
from schemas.events.template import TemplateChanged
from schemas.events.work import WorkRendered
from services._kit.kube.client import ApiError, resource_path
from tests.faults.leading import primaries_lead
from tests.faults.rounds_load import Step
from tests.faults.scene import Scene

REJOINS = "member2"
"""The member whose share nobody else takes over while it is away."""


async def template(scene: Scene) -> None:
    """Templates are deleted and made anew under their names while the detector is down."""
    await primaries_lead(scene)
    await scene.under_load()
    scene.outcome.complaints += await scene.settle()
    load = scene.load
    names = [name for name, wanted in load.wanted.items() if wanted.replicas]
    chosen = scene.chance.sample(names, min(4, len(names)))
    scene.ground.signal("detector", signal.SIGSTOP)
    for name in chosen:
        await load.step(name, Step("delete", 0, ""))
    for name in chosen:
        image = f"nginx:2.{scene.chance.randint(0, 99)}"
        await load.step(name, Step("create", scene.chance.randint(1, 2), image))
    scene.ground.signal("detector", signal.SIGKILL)
    scene.outcome.notes.append(f"{len(chosen)} made anew")
    scene.outcome.complaints += await scene.settle()
    facts = await scene.eyes.messages("FACTS")
    uids: dict[str, str] = {}
    works: dict[str, set[str]] = {}
    newest = {message.subject: message for message in facts if scene.namespace in message.subject}
    for message in newest.values():
        match decode(message.subject, message.data):
            case TemplateChanged() as event:
                uids[event.key.name] = event.uid
            case WorkRendered() as event:
                works.setdefault(event.key.name, set()).add(event.uid)
    for name in chosen:
        live = await load.client.get(load.path(name))
        uid = live["metadata"]["uid"]
        if uids.get(name) != uid or works.get(name) != {uid}:
            scene.outcome.complaints.append(
                f"{name} has uid {uid}; the log says {uids.get(name)}, its works {works.get(name)}"
            )


async def cluster(scene: Scene) -> None:
    """A member leaves in good order and joins again; the monitor or the executor dies in between."""
    await primaries_lead(scene)
    name = REJOINS
    before = await _uid(scene, name)
    await scene.under_load()
    kubeconfig = str(scene.fleet.layout.kubeconfig(name))
    victim = scene.chance.choice(["cluster_monitor", "executor", "scheduler", "override_renderer"])
    await asyncio.to_thread(scene.fleet.said, "unjoin", name, "--cluster-kubeconfig", kubeconfig)
    scene.fleet.kill(victim)
    await asyncio.to_thread(scene.fleet.said, "join", name, "--cluster-kubeconfig", kubeconfig)
    after = await _uid(scene, name)
    if before == after:
        scene.outcome.complaints.append(f"{name} still has uid {before}")
    scene.outcome.notes.append(f"{name} rejoined, killed {victim}")


async def cluster_unseen(scene: Scene) -> None:
    """A member's entry is deleted by force and made anew while the monitor is down: only its uid tells."""
    await primaries_lead(scene)
    name = REJOINS
    control = scene.eyes.control
    await scene.under_load()
    path = resource_path("cluster.karmada.io", "v1alpha1", "clusters", "", name)
    live = await control.get(path)
    scene.ground.signal("cluster_monitor", signal.SIGSTOP)
    await control.delete(path)
    await control.patch(path, {"metadata": {"finalizers": []}})

    async def gone() -> bool:
        try:
            await control.get(path)
        except ApiError as error:
            return error.status == 404
        return False

    await scene.wait(f"{name} is gone", gone)
    # Its Secret goes with it, as with any owner: joining writes both anew.
    kubeconfig = str(scene.fleet.layout.kubeconfig(name))
    await asyncio.to_thread(scene.fleet.said, "join", name, "--cluster-kubeconfig", kubeconfig)
    made = await control.get(path)
    scene.ground.signal("cluster_monitor", signal.SIGKILL)
    scene.outcome.notes.append(f"{name}: {live['metadata']['uid'][:8]} became {made['metadata']['uid'][:8]} unseen")


async def _uid(scene: Scene, name: str) -> str:
    live = await scene.eyes.control.get(resource_path("cluster.karmada.io", "v1alpha1", "clusters", "", name))
    return str(live["metadata"]["uid"])
