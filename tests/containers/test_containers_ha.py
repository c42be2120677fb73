"""`compose.ha.yaml`: three servers of the log, two of each service, and nothing lost when one of them is."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from k8s.compose import MEMBERS, PULL
from k8s.shapes import HIGHLY_AVAILABLE
from k8s.shared import ROOT
from schemas.topology import STREAMS
from services._kit.base.log_errors import LogError
from services._kit.base.settings import Settings, access_options
from services._kit.log.connection import Connection
from services.cli.registration.confined_pods import USER
from tests.containers import engine
from tests.containers.composition import Composition
from tests.containers.load import Load
from tests.e2e.fleet import Kubectl, until

pytestmark = [pytest.mark.containers, pytest.mark.timeout(900)]
OTHER = f"{USER}:{USER}"
CORE = (
    *("detector", "cluster-monitor", "scheduler", "override-renderer"),
    *("executor", "registrar", "status-aggregator", "gateway"),
)
"""What an object passes on its way into members and back: two of each are sixteen processes on two cores."""


@pytest.fixture(scope="module")
def three(image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Composition]:
    """The composition of three servers, started as docs/deploy.md says."""
    place = tmp_path_factory.mktemp("ha")
    shutil.copy(ROOT / "compose.ha.yaml", place)
    shutil.copytree(ROOT / "k8s", place / "k8s")
    for name in (*HIGHLY_AVAILABLE.nats, *MEMBERS, f"agent-{PULL}"):
        (place / "deploy/data" / name).mkdir(parents=True)
    user = f"{os.getuid()}:{os.getgid()}" if os.getuid() else OTHER
    if user == OTHER:
        # Whoever runs the tests as root: containers do not.
        for path in (place / "deploy", *(place / "deploy").rglob("*")):
            os.chown(path, USER, USER)
    made = Composition(
        ["compose.ha.yaml"],
        place,
        place,
        project="fleetlog-test-ha",
        profiles=["embedded", "members"],
        # What members hold is looked at through the agent as well.
        variables={"FLEETLOG_USER": user, "FLEETLOG_AGENT_REQUESTS": "read"},
    )
    try:
        engine.docker(
            *("run", "--rm", "--user", user, "--volume", f"{place}/deploy:/deploy", "--entrypoint", "fleetlog", image),
            *("containers", "prepare", "--dir", "/deploy", "--agent", PULL, "--port", str(made.ports["CONTROL"])),
        )
        began = time.monotonic()
        made.run("up", "--detach", "--wait", *CORE, "agent", seconds=480)
        print(f"start of {len(made.containers())} containers to ready: {time.monotonic() - began:.1f} s")
        yield made
    finally:
        made.close()
        # They belong to the user of the containers.
        shutil.rmtree(place, ignore_errors=True)


@pytest.fixture(scope="module")
def kubectl(three: Composition) -> Kubectl:
    """kubectl of this machine."""
    return Kubectl(three.place / "deploy/control.kubeconfig", cache=three.place / "kubectl-cache")


def test_either_instance_of_a_service_is_enough(three: Composition, kubectl: Kubectl) -> None:
    load = Load(kubectl, "either")
    load.prepare()
    services = ("detector", "scheduler", "override-renderer", "executor")
    for number in (1, 2):
        lost = [three.container(service, number) for service in services]
        for container in lost:
            three.kill(container)
        with Load(kubectl, f"without-{number}") as load:
            load.until_acknowledged(5)
        load.until_everywhere()
        for container in lost:
            container.start()
        three.until_healthy(*lost)


async def test_a_log_server_comes_back_from_an_empty_disk(three: Composition, kubectl: Kubectl) -> None:
    _, wiped, last = HIGHLY_AVAILABLE.nats
    load = Load(kubectl, "wiped")
    load.prepare()
    with load:
        load.until_acknowledged(5)
        server = three.container(wiped)
        three.kill(server)
        empty(three.place / "deploy/data" / wiped)
        load.until_acknowledged(5)
        server.start()
        await until_in_step(three)
        # From here on its copy is needed: another one is gone.
        three.kill(three.container(last))
        load.until_acknowledged(5)
        three.container(last).start()
    load.until_everywhere()
    await until_in_step(three)


def empty(directory: Path) -> None:
    """Remove what is in a directory, not the directory: it is mounted."""
    for path in directory.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert list(directory.iterdir()) == []


async def until_in_step(three: Composition) -> None:
    """Wait until every server has every message of every stream."""
    behind: list[str] = []
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline:
        behind = await _behind(three)
        if not behind:
            return
    until(f"copies of all servers are in step: {behind}", lambda: False, 0)


class _Peer(msgspec.Struct):
    name: str
    current: bool = False
    offline: bool = False
    lag: int = 0


class _Cluster(msgspec.Struct):
    replicas: list[_Peer] = []


class _Info(msgspec.Struct):
    cluster: _Cluster | None = None


async def _behind(three: Composition) -> list[str]:
    settings = Settings(
        nats_user="hub",
        nats_password_file=str(three.place / "deploy/hub.password"),
        tls_ca=str(three.place / "deploy/ca.crt"),
    )
    url = f"tls://127.0.0.1:{three.ports['LOG']}"
    connection = await Connection.open(url, name="tests", **access_options(settings))
    try:
        found = []
        for stream in STREAMS:
            try:
                answer = await connection.request(f"$JS.API.STREAM.INFO.{stream.name}", b"")
            except LogError as error:
                found.append(f"{stream.name}: {error}")
                continue
            info = msgspec.json.decode(answer.data, type=_Info)
            peers = info.cluster.replicas if info.cluster else []
            if len(peers) < len(HIGHLY_AVAILABLE.nats) - 1:
                found.append(f"{stream.name} has {1 + len(peers)} copies")
            found += [f"{stream.name} on {peer.name}" for peer in peers if not peer.current or peer.offline or peer.lag]
    finally:
        await connection.close()
    return found
