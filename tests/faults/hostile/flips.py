"""Faults: a byte of a stream is flipped while the log's server is down; the installation comes up and says where."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final

from schemas.subjects import escape
from services._kit.kube.client import ApiError, resource_path
from tests.e2e.fleet import Failed
from tests.e2e.space import propagation
from tests.faults.ground import Ground
from tests.faults.hostile.neighbours import replaced, uids
from tests.faults.scene import Scene
from tests.support.byte_flips import Spot, damage, spots
from tests.support.commands import run_command

STREAMS: Final = ("FACTS", "OBSERVED", "HISTORY", "BLOBS", "KEYS", "EXPLAINED", "OBJECTS", "OBJECTS_member1")
_VERSIONS: Final = 3
_REPAIR_NAMED: Final = "run `fleetlog log repair"
_REPAIR: Final = ("log", "repair", "--quarantine")


class Damaged(Ground):
    """An installation whose log gets damaged: that its services say so is what is asked of them."""

    def expected(self, line: str) -> bool:
        """Damage that is named, with what to do."""
        return _REPAIR_NAMED in line


def _command(scene: Scene, *arguments: str) -> tuple[int, str]:
    """Exit code and output of `fleetlog` on the directory of the installation."""
    done = run_command("fleetlog", *arguments, "--dir", str(scene.fleet.layout.directory))
    return done.returncode, done.stdout + done.stderr


async def _victim(scene: Scene) -> str:
    """A namespace whose objects are in every stream, several times; what becomes of them after a repair is its loss."""
    name = f"{scene.namespace}-victim"
    control = scene.eyes.control
    await control.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    selectors = [{"apiVersion": "v1", "kind": kind} for kind in ("ConfigMap", "Secret")]
    policy = propagation("victim", selectors, {})
    await control.create(resource_path("policy.karmada.io", "v1alpha1", "propagationpolicies", name), policy)
    for kind, plural in (("ConfigMap", "configmaps"), ("Secret", "secrets")):
        path = resource_path("", "v1", plural, name)
        await control.create(path, {"apiVersion": "v1", "kind": kind, "metadata": {"name": "victim"}})
        for version in range(_VERSIONS):
            # Large enough for a blob of its own.
            text = "djEy" * (2000 + version)
            await control.patch(f"{path}/victim", {"data": {"value": text}})

            async def there(path: str = path, text: str = text) -> bool:
                return await _held(scene, path, text)

            await scene.wait(f"version {version} of the victim's {kind} is in every member", there)
    return name


async def _held(scene: Scene, path: str, text: str) -> bool:
    for client in scene.eyes.members.values():
        try:
            found = await client.get(f"{path}/victim")
        except ApiError as error:
            if error.status == 404:
                return False
            raise
        if (found.get("data") or {}).get("value") != text:
            return False
    return True


def _choice(scene: Scene, stream: str, victim: str) -> Spot | None:
    """A message that concerns the victim and nothing else; one in the middle of what there is of it."""
    store = scene.fleet.layout.data("nats")
    mine = f".{escape(victim)}"
    found = list(spots(store, stream))
    if stream == "BLOBS":
        # Named by its digest: the newest are the victim's.
        chosen = found[-2:]
    else:
        chosen = [spot for spot in found if mine in spot.subject]
    return chosen[len(chosen) // 2] if chosen else None


async def flipped(scene: Scene, stream: str) -> None:
    """Stop, flip, start; where the start is refused, the damage is named and a repair gets everything up."""
    await scene.under_load()
    victim = await _victim(scene)
    scene.outcome.complaints += await scene.settle()
    held = await uids(scene)
    await asyncio.to_thread(scene.fleet.stop)
    spot = _choice(scene, stream, victim)
    if spot is None:
        scene.outcome.notes.append(f"{stream} holds nothing uncompressed of the victim")
        await asyncio.to_thread(scene.fleet.start)
        await scene.reopen()
        return
    damage(scene.fleet.layout.data("nats"), stream, spot.seq, "data")
    where = f"{stream} {spot.seq} ({spot.subject})"
    try:
        await asyncio.to_thread(scene.fleet.start)
        scene.outcome.notes.append(f"{where}: started")
        _, said = await asyncio.to_thread(_command, scene, "log", "verify")
    except Failed as error:
        scene.outcome.notes.append(f"{where}: start refused")
        said = str(error)
    if stream not in said or str(spot.seq) not in said:
        scene.outcome.complaints.append(f"the damage of {where} is not named: {said[-800:]}")
    await asyncio.to_thread(scene.fleet.stop)
    code, said = await asyncio.to_thread(_command, scene, *_REPAIR)
    if code:
        scene.outcome.complaints.append(f"fleetlog {' '.join(_REPAIR)} ended with {code}: {said[-800:]}")
    await asyncio.to_thread(scene.fleet.start)
    await scene.reopen()
    scene.outcome.complaints += await scene.settle()
    scene.outcome.complaints += replaced(held, await uids(scene))


PLAYS: Final = {stream: partial(flipped, stream=stream) for stream in STREAMS}
