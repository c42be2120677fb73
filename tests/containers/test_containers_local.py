"""`docker compose up`: from nothing to members that run nginx, and through faults of every kind without a loss."""

from __future__ import annotations

import json
import random
import re
import threading
import time
from collections.abc import Iterator
from urllib.request import urlopen

import pytest

from k8s.images import PROMETHEUS_IMAGE
from k8s.shared import ROOT
from schemas.topology import OPTIONAL, SERVICES, WITHOUT_LOG
from services._rules.kubernetes.rbac.service_roles import dns
from services.cli.registration.confined_pods import USER
from tests.containers import engine
from tests.containers.composition import Composition
from tests.containers.load import Load
from tests.e2e.fleet import EXAMPLES, Kubectl, until, until_equal

pytestmark = [pytest.mark.containers, pytest.mark.timeout(900)]
SEED = 41
RUNNING = tuple(dns(service) for service in SERVICES if service not in OPTIONAL | WITHOUT_LOG)
DISTURBED = (
    "nats",
    "embedded",
    "member1",
    "agent",
    "detector",
    "scheduler",
    "override-renderer",
    "executor",
    "gateway",
)
TOGETHER = 5
"""Services that are restarted at a time."""
FAULTS = ("kill", "freeze", "cut off")


@pytest.fixture(scope="module")
def local(image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Composition]:
    """The local composition, started with one command."""
    files, place = ["compose.yaml"], tmp_path_factory.mktemp("local")
    made = Composition(files, ROOT, place, project="fleetlog-test-local", profiles=["monitoring"])
    try:
        # Grafana is in no registry that this can do without.
        services = ["prometheus"] if engine.has_image(PROMETHEUS_IMAGE) else []
        began = time.monotonic()
        made.run("up", "--detach", "--wait", *RUNNING, "agent", *services, seconds=480)
        print(f"start to ready: {time.monotonic() - began:.1f} s; image: {engine.megabytes(image):.0f} MB")
        yield made
        print(f"memory in MiB: {made.memory()}")
    finally:
        made.close()


@pytest.fixture(scope="module")
def kubectl(local: Composition) -> Kubectl:
    """kubectl of this machine."""
    return local.kubectl()


def test_the_image_has_what_kubeconfigs_with_commands_need(image: str) -> None:
    loads = "from services._kit.kube.client_core import client_core; print(client_core()[1].__name__)"
    sandbox = ("--rm", "--read-only", "--tmpfs", "/tmp", "--entrypoint", "python")
    assert "kube_config" in engine.docker("run", *sandbox, image, "-c", loads).stdout
    assert engine.docker("run", *sandbox, image, "-c", "import os; print(os.getuid())").stdout.strip() == str(USER)


@pytest.mark.main_path
def test_members_are_ready_after_one_command(local: Composition, kubectl: Kubectl) -> None:
    until_equal(
        "members that are Ready",
        lambda: {
            one["metadata"]["name"]: one["spec"]["syncMode"]
            for one in kubectl.items("clusters")
            for condition in one["status"].get("conditions", ())
            if (condition["type"], condition["status"]) == ("Ready", "True")
        },
        {"member1": "Push", "member2": "Push", "member3": "Pull"},
    )
    # Whatever a service needs is there before it starts: none had to start twice.
    assert {one.name: one.attrs["RestartCount"] for one in local.containers() if one.attrs["RestartCount"]} == {}
    assert all(one.attrs["Config"]["User"] == "65532:65532" for one in local.containers())
    assert all(one.attrs["HostConfig"]["ReadonlyRootfs"] for one in local.containers())


@pytest.mark.main_path
def test_nginx_runs_in_two_members(local: Composition, kubectl: Kubectl) -> None:
    kubectl.apply(EXAMPLES / "nginx-demo.yaml")
    kubectl.apply(EXAMPLES / "nginx-propagation.yaml")
    until_equal(
        "summed status",
        lambda: ((kubectl.get("deployment", "nginx") or {}).get("status") or {}).get("readyReplicas"),
        2,
    )
    pods = local.command("karmadactl", "get", "pods", "-C", "member1,member2,member3")
    assert sorted(re.findall(r"^nginx-\S+ +(member\d)", pods, re.MULTILINE)) == ["member1", "member2"]
    assert "PlacementDecided" in local.command("fleetlog", "history", "deployment", "nginx")
    assert "detector" in local.command("fleetlog", "status")


def test_prometheus_sees_every_service(local: Composition) -> None:
    if not engine.has_image(PROMETHEUS_IMAGE):
        pytest.skip(f"the engine has no image {PROMETHEUS_IMAGE}")

    def up() -> set[str]:
        with urlopen(f"http://127.0.0.1:{local.ports['PROMETHEUS']}/api/v1/query?query=up==1", timeout=10) as answer:
            return {one["metric"]["job"] for one in json.load(answer)["data"]["result"]}

    wanted = {*SERVICES, "agent", "control"} - OPTIONAL - WITHOUT_LOG
    until("every service is scraped", lambda: up() == wanted, 120)


def test_nothing_is_lost_when_containers_fail(local: Composition, kubectl: Kubectl) -> None:
    chosen = random.Random(SEED)
    plan = [(service, FAULTS[place % len(FAULTS)]) for place, service in enumerate(DISTURBED)]
    chosen.shuffle(plan)
    load = Load(kubectl)
    load.prepare()
    with load:
        for service, fault in plan:
            load.until_acknowledged(3)
            disturb(local, service, fault, chosen.uniform(2, 8))
        load.until_acknowledged(5)
    load.until_everywhere()
    until_members_are_ready(kubectl)


def test_nothing_is_lost_in_a_rolling_restart(local: Composition, kubectl: Kubectl) -> None:
    load = Load(kubectl, "rolled")
    load.prepare()
    with load:
        rolled = (*RUNNING, "agent")
        for place in range(0, len(rolled), TOGETHER):
            services = rolled[place : place + TOGETHER]
            local.run("restart", *services)
            local.until_healthy(*map(local.container, services))
        load.until_acknowledged(3)
    load.until_everywhere()
    assert load.failures == [], "the API server was not restarted"


def test_code_of_the_working_copy_runs_when_it_is_mounted(local: Composition) -> None:
    local.run("up", "--detach", "--wait", "--no-deps", "scheduler", over=[ROOT / "compose.dev.yaml"])
    where = local.run("exec", "-T", "scheduler", "python", "-c", "import services, schemas; print(services, schemas)")
    assert "/app/source/services" in where
    assert "/app/source/schemas" in where


def disturb(local: Composition, service: str, fault: str, seconds: float) -> None:
    """One fault of a container for some seconds, and what follows until it is well again."""
    container = local.container(service)
    pause = threading.Event()
    if fault == "kill":
        container.kill("SIGKILL")
        # The engine does not start again by itself what it was told to kill.
        container.start()
    elif fault == "freeze":
        with local.frozen(container):
            pause.wait(seconds)
    else:
        with local.cut_off(container):
            pause.wait(seconds)
    local.until_healthy(container)


def until_members_are_ready(kubectl: Kubectl) -> None:
    """Wait until every member is Ready."""
    kubectl.run("wait", "--for=condition=Ready", "clusters", "--all", "--timeout=120s")
