"""A pull member with kubectl through its agent: reads, changes, watches, logs, exec."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.e2e.entering import Inside, running_pod
from tests.e2e.fleet import Kubectl
from tests.e2e.space import Space

pytestmark = pytest.mark.xdist_group("views")

PULL = "member3"


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


def test_the_cluster_says_whether_its_agent_answers(control: Kubectl) -> None:
    told = control.run("describe", "cluster", PULL)
    answered = r"the agent answers requests of people: all\n(.*\n){0,2} +Status: +True\n +Type: +AnswersRequests\n"
    assert re.search(answered, told)
    assert "AnswersRequests" not in control.run("describe", "cluster", "member1")
