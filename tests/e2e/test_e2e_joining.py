"""Clusters join, register, leave, and are kept apart; cordons and taints (journeys 19 to 24)."""

from __future__ import annotations

import base64
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from schemas.manifest import Manifest
from tests.e2e.fleet import Fleet, Kubectl, until, until_equal
from tests.e2e.installations import namespace
from tests.e2e.space import Space, clusters
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.xdist_group("policies")

MEMBER = "member3"
"""The cluster that leaves and joins in these tests; it is a pull member before and afterwards."""
KINDS = ("clusterrole,clusterrolebinding,namespace", "-o", "name")
PATIENT = ("--discovery-timeout", "80s")


@pytest.fixture
def space(fleet: Fleet, request: pytest.FixtureRequest) -> Iterator[Space]:
    """A namespace of its own."""
    with namespace(fleet, request.node.name, everywhere=False) as made:
        yield made


@pytest.fixture(scope="module")
def left(fleet: Fleet) -> Iterator[str]:
    """The kubeconfig of a cluster that has left and comes back at the end."""
    fleet.said("unjoin", MEMBER)
    path = str(fleet.layout.kubeconfig(MEMBER))
    yield path
    fleet.said("join", MEMBER, "--mode", "pull", "--cluster-kubeconfig", path)
    until_equal("the member again", lambda: shown(fleet, MEMBER), ["Pull", "True"])


@pytest.fixture
def file(fleet: Fleet, left: str) -> Iterator[str]:
    """The kubeconfig of a cluster that is no member, and is none afterwards."""
    yield left
    for name in set(fleet.kubectl().names("clusters")) - {"member1", "member2"}:
        fleet.said("unjoin", name, "--cluster-kubeconfig", left, "--wait", "30s", "--force")


def shown(fleet: Fleet, name: str) -> list[str]:
    """Mode and readiness of a cluster; nothing of one that is not there."""
    item = fleet.kubectl().get("cluster", name)
    if item is None:
        return []
    conditions = (item.get("status") or {}).get("conditions") or ()
    return [item["spec"]["syncMode"], *(one["status"] for one in conditions if one["type"] == "Ready")]


def refused(fleet: Fleet, *words: str) -> str:
    """The error of a command that ends with 1 and prints nothing else."""
    done = fleet.karmadactl(*words)
    assert (done.returncode, done.stdout) == (1, ""), (words, done.stderr)
    return done.stderr


