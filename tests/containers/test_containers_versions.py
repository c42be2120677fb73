"""An earlier version and this one beside each other on one log: forward, back again, and what neither knows."""

from __future__ import annotations

import json
import subprocess
import tarfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Final

import pytest
import yaml

from k8s.shared import ROOT
from schemas import subjects
from schemas.keys import ObjectKey
from schemas.manifest import Manifest
from services._kit.base.settings import Settings, access_options
from services._kit.log.connection import Connection
from tests.containers import engine
from tests.containers.composition import Composition
from tests.containers.load import Load
from tests.e2e.fleet import EXAMPLES, Kubectl, until, until_equal

pytestmark = [pytest.mark.containers, pytest.mark.timeout(900)]
EARLIER: Final = "b75c9b2f"
"""A commit whose services take the settings of this composition; its log knows no autoscaling, endpoints or search."""
OLD_IMAGE: Final = f"fleetlog:{EARLIER}"
ROLLED: Final = (
    *("detector", "cluster-monitor", "scheduler", "override-renderer"),
    *("executor", "registrar", "status-aggregator"),
)
"""What changes its version, the maker of the streams first; the API server and what runs in members stay."""
LIST: Final = """
import asyncio, json, sys
from services._kit.kube.client import KubeClient

async def main():
    client = await KubeClient.from_kubeconfig(f"/run/fleetlog/members/{sys.argv[1]}.kubeconfig")
    print(json.dumps(await client.get(sys.argv[2])))
    await client.close()

asyncio.run(main())
"""
"""Lists in a member: the gateway of the earlier version leads nowhere."""
GHOST: Final = ObjectKey("apps", "deployments", "under-load", "ghost")


@pytest.fixture(scope="module")
def old(image: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that puts the earlier version in the place of this one."""
    place = tmp_path_factory.mktemp("old")
    if not engine.has_image(OLD_IMAGE):
        packed = subprocess.run(["git", "archive", EARLIER], cwd=ROOT, capture_output=True, check=False)
        if packed.returncode:
            pytest.skip(f"this clone has no commit {EARLIER}")
        with tarfile.open(fileobj=BytesIO(packed.stdout)) as files:
            files.extractall(place / "source", filter="data")
        # It had no extras that the image needs.
        engine.build(OLD_IMAGE, place / "source", EXTRAS="")
    over = place / "compose.old.yaml"
    over.write_text(yaml.safe_dump({"services": {name: {"image": OLD_IMAGE} for name in ROLLED}}))
    return over


@pytest.fixture(scope="module")
def fleet(image: str, old: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Composition]:
    """The local composition whose services are the earlier version."""
    made = Composition(["compose.yaml"], ROOT, tmp_path_factory.mktemp("versions"), project="fleetlog-test-versions")
    try:
        made.run("up", "--detach", "--wait", ROLLED[0], seconds=480, over=[old])
        made.run("up", "--detach", "--wait", "--no-deps", *ROLLED[1:], "agent", seconds=480, over=[old])
        assert {made.container(name).image.tags[0] for name in ROLLED} == {OLD_IMAGE}
        yield made
    finally:
        made.close()


async def test_versions_follow_each_other_on_one_log(fleet: Composition, old: Path) -> None:
    kubectl = fleet.kubectl()
    kubectl.apply(EXAMPLES / "nginx-demo.yaml")
    kubectl.apply(EXAMPLES / "nginx-propagation.yaml")
    until_ready(kubectl, 2)

    def look(member: str, path: str) -> list[Manifest]:
        items: list[Manifest] = json.loads(fleet.run("exec", "-T", "embedded", "python", "-c", LIST, member, path))[
            "items"
        ]
        return items

    load = Load(kubectl, "old", look)
    load.prepare()
    before = decisions(fleet)
    assert before
    with load:
        load.until_acknowledged(5)
        roll(fleet)
        load.until_acknowledged(5)
    load.until_everywhere()
    # This version has read what the earlier one decided, and decided nothing anew.
    assert decisions(fleet) == before
    # An event that only a later version knows: its key is set aside, and nothing else.
    await publish(fleet, subjects.placement(GHOST), b'{"type":"PlacementForeseen.v1"}')
    with Load(kubectl, "back", look) as load:
        load.until_acknowledged(5)
        roll(fleet, old)
        load.until_acknowledged(5)
    load.until_everywhere()
    until("the earlier version parks what it does not know", lambda: "ghost" in parked(fleet))
    kubectl.run("scale", "deployment", "nginx", "--replicas=4")
    until_ready(kubectl, 4)
    with Load(kubectl, "again", look) as load:
        load.until_acknowledged(5)
        roll(fleet)
        load.until_acknowledged(5)
    load.until_everywhere()
    kubectl.run("scale", "deployment", "nginx", "--replicas=2")
    until_ready(kubectl, 2)


def roll(fleet: Composition, *over: Path) -> None:
    """Replace services by those of this version, or of a file laid over it, some at a time."""
    for some in (ROLLED[:1], ROLLED[1:4], ROLLED[4:]):
        fleet.run("up", "--detach", "--wait", "--no-deps", *some, over=over)


def until_ready(kubectl: Kubectl, replicas: int) -> None:
    """Wait until nginx's replicas are ready in its members."""

    def ready() -> object:
        status = (kubectl.get("deployment", "nginx") or {}).get("status") or {}
        return status.get("readyReplicas"), status.get("replicas")

    until_equal("replicas of nginx", ready, (replicas, replicas))


def decisions(fleet: Composition) -> list[str]:
    """What was decided about where nginx runs, as its history tells it."""
    told = fleet.command("fleetlog", "history", "deployment", "nginx").splitlines()
    return [line for line in told if "PlacementDecided" in line]


def parked(fleet: Composition) -> str:
    """Keys that services set aside."""
    return fleet.command("fleetlog", "parked", "list")


async def publish(fleet: Composition, subject: str, data: bytes) -> None:
    """Put bytes on the log as a later version would."""
    for name in ("ca.crt", "hub.password"):
        fleet.run("cp", f"join:/run/fleetlog/{name}", str(fleet.place / name))
    settings = Settings(
        nats_user="hub", nats_password_file=str(fleet.place / "hub.password"), tls_ca=str(fleet.place / "ca.crt")
    )
    url = f"tls://127.0.0.1:{fleet.ports['LOG']}"
    connection = await Connection.open(url, name="tests", **access_options(settings))
    try:
        answer = await connection.request(subject, data)
        assert b'"seq"' in answer.data, answer.data
    finally:
        await connection.close()
