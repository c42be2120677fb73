"""Joining, leaving and tainting members with `karmadactl`."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from tests.integration.cli.conftest import Commands, eventually

pytestmark = pytest.mark.xdist_group("commands")


def kubectl(commands: Commands, kubeconfig: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = str(commands.directory / f"{kubeconfig}.kubeconfig")
    return subprocess.run(
        ["kubectl", "--kubeconfig", path, *arguments], capture_output=True, text=True, timeout=60, check=False
    )


def cluster(commands: Commands, name: str) -> dict[str, Any]:
    item: dict[str, Any] = json.loads(commands.karmadactl("get", "clusters", name, "-o", "json").stdout)
    return item


def test_a_member_that_leaves_keeps_none_of_our_rights(commands: Commands) -> None:
    member = str(commands.directory / "member3.kubeconfig")
    if commands.karmadactl("get", "clusters", "member3").returncode == 0:
        assert commands.karmadactl("unjoin", "member3").returncode == 0
    assert commands.karmadactl("join", "leaver", "--cluster-kubeconfig", member).returncode == 0
    kinds = ("clusterrole,clusterrolebinding,ns", "-o", "name")
    made = kubectl(commands, "member3", "get", *kinds).stdout
    assert "clusterrolebinding.rbac.authorization.k8s.io/karmada-controller-manager:karmada-leaver" in made
    assert "namespace/karmada-cluster" in made
    # No kubeconfig is given: the stored credentials remove themselves.
    left = commands.karmadactl("unjoin", "leaver")
    assert (left.returncode, left.stdout) == (0, "cluster(leaver) is unjoined successfully\n"), left.stderr
    assert "stay" not in left.stderr
    # It may join again at once, while the rest of what was there goes.
    assert commands.karmadactl("join", "leaver", "--cluster-kubeconfig", member).returncode == 0
    assert commands.karmadactl("unjoin", "leaver").returncode == 0
    eventually(lambda: "leaver" not in kubectl(commands, "member3", "get", *kinds).stdout)
    again = commands.karmadactl("join", "leaver", "--cluster-kubeconfig", member)
    assert again.returncode == 0, again.stderr
    eventually(lambda: ["leaver", "True"] in [[row[0], row[4]] for row in commands.rows("get", "clusters")])
    control = ("-n", "karmada-cluster", "secret", "leaver")
    broken = kubectl(commands, "control", "patch", *control, "-p", '{"data":{"token":"eA=="}}')
    assert broken.returncode == 0, broken.stderr
    left = commands.karmadactl("unjoin", "leaver", "--wait", "1s", "--force")
    assert left.returncode == 0, left.stderr
    assert "delete clusterrolebinding/karmada-controller-manager:karmada-leaver" in left.stderr
    assert commands.karmadactl("join", "member3", "--cluster-kubeconfig", member).returncode == 0
