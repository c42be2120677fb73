"""`karmadactl apply`: kubectl applies, and with clusters the objects go there by policies that later runs change."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.reading import reader_of
from tests.integration.cli.conftest import Commands, eventually

pytestmark = pytest.mark.xdist_group("commands")

OBJECTS = """
apiVersion: v1
kind: ConfigMap
metadata: {name: carried, namespace: default}
data: {a: "1"}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: carried}
rules: []
"""


@pytest.fixture
def file(commands: Commands, tmp_path: Path) -> Iterator[Path]:
    """A file with an object in a namespace and one without."""
    path = tmp_path / "objects.yaml"
    path.write_text(OBJECTS)
    yield path
    for kind in ("propagationpolicies", "clusterpropagationpolicies"):
        commands.kubectl("delete", kind, name(commands, kind), "--ignore-not-found")
    commands.kubectl("delete", "configmap/carried", "clusterrole/carried", "--ignore-not-found")


def name(commands: Commands, kind: str) -> str:
    """The name of the policy that the command made."""
    found = reader_of(commands.kubeconfig).items(kind)
    return next((item["metadata"]["name"] for item in found if item["metadata"]["name"].startswith("carried-")), "none")


def holders(commands: Commands) -> set[str]:
    """The members that hold the ConfigMap."""
    members = ("member1", "member2", "member3")
    files = {member: commands.directory / f"{member}.kubeconfig" for member in members}
    return {member for member, file in files.items() if reader_of(file).get("configmaps", "carried")}


def test_objects_go_to_the_clusters_named(commands: Commands, file: Path) -> None:
    plain = commands.karmadactl("apply", "-f", str(file))
    assert (plain.returncode, plain.stdout.splitlines()) == (
        0,
        ["configmap/carried created", "clusterrole.rbac.authorization.k8s.io/carried created"],
    ), plain.stderr
    assert name(commands, "propagationpolicies") == "none"

    dry = commands.karmadactl("apply", "-f", str(file), "-C", "member1", "--dry-run=server")
    assert dry.returncode == 0, dry.stderr
    assert "created (server dry run)" in dry.stdout
    assert name(commands, "propagationpolicies") == "none"

    unknown = commands.karmadactl("apply", "-f", str(file), "-C", "member1,nowhere")
    assert (unknown.returncode, unknown.stdout) == (1, "")
    assert "clusters don't exist: nowhere" in unknown.stderr

    placed = commands.karmadactl("apply", "-f", str(file), "-C", "member1,member3")
    assert placed.returncode == 0, placed.stderr
    made = name(commands, "propagationpolicies")
    assert f"propagationpolicy.policy.karmada.io/{made} created" in placed.stdout
    assert "clusterpropagationpolicy.policy.karmada.io/carried-" in placed.stdout
    eventually(lambda: holders(commands) == {"member1", "member3"})

    again = commands.karmadactl("apply", "-f", str(file), "--all-clusters")
    assert again.returncode == 0, again.stderr
    assert f"propagationpolicy.policy.karmada.io/{made} configured" in again.stdout
    eventually(lambda: holders(commands) == {"member1", "member2", "member3"})