@pytest.mark.main_path
def test_cluster_joins_in_push_mode_and_leaves_empty(fleet: Fleet, space: Space, file: str) -> None:
    # Journeys 19, 20 and 23.
    inside = fleet.kubectl(MEMBER)
    options = ("--cluster-provider", "acme", "--cluster-region", "eu", "--cluster-zones", "a,b")
    join = ("join", "edge", "--cluster-kubeconfig", file)
    for words, said in (
        (("join", "edge", "--cluster-kubeconfig", "/nowhere"), "kubeconfig /nowhere"),
        (("join", "No_Name", "--cluster-kubeconfig", file), "No_Name"),
        ((*join, "--cluster-context", "moon"), "moon"),
        ((*join, "--karmada-as", "mallory"), 'User "mallory" cannot'),
    ):
        assert said in refused(fleet, *words)
    assert fleet.said(*join, "--dry-run") == "cluster(edge) would be joined (dry run)\n"
    assert shown(fleet, "edge") == []
    administrator = ("--karmada-as", "admin", "--karmada-as-group", "system:masters", "--karmada-as-uid", "7")
    assert fleet.said(*join, *options, *administrator) == "cluster(edge) is joined successfully\n"
    until_equal("edge", lambda: shown(fleet, "edge"), ["Push", "True"])
    rows = fleet.table("get", "clusters", "edge")
    assert rows[0] == ["NAME", "CLUSTER", "VERSION", "MODE", "READY", "AGE", "ADOPTION"]
    assert [*rows[1][:2], *rows[1][3:5], rows[1][-1]] == ["edge", "Karmada", "Push", "True", "-"]
    spec = (space.control.get("cluster", "edge") or {})["spec"]
    assert [spec[name] for name in ("provider", "region", "zones")] == ["acme", "eu", ["a", "b"]]
    assert spec["id"] == (inside.get("namespace", "kube-system") or {})["metadata"]["uid"]
    for name in ("edge", "edge-impersonator"):
        (owner,) = (space.control.get("secret", name, "karmada-cluster") or {})["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"]) == ("Cluster", "edge")

    other = str(fleet.layout.kubeconfig("member2"))
    assert "registered already, under the name edge" in refused(fleet, "join", "again", "--cluster-kubeconfig", file)
    assert "edge is registered already" in refused(fleet, "join", "edge", "--cluster-kubeconfig", other)

    settings = space.apply(space.load("settings.yaml"))
    space.policy(settings, clusters("edge"))
    until("the copy", lambda: inside.get("configmap", "settings", space.name))
    assert "unjoin edge" in refused(fleet, "unregister", "edge", "--cluster-kubeconfig", file)
    assert fleet.said("unjoin", "edge") == "cluster(edge) is unjoined successfully\n"
    assert inside.get("configmap", "settings", space.name) is None
    assert shown(fleet, "edge") == []
    assert space.control.get("namespace", "karmada-es-edge") is None
    assert space.control.get("secret", "edge", "karmada-cluster") is None
    # It may join again at once, while the rest of what was there goes.
    fleet.said(*join)
    assert "stay" not in fleet.karmadactl("unjoin", "edge").stderr
    until("nothing of ours in it", lambda: "karmada-edge" not in inside.run("get", *KINDS))
    assert "no cluster object edge" in refused(fleet, "unjoin", "edge")


def test_member_that_refuses_its_credentials_says_what_stays(fleet: Fleet, control: Kubectl, file: str) -> None:
    fleet.said("join", "leaver", "--cluster-kubeconfig", file)
    control.run("patch", "secret", "leaver", "-p", '{"data":{"token":"eA=="}}', namespace="karmada-cluster")
    left = fleet.karmadactl("unjoin", "leaver", "--wait", "1s", "--force")
    assert left.returncode == 0, left.stderr
    assert "delete clusterrolebinding/karmada-controller-manager:karmada-leaver" in left.stderr


