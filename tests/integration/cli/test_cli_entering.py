"""Members are read and entered through the control plane: printers, watches, usage, and what kubectl does there."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from tests.integration.cli.conftest import Commands, eventually

pytestmark = pytest.mark.xdist_group("commands")


@pytest.fixture
def pod(commands: Commands) -> str:
    """The pod of the example in member1."""
    found: list[str] = []

    def there() -> bool:
        found[:] = commands.karmadactl("get", "pods", "-l", "app=nginx", "-C", "member1", "-o", "name").stdout.split()
        return len(found) == 1

    eventually(there)
    return found[0].removeprefix("pod/")


def test_usage_of_pods_and_nodes_comes_from_each_member(commands: Commands, pod: str) -> None:
    eventually(lambda: commands.karmadactl("top", "pod", pod, "-C", "member1").returncode == 0)
    rows = commands.rows("top", "pod", "-C", "member1,member2", "-l", "app=nginx")
    assert rows[0] == ["NAME", "CLUSTER", "CPU(cores)", "MEMORY(bytes)"]
    assert [row[1] for row in rows[1:]] == ["member1", "member2"]
    assert rows[1][2].endswith("m")
    assert rows[1][3].endswith("Mi")
    nodes = commands.rows("top", "node", "-C", "member2")
    assert nodes[0] == ["NAME", "CLUSTER", "CPU(cores)", "CPU%", "MEMORY(bytes)", "MEMORY%"]
    assert {row[1] for row in nodes[1:]} == {"member2"}
    missing = commands.karmadactl("top", "pod", "nope", "-C", "member1")
    assert (missing.returncode, missing.stdout) == (1, "")
    assert "cluster(member1)" in missing.stderr


def test_kubectl_works_in_a_member_behind_the_proxy(commands: Commands, pod: str) -> None:
    inside = ("-s", "members", "--cluster", "member1")
    described = commands.karmadactl("describe", "pod", pod, "-s", "members", "-C", "member1")
    assert described.returncode == 0, described.stderr
    assert pod in described.stdout
    logged = commands.karmadactl("logs", pod, "-C", "member1", "--tail", "1")
    assert (logged.returncode, len(logged.stdout.splitlines())) == (0, 1), logged.stderr
    ran = commands.karmadactl("exec", pod, *inside, "--", "sh", "-c", "echo inside; exit 3")
    assert (ran.returncode, ran.stdout) == (3, "inside\n"), ran.stderr


def test_a_cluster_that_is_no_member_is_named(commands: Commands) -> None:
    for words in (("logs", "x", "-C", "moon"), ("describe", "pods", "-C", "moon"), ("top", "pod", "-C", "moon")):
        shown = commands.karmadactl(*words)
        assert (shown.returncode, shown.stdout) == (1, "")
        assert "moon" in shown.stderr
    assert not list(Path(tempfile.gettempdir()).glob("karmadactl-*/kubeconfig"))


def test_completion_knows_the_control_plane_and_members(commands: Commands, pod: str) -> None:
    def offered(*words: str) -> list[str]:
        lines = commands.karmadactl("__complete", *words).stdout.splitlines()
        return [line.partition("\t")[0] for line in lines if not line.startswith(":")]

    eventually(lambda: "deployments" in offered("get", "dep"))
    assert offered("get", "deploy", "ngi") == ["nginx"]
    assert offered("get", "deploy/ngi") == ["deploy/nginx"]
    assert {"member1", "member2"} <= set(offered("get", "pods", "-C", ""))
    # A shell does not wait for a busy machine.
    eventually(lambda: pod in offered("get", "pods", "-C", "member1", ""))
    eventually(lambda: pod in offered("logs", "-C", "member1", ""))
    assert offered("describe", "deploy", "ng") == ["nginx"]
    assert "member1" in offered("describe", "deploy", "-C", "")
