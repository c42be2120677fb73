"""The first walk a newcomer takes: nginx divided over two clusters, scaled, rolled, moved, and deleted."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.fleet import EXAMPLES, Failed, Fleet, Kubectl, until, until_equal
from tests.e2e.space import weighed

pytestmark = pytest.mark.xdist_group("workloads")

DEPLOYMENT = EXAMPLES / "nginx-demo.yaml"
POLICY = EXAMPLES / "nginx-propagation.yaml"
EVENTS = {
    "ApplyPolicySucceed": ("resource-detector", "Apply policy(default/nginx-propagation) succeed"),
    "ScheduleBindingSucceed": ("default-scheduler", "Binding has been scheduled successfully."),
    "SyncWorkSucceed": ("binding-controller", "Sync work of"),
    "AggregateStatusSucceed": ("resource-binding-status-controller", "with AggregatedStatus successfully."),
}


class Walk:
    """nginx in one installation, seen with one kubectl."""

    def __init__(self, fleet: Fleet, program: str) -> None:
        self.fleet = fleet
        self.control = fleet.kubectl(program=program)
        self.member = {name: fleet.kubectl(name, program=program) for name in fleet.members}

    def running(self) -> dict[str, int]:
        """Running pods of nginx by member; members without any are left out."""
        count = {
            name: sum(
                pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
                for pod in kubectl.items("pods", selector="app=nginx")
            )
            for name, kubectl in self.member.items()
        }
        return {name: number for name, number in count.items() if number}

    def left(self) -> list[str]:
        """Objects of nginx in members, those that end included."""
        kinds = "deployments,replicasets,pods"
        return [
            f"{name}/{item}"
            for name, kubectl in self.member.items()
            for item in kubectl.names(kinds, selector="app=nginx")
        ]

    def images(self) -> set[str]:
        """Images of nginx's pods in all members."""
        return {
            container["image"]
            for kubectl in self.member.values()
            for pod in kubectl.items("pods", selector="app=nginx")
            for container in pod["spec"]["containers"]
        }

    def until_running(self, wanted: dict[str, int]) -> None:
        """Wait until the members run exactly this many pods, and the template's status is their sum."""
        until_equal("running pods by member", self.running, wanted)
        total = sum(wanted.values())

        def summed() -> tuple[int, int, int]:
            status = (self.control.get("deployment", "nginx") or {}).get("status") or {}
            return status.get("replicas", 0), status.get("readyReplicas", 0), status.get("updatedReplicas", 0)

        until_equal("summed status", summed, (total, total, total))

    def weigh(self, first: int, second: int) -> None:
        """Edit the policy: these weights for member1 and member2."""
        placement = weighed(member1=first, member2=second)
        self.control.patch("propagationpolicy", "nginx-propagation", {"spec": {"placement": placement}})


@pytest.fixture
def walk(fleet: Fleet, program: str) -> Iterator[Walk]:
    """A walk that leaves nothing behind."""
    made = Walk(fleet, program)
    yield made
    made.control.run("delete", "deployment/nginx", "propagationpolicy/nginx-propagation", "--ignore-not-found")
    until_equal("objects of nginx in members after the walk", made.left, [])


@pytest.fixture
def started(walk: Walk) -> Walk:
    """nginx and its policy applied, one pod in each of two members."""
    walk.control.apply(DEPLOYMENT)
    walk.control.apply(POLICY)
    walk.until_running({"member1": 1, "member2": 1})
    return walk


@pytest.mark.main_path
def test_policy_divides_a_deployment_between_members(walk: Walk) -> None:
    assert "deployment.apps/nginx created" in walk.control.apply(DEPLOYMENT)
    assert walk.control.get("deployment", "nginx") is not None
    for kubectl in walk.member.values():
        assert "No resources found" in kubectl.run("get", "pods", check=False)
    applied = walk.control.apply(POLICY)
    assert "propagationpolicy.policy.karmada.io/nginx-propagation created" in applied
    walk.until_running({"member1": 1, "member2": 1})
    assert walk.member["member3"].get("deployment", "nginx") is None