def test_cluster_entered_by_other_hands_can_be_used(fleet: Fleet, space: Space, file: str) -> None:
    # As Karmada's own command enters it: two accounts, of which one has no rights yet, and a namespace of its choice.
    control = space.control
    inside, place = fleet.kubectl(MEMBER), {"namespace": space.name}
    role = "cluster-admin"
    accounts = [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, **place}}
        for name in ("karmada-edge", "karmada-impersonator")
    ]
    rights = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "karmada-controller-manager:karmada-edge"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": "karmada-edge", **place}],
    }
    if inside.get("namespace", place["namespace"]) is None:
        inside.run("create", "namespace", place["namespace"])
    inside.apply({"apiVersion": "v1", "kind": "List", "items": [*accounts, rights]})
    tokens = [inside.run("create", "token", one["metadata"]["name"], namespace=place["namespace"]) for one in accounts]
    own = json.loads(Path(file).read_text())["clusters"][0]["cluster"]
    bundle = base64.b64decode(own["certificate-authority-data"]).decode()
    secrets = [
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, **place}, "stringData": data}
        for name, data in (
            ("edge", {"token": tokens[0].strip(), "caBundle": bundle}),
            ("edge-impersonator", {"token": tokens[1].strip()}),
        )
    ]
    spec: Manifest = {"syncMode": "Push", "apiEndpoint": own["server"], "secretRef": {"name": "edge", **place}}
    spec["impersonatorSecretRef"] = {"name": "edge-impersonator", **place}
    entry = {"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "edge"}, "spec": spec}
    control.apply({"apiVersion": "v1", "kind": "List", "items": [*secrets, entry]})
    until_equal("edge", lambda: shown(fleet, "edge"), ["Push", "True"])
    until("its nodes", lambda: fleet.karmadactl("get", "nodes", "-C", "edge").returncode == 0)
    assert [row[:2] for row in fleet.table("get", "nodes", "-C", "edge")][1] == [f"{MEMBER}-node-1", "edge"]
    settings = space.apply(space.load("settings.yaml"))
    space.policy(settings, clusters("edge"))
    until("the copy", lambda: inside.get("configmap", "settings", space.name))
    assert fleet.said("unjoin", "edge") == "cluster(edge) is unjoined successfully\n"


@contextmanager
def agent(printed: str, log: Path) -> Iterator[None]:
    """The process that a printed command starts."""
    words = shlex.split(printed[printed.index("  FLEETLOG_") :].replace("\\\n", " "))
    assert words[-3:] == ["python", "-m", "services.agent"]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FLEETLOG_")}
    settings = {**dict(word.split("=", 1) for word in words[:-3]), "FLEETLOG_HTTP_PORT": "0"}
    command = [sys.executable, "-m", "services.agent"]
    with log.open("wb") as told:
        process = subprocess.Popen(command, env={**kept, **settings}, stdout=told, stderr=told)
    try:
        yield
    finally:
        process.terminate()
        process.wait(PATIENCE)


def test_cluster_registers_with_a_token_and_unregisters(fleet: Fleet, space: Space, file: str, tmp_path: Path) -> None:
    # Journeys 21 to 24.
    line = fleet.said("token", "create", "--print-register-command")
    assert line.startswith("karmadactl register 127.0.0.1:")
    register = shlex.split(line)[1:]
    token = register[register.index("--token") + 1]
    header, *listed = fleet.said("token", "list").splitlines()
    assert header.split(maxsplit=5) == ["TOKEN", "TTL", "EXPIRES", "USAGES", "DESCRIPTION", "EXTRA GROUPS"]
    assert [row.split()[3:] for row in listed if row.startswith(token)] == [
        ["signing,authentication", "<none>", "system:bootstrappers:karmada:default-cluster-token"]
    ]
    member = ("--kubeconfig", file, "--cluster-name", "edge", *PATIENT)
    here = ("--agent-dir", str(tmp_path / "edge"))
    proxied = ("--cluster-region", "eu", "--proxy-server-address", "http://bastion:3128")
    printed = fleet.said(*register, *member, *here, *proxied)
    assert "[preflight] the control plane is https://" in printed
    assert "\ncluster(edge) is joined successfully\n" in printed
    spec = (space.control.get("cluster", "edge") or {})["spec"]
    assert [spec[name] for name in ("syncMode", "region", "proxyURL")] == ["Pull", "eu", "http://bastion:3128"]
    assert "agent of edge is let in" not in printed
    with agent(printed, tmp_path / "agent.log"):
        until_equal("edge", lambda: shown(fleet, "edge"), ["Pull", "True"])
        settings = space.apply(space.load("settings.yaml"))
        space.policy(settings, clusters("edge"))
        inside = fleet.kubectl(MEMBER)
        until("the copy", lambda: inside.get("configmap", "settings", space.name))
        # Nothing leads to it but its agent.
        assert [row[:2] for row in fleet.table("get", "nodes", "-C", "edge")][1] == [f"{MEMBER}-node-1", "edge"]

        elsewhere = (*PATIENT, "--agent-dir", str(tmp_path / "two"))
        other = ("--kubeconfig", str(fleet.layout.kubeconfig("member2")))
        for words, said in (
            (("--kubeconfig", file, "--cluster-name", "again", *elsewhere), "registered already, under the name edge"),
            ((*other, "--cluster-name", "edge", *elsewhere), "edge is registered already"),
        ):
            done = fleet.karmadactl(*register, *words)
            assert done.returncode == 1
            assert said in done.stderr
            assert not (tmp_path / "two").exists()

        gone = fleet.said("unregister", "edge", "--cluster-kubeconfig", file)
        assert gone.startswith("cluster(edge) is unjoined successfully\n")
        assert inside.get("configmap", "settings", space.name) is None
        assert shown(fleet, "edge") == []
    assert fleet.said("token", "delete", token.partition(".")[0]) == f'bootstrap token "{token[:6]}" deleted\n'


def test_agent_is_deployed_into_its_member_and_removed(fleet: Fleet, file: str) -> None:
    register = shlex.split(fleet.said("token", "create", "--print-register-command"))[1:]
    pods = (
        "-n",
        "fleet",
        "--karmada-agent-image",
        "mine/agent:1",
        "--agent-requests",
        "read",
        "--enable-cert-rotation",
    )
    done = fleet.karmadactl(*register, "--kubeconfig", file, "--cluster-name", "edge", *pods, *PATIENT)
    assert done.returncode == 0, done.stderr
    assert "[karmada-agent-start] waiting until the agent in fleet is ready\n" in done.stdout
    assert "--enable-cert-rotation: not needed" in done.stderr
    inside = fleet.kubectl(MEMBER)
    secret = (inside.get("secret", "karmada-kubeconfig", "fleet") or {})["data"]
    assert base64.b64decode(secret["identity"]).startswith(b"SU")
    assert b"tokenFile" in base64.b64decode(secret["kubeconfig"])
    pod = (inside.get("deployment", "karmada-agent", "fleet") or {})["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == "mine/agent:1"
    settings = {one["name"]: one["value"] for one in pod["containers"][0]["env"]}
    assert (settings["FLEETLOG_AGENT_CLUSTER"], settings["FLEETLOG_AGENT_REQUESTS"]) == ("edge", "read")
    again = fleet.karmadactl(*register, "--kubeconfig", file, "--cluster-name", "other", "-n", "fleet", *PATIENT)
    assert again.returncode == 1
    assert "[preflight] Deployment fleet/karmada-agent exists already in the member" in again.stderr
    # What is simulated runs no agent: nobody could empty the member.
    leave = ("--cluster-kubeconfig", file, "-n", "fleet", "--wait", "1s", "--force")
    gone = fleet.said("unregister", "edge", "--karmada-config", str(fleet.layout.kubeconfig("control")), *leave)
    assert gone.endswith("the agent of edge is removed\n")
    kinds = ("deployment,secret,serviceaccount", "-n", "fleet", "-o", "name")
    until("nothing of it in the member", lambda: "karmada-" not in inside.run("get", *kinds))
    assert "karmada-agent" not in inside.run("get", "clusterrole,clusterrolebinding", "-o", "name")


def test_cordons_and_taints_say_what_they_changed(fleet: Fleet) -> None:
    said = [fleet.said(word, "member2") for word in ("cordon", "cordon", "uncordon", "uncordon")]
    assert said == [
        "member2 cluster cordoned\n",
        "member2 cluster already cordoned\n",
        "member2 cluster uncordoned\n",
        "member2 cluster already uncordoned\n",
    ]
    taint = ("taint", "clusters", "member2")
    assert fleet.said(*taint, "dedicated=a:NoSchedule") == "cluster/member2 tainted\n"
    assert "--overwrite" in refused(fleet, *taint, "dedicated=b:NoSchedule")
    assert fleet.said(*taint, "dedicated=b:NoSchedule", "--overwrite") == "cluster/member2 modified\n"
    found = (fleet.kubectl().get("cluster", "member2") or {})["spec"]["taints"]
    assert [one for one in found if one["key"] == "dedicated"] == [
        {"key": "dedicated", "value": "b", "effect": "NoSchedule"}
    ]
    assert fleet.said(*taint, "dedicated:NoSchedule-") == "cluster/member2 untainted\n"
    assert "not found" in refused(fleet, *taint, "dedicated-")
    assert "moon" in refused(fleet, "taint", "clusters", "moon", "a:NoSchedule")
