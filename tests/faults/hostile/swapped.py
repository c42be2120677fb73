"""Faults: another API server answers behind the control plane's address for a while; nothing of any member may go."""

from __future__ import annotations

import asyncio
import os
import secrets
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from services._kit.kube.client import KubeClient, resource_path
from services.cli.common.layout import CONTROL, free_port
from services.cli.installation.install_crds import apply_definitions, needed_definitions
from tests.faults.ground import Unavailable
from tests.faults.hostile.front import Order, Target
from tests.faults.hostile.ground import Fronted
from tests.faults.hostile.neighbours import back, misbehave, probes, replaced, uids
from tests.faults.scene import Scene
from tests.support.closing import closing

SWAPPED_SECONDS: Final = 8.0
_GONE_SECONDS: Final = 1.0
_LOOK: Final = 0.25
_PATIENCE: Final = 60.0


class Swappable(Fronted):
    """Beside the control plane runs another API server: healthy, with our definitions, and without any object."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.token = secrets.token_urlsafe(24)
        self._other: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start the installation, then the other server."""
        super().start()
        self.port = free_port(set(self.fleet.installation.ports.values()))
        place = self.directory / "other"
        place.mkdir(exist_ok=True)
        self.other_kubeconfig = place / "kubeconfig"
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("FLEETLOG_")},
            "FLEETLOG_APISERVER_DATA_DIR": str(place),
            "FLEETLOG_APISERVER_PORT": str(self.port),
            "FLEETLOG_APISERVER_ADMIN_TOKEN": self.token,
            "FLEETLOG_APISERVER_KUBECONFIG": str(self.other_kubeconfig),
        }
        with (place / "log").open("ab") as log:
            self._other = subprocess.Popen(
                [sys.executable, "-m", "services.apiserver"],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        assert self._other.stdout is not None
        if not self._other.stdout.readline().startswith("ready"):
            raise Unavailable(f"the other API server did not start, see {place / 'log'}")
        asyncio.run(self._define())

    async def _define(self) -> None:
        async with closing(await KubeClient.from_kubeconfig(self.other_kubeconfig)) as client:
            await apply_definitions(client, needed_definitions())

    async def identity(self, kubeconfig: Path) -> str:
        """The uid of kube-system."""
        async with closing(await KubeClient.from_kubeconfig(kubeconfig)) as client:
            found = await client.get(resource_path("", "v1", "namespaces", "", "kube-system"))
            return str(found["metadata"]["uid"])

    def stop(self) -> None:
        """Stop everything."""
        try:
            super().stop()
        finally:
            if self._other is not None:
                self._other.kill()
                self._other.wait()
                if self._other.stdout is not None:
                    self._other.stdout.close()


async def swapped(scene: Scene, *, restored: bool, members: bool) -> None:
    """Lists of another server: nothing is withdrawn, and the first one goes on where it was.

    With `restored` it claims the identity of the first, as an etcd from an old backup; with `members` it knows the
    clusters as well, so that their lanes are open.
    """
    ground = scene.ground
    assert isinstance(ground, Swappable)
    await scene.under_load()
    mine, _ = await probes(scene)
    scene.outcome.complaints += await scene.settle()
    held = await uids(scene)
    position = await scene.eyes.last_seq()
    same = {}
    if restored:
        theirs = await ground.identity(ground.other_kubeconfig)
        same = {theirs: await ground.identity(ground.kubeconfig(CONTROL))}
    other = Order(
        target=Target(port=ground.port, token=ground.token), same_as=same, kept=_MEMBERS if members else (), cut=True
    )
    await misbehave(scene, CONTROL, replace(other, misdeed="gone"))
    lost: dict[str, str] = {}
    began = time.monotonic()
    gone = True
    while time.monotonic() < began + SWAPPED_SECONDS:
        if gone and time.monotonic() > began + _GONE_SECONDS:
            await misbehave(scene, CONTROL, replace(other, cut=False))
            gone = False
        for complaint in replaced(held, await uids(scene)):
            lost.setdefault(complaint.partition(":")[0], complaint)
        await asyncio.sleep(_LOOK)
    withdrawn = await _withdrawn(scene, position)
    await misbehave(scene, CONTROL, Order(misdeed="gone", cut=True))
    await asyncio.sleep(_GONE_SECONDS)
    await misbehave(scene, CONTROL, Order())
    await back(scene, mine)
    scene.outcome.complaints += await scene.settle()
    for complaint in replaced(held, await uids(scene)):
        lost.setdefault(complaint.partition(":")[0], complaint)
    if withdrawn:
        scene.outcome.complaints.append(f"{len(withdrawn)} withdrawals while another answered, first {withdrawn[0]}")
    scene.outcome.complaints += list(lost.values())
    scene.outcome.notes.append(f"{len(held)} objects of members watched, {len(lost)} went or came again")


async def _withdrawn(scene: Scene, position: int) -> list[str]:
    """Facts after a position that take something away."""
    messages = await scene.eyes.messages("FACTS", ("template.>", "work.>", "cluster.*"))
    return [
        f"FACTS {message.seq} {message.subject} {kind}"
        for message in messages
        if message.seq > position and (kind := str(msgspec.json.decode(message.data)["type"])).startswith(_TAKEN_AWAY)
    ]


_MEMBERS: Final = (
    "/apis/cluster.karmada.io/",
    "/api/v1/namespaces/karmada-cluster",
    "/apis/coordination.k8s.io/",
)
"""Where the clusters and what opens them are."""
_TAKEN_AWAY: Final = ("TemplateDeleted", "WorkWithdrawn", "ClusterRemoved")
PLAYS: Final = {
    "swapped-control-plane": partial(swapped, restored=False, members=False),
    "swapped-control-plane-same-members": partial(swapped, restored=False, members=True),
    "restored-control-plane": partial(swapped, restored=True, members=True),
}