def test_describe_shows_events_of_the_delivery(started: Walk) -> None:
    def told() -> str:
        text = started.control.run("describe", "deploy", "nginx")
        events = text.partition("Events:")[2]
        for reason, (source, message) in EVENTS.items():
            lines = [line for line in events.splitlines() if f" {reason} " in line]
            if not any("Normal" in line and source in line and message in line for line in lines):
                raise Failed(f"no {reason} in:{events}")
        for member in ("member1", "member2"):
            if f"Successfully applied resource(default/nginx) to cluster {member}" not in events:
                raise Failed(f"nothing was applied to {member} in:{events}")
        return events

    events = until("the events of nginx", told)
    assert "Warning" not in events


def test_tables_show_policies_and_clusters(started: Walk) -> None:
    lines = started.control.run("get", "propagationpolicy").splitlines()
    assert lines[0].split()[0] == "NAME"
    assert lines[0].split()[-1] == "AGE"
    assert lines[1].split()[0] == "nginx-propagation"
    lines = started.control.run("get", "clusters").splitlines()
    assert lines[0].split() == ["NAME", "VERSION", "MODE", "READY", "AGE"]
    modes = {"member1": "Push", "member2": "Push", "member3": "Pull"}

    def rows() -> list[tuple[str, ...]]:
        found = [line.split() for line in started.control.run("get", "clusters").splitlines()[1:]]
        return [(row[0], row[1].partition(".")[0], row[2], row[3]) for row in found]

    until_equal("rows", rows, [(name, "v1", mode, "True") for name, mode in modes.items()])


def test_bindings_and_works_are_shown(started: Walk) -> None:
    def bindings() -> list[list[str]]:
        return [line.split()[:3] for line in started.control.run("get", "rb").splitlines()]

    # Who writes the template's status and who shows bindings read the log each for themselves.
    shown = [["NAME", "SCHEDULED", "FULLYAPPLIED"], ["nginx-deployment", "True", "True"]]
    until_equal("bindings", bindings, shown)
    text = started.control.run("get", "rb,work", "-A")
    for namespace in ("karmada-es-member1", "karmada-es-member2"):
        assert any(line.startswith(namespace) and "nginx-" in line for line in text.splitlines()), text
    assert not any(line.startswith("karmada-es-member3") and "nginx-" in line for line in text.splitlines())


def test_a_new_image_rolls_out_in_every_member(started: Walk) -> None:
    started.control.run("set", "image", "deployment/nginx", "nginx=nginx:1.27.3")
    until_equal("images of the pods", started.images, {"nginx:1.27.3"})
    started.until_running({"member1": 1, "member2": 1})
    assert "successfully rolled out" in started.control.run("rollout", "status", "deployment/nginx", "--timeout=60s")


@pytest.mark.main_path
def test_edited_weights_move_replicas(started: Walk) -> None:
    started.control.run("scale", "deployment/nginx", "--replicas=6")
    started.until_running({"member1": 3, "member2": 3})
    started.weigh(2, 1)
    started.until_running({"member1": 4, "member2": 2})
    started.weigh(1, 2)
    started.until_running({"member1": 2, "member2": 4})


@pytest.mark.main_path
def test_bindings_and_works_end_with_the_deployment(started: Walk) -> None:
    until("bindings and works of nginx", lambda: _named(started.control, "nginx-"))
    started.control.delete("deployment", "nginx")
    until_equal("bindings and works of nginx", lambda: _named(started.control, "nginx-"), [])


def _named(control: Kubectl, prefix: str) -> list[str]:
    text = control.run("get", "rb,work", "-A", "-o", "name")
    return [line for line in text.splitlines() if line.partition("/")[2].startswith(prefix)]
