"""Faults: what opens a member is rotated, or its Secret is broken for a while; what is mended works at once."""

from __future__ import annotations

import asyncio
import base64
from typing import Final

from schemas.manifest import Manifest
from services._kit.kube.client import resource_path
from tests.faults.hostile.front import Order
from tests.faults.hostile.ground import HOSTILE
from tests.faults.hostile.neighbours import back, busily, misbehave, probes
from tests.faults.scene import Scene

BROKEN_SECONDS: Final = 6.0


async def _secret(scene: Scene) -> tuple[str, Manifest]:
    """Path and data of the Secret that opens the hostile member."""
    control = scene.eyes.control
    cluster = await control.get(resource_path("cluster.karmada.io", "v1alpha1", "clusters", "", HOSTILE))
    reference = cluster["spec"]["secretRef"]
    path = resource_path("", "v1", "secrets", reference["namespace"], reference["name"])
    return path, (await control.get(path))["data"]


async def rotated(scene: Scene) -> None:
    """The member refuses the old token from the moment on in which the Secret holds a new one."""
    await scene.under_load()
    mine, _ = await probes(scene)
    path, data = await _secret(scene)
    old = base64.b64decode(data["token"]).decode()
    new = f"rotated-{scene.chance.randrange(16**12):012x}"
    try:
        # First it is refused, as if the member had rotated it by itself; a moment later the Secret follows.
        await misbehave(scene, HOSTILE, Order(revoked=(old,), aliases={new: old}, cut=True))
        await asyncio.sleep(2.0)
        await scene.eyes.control.patch(path, {"data": {"token": base64.b64encode(new.encode()).decode()}})
        scene.outcome.notes.append("with the new token:")
        await back(scene, mine)
    finally:
        await misbehave(scene, HOSTILE, Order())
        await scene.eyes.control.patch(path, {"data": {"token": data["token"]}})
    scene.outcome.notes.append("with the old one again:")
    await back(scene, mine)


async def broken(scene: Scene) -> None:
    """The Secret holds a certificate without its key and no token; somebody mends it."""
    await scene.under_load()
    mine, _ = await probes(scene)
    path, data = await _secret(scene)
    wrong = {"token": None, "clientCert": base64.b64encode(b"a certificate").decode()}
    await scene.eyes.control.patch(path, {"data": wrong})
    await misbehave(scene, HOSTILE, Order(cut=True))
    await busily(scene, asyncio.sleep(BROKEN_SECONDS))
    await scene.eyes.control.patch(path, {"data": {"token": data["token"], "clientCert": None}})
    await back(scene, mine)
