"""A pull member with kubectl through its agent: reads, watches, logs, exec both ways, port-forward, rights, records."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.e2e.entering import CLUSTERS, Inside, running_pod
from tests.e2e.fleet import Failed, Fleet, Kubectl, until
from tests.e2e.space import Space
from tests.support.commands import run_command

pytestmark = pytest.mark.xdist_group("views")

PULL = "member3"
PROXY = f"{CLUSTERS}/{PULL}/proxy"


@pytest.fixture
def inside(control: Kubectl) -> Inside:
    """The pull member through the control plane."""
    return Inside(control, PULL)


@pytest.fixture
def pod(members: dict[str, Kubectl], space: Space) -> Iterator[str]:
    """A pod that runs in the pull member, made there by hand."""
    with running_pod(members[PULL], space.name) as made:
        yield made


@pytest.mark.main_path
def test_a_pull_member_is_read_and_changed(inside: Inside, members: dict[str, Kubectl], space: Space) -> None:
    assert "member3-node-1" in inside.run("get", "nodes")
    inside.run("create", "configmap", "by-agent", "--from-literal=a=b", namespace=space.name)
    assert members[PULL].get("configmap", "by-agent", space.name) is not None
    follow = ("get", "configmap", "by-agent", "-w", "-o", "jsonpath={.data.a},")
    with inside.started("-n", space.name, *follow) as (_, said):
        assert said.read(2) == b"b,"
        members[PULL].run("patch", "configmap", "by-agent", "-p", '{"data":{"a":"c"}}', namespace=space.name)
        assert said.read(2) == b"c,"
    inside.run("delete", "configmap", "by-agent", namespace=space.name)
    assert members[PULL].get("configmap", "by-agent", space.name) is None


def test_a_container_of_a_pull_member_is_entered(inside: Inside, pod: str, space: Space) -> None:
    assert inside.run("exec", pod, "--", "echo", "hi", namespace=space.name) == "hi\n"
    assert inside.run("exec", "-i", pod, "--", "wc", "-c", namespace=space.name, stdin="twelve bytes") == "12\n"
    assert "listening" in inside.run("logs", pod, namespace=space.name)


def test_a_port_of_a_pull_member_is_forwarded(inside: Inside, pod: str, space: Space) -> None:
    with inside.started("-n", space.name, "port-forward", pod, ":80") as (_, said):
        line = said.readline().decode()
        found = re.search(r"127\.0\.0\.1:(\d+)", line)
        assert found is not None, line
        with urllib.request.urlopen(f"http://127.0.0.1:{found[1]}/", timeout=60) as answer:
            assert b"It works" in answer.read()


def test_a_caller_has_its_own_rights_in_a_pull_member(
    control: Kubectl, members: dict[str, Kubectl], space: Space, tmp_path: Path
) -> None:
    user = f"{space.name}-eve"
    account = f"--serviceaccount={space.name}:eve"
    control.run("create", "serviceaccount", "eve", namespace=space.name)
    token = control.run("create", "token", "eve", namespace=space.name).strip()
    document = yaml.safe_load(control.run("config", "view", "--minify", "--flatten", "-o", "yaml", "--raw"))
    document["users"][0]["user"] = {"token": token}
    path = tmp_path / "eve.kubeconfig"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    eve = Kubectl(path)
    with pytest.raises(Failed, match='cannot get resource "clusters/proxy"'):
        eve.run("get", "--raw", f"{PROXY}/version")
    proxy = "clusters.cluster.karmada.io/proxy"
    control.run("create", "clusterrole", user, "--verb=get", f"--resource={proxy}", f"--resource-name={PULL}")
    control.run("create", "clusterrolebinding", user, f"--clusterrole={user}", account)
    try:
        assert "gitVersion" in eve.run("get", "--raw", f"{PROXY}/version")
        with pytest.raises(Failed, match=f'User "system:serviceaccount:{space.name}:eve" cannot list resource "nodes"'):
            eve.run("get", "--raw", f"{PROXY}/api/v1/nodes")
        members[PULL].run("create", "clusterrole", user, "--verb=list", "--resource=nodes")
        members[PULL].run("create", "clusterrolebinding", user, f"--clusterrole={user}", account)
        until("its nodes", lambda: "NodeList" in eve.run("get", "--raw", f"{PROXY}/api/v1/nodes", check=False))
    finally:
        for kubectl in (control, members[PULL]):
            kubectl.run("delete", "clusterrole,clusterrolebinding", user, check=False)


def test_the_cluster_says_whether_its_agent_answers(control: Kubectl) -> None:
    told = control.run("describe", "cluster", PULL)
    answered = r"the agent answers requests of people: all\n(.*\n){0,2} +Status: +True\n +Type: +AnswersRequests\n"
    assert re.search(answered, told)
    assert "AnswersRequests" not in control.run("describe", "cluster", "member1")


def test_requests_are_on_record_of_both_sides(inside: Inside, fleet: Fleet, space: Space) -> None:
    path = f"/api/v1/namespaces/{space.name}/configmaps/none-of-this-name"
    inside.run("get", "configmap", "none-of-this-name", "--ignore-not-found", namespace=space.name)

    def told() -> bool:
        done = run_command(
            "fleetlog", "events", "--dir", str(fleet.layout.directory), "--subject", f"request.{PULL}.*", "--tail", "0"
        )
        lines = [line for line in done.stdout.splitlines() if path in line and "404" in line]
        return {"hub", "agent"} <= {side for side in ("hub", "agent") for line in lines if f"{PULL}.{side}" in line}

    until("the records of both sides", told)
