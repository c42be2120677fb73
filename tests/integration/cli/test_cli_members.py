"""Joining, leaving and tainting members with `karmadactl`."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from tests.integration.cli.conftest import Commands, eventually


def kubectl(commands: Commands, kubeconfig: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = str(commands.directory / f"{kubeconfig}.kubeconfig")
    return subprocess.run(
        ["kubectl", "--kubeconfig", path, *arguments], capture_output=True, text=True, timeout=60, check=False
    )


def cluster(commands: Commands, name: str) -> dict[str, Any]:
    item: dict[str, Any] = json.loads(commands.karmadactl("get", "clusters", name, "-o", "json").stdout)
    return item


def test_a_member_leaves_without_a_trace_and_joins_again(commands: Commands) -> None:
    member = str(commands.directory / "member3.kubeconfig")
    left = commands.karmadactl("unjoin", "member3", "--cluster-kubeconfig", member)
    assert (left.returncode, left.stdout) == (0, "cluster(member3) is unjoined successfully\n"), left.stderr
    assert kubectl(commands, "control", "get", "secret", "-n", "karmada-cluster", "member3").returncode == 1
    roles = kubectl(commands, "member3", "get", "clusterrole,clusterrolebinding,ns", "-o", "name").stdout
    # Other tests let this cluster register under another name, and the account of that one stays.
    assert "karmada-member3" not in roles
    assert "namespace/karmada" not in roles

    again = commands.karmadactl("unjoin", "member3")
    assert again.returncode == 1
    assert "no cluster object member3" in again.stderr

    options = ("--cluster-provider", "acme", "--cluster-region", "eu", "--cluster-zones", "a,b")
    dry = commands.karmadactl("join", "member3", "--cluster-kubeconfig", member, "--dry-run")
    assert dry.returncode == 0
    assert commands.karmadactl("get", "clusters", "member3").returncode == 1
    joined = commands.karmadactl("join", "member3", "--cluster-kubeconfig", member, *options)
    assert (joined.returncode, joined.stdout) == (0, "cluster(member3) is joined successfully\n"), joined.stderr
    spec = cluster(commands, "member3")["spec"]
    assert (spec["provider"], spec["region"], spec["zones"]) == ("acme", "eu", ["a", "b"])
    eventually(lambda: ["member3", "True"] in [[row[0], row[4]] for row in commands.rows("get", "clusters")])
    assert commands.karmadactl("get", "namespaces", "-C", "member3").returncode == 0

    twice = commands.karmadactl("join", "member3", "--cluster-kubeconfig", member)
    assert twice.returncode == 1
    assert "registered already" in twice.stderr
    other = commands.karmadactl("join", "other", "--cluster-kubeconfig", member)
    assert other.returncode == 1
    assert "member3" in other.stderr


def test_a_join_that_cannot_be_writes_nothing(commands: Commands) -> None:
    gone = commands.karmadactl("join", "m9", "--cluster-kubeconfig", str(commands.directory / "none"))
    assert gone.returncode == 1
    assert gone.stderr.startswith("error: kubeconfig ")
    member = str(commands.directory / "member2.kubeconfig")
    context = commands.karmadactl("join", "m9", "--cluster-kubeconfig", member, "--cluster-context", "moon")
    assert context.returncode == 1
    assert "moon" in context.stderr
    name = commands.karmadactl("join", "No_Name", "--cluster-kubeconfig", member)
    assert name.returncode == 1
    assert commands.karmadactl("get", "clusters", "m9").returncode == 1


def test_cordon_and_uncordon_report_no_change(commands: Commands) -> None:
    said = [commands.karmadactl(word, "member2").stdout for word in ("cordon", "cordon", "uncordon", "uncordon")]
    assert said == [
        "member2 cluster cordoned\n",
        "member2 cluster already cordoned\n",
        "member2 cluster uncordoned\n",
        "member2 cluster already uncordoned\n",
    ]


def test_taints_are_set_replaced_and_removed(commands: Commands) -> None:
    def taint(*words: str) -> subprocess.CompletedProcess[str]:
        return commands.karmadactl("taint", "clusters", "member2", *words)

    assert taint("dedicated=a:NoSchedule").stdout == "cluster/member2 tainted\n"
    refused = taint("dedicated=b:NoSchedule")
    assert refused.returncode == 1
    assert "--overwrite" in refused.stderr
    assert taint("dedicated=b:NoSchedule", "--overwrite").stdout == "cluster/member2 modified\n"
    found = [item for item in cluster(commands, "member2")["spec"]["taints"] if item["key"] == "dedicated"]
    assert found == [{"key": "dedicated", "value": "b", "effect": "NoSchedule"}]
    assert taint("dedicated:NoSchedule-").stdout == "cluster/member2 untainted\n"
    assert taint("dedicated-").returncode == 1
    assert "dedicated" not in json.dumps(cluster(commands, "member2")["spec"].get("taints"))
    assert commands.karmadactl("taint", "clusters", "moon", "a:NoSchedule").returncode == 1
