"""What `karmadactl get`, `fleetlog events` and `fleetlog history` show of a running installation."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from tests.integration.cli.conftest import Commands

pytestmark = pytest.mark.xdist_group("commands")


def test_a_cluster_that_is_no_control_plane_is_named(commands: Commands) -> None:
    member = str(commands.directory / "member1.kubeconfig")
    shown = commands.karmadactl("get", "pods", "-s", "members", "--kubeconfig", member)
    assert shown.returncode == 1
    assert "no control plane" in shown.stderr


def test_history_shows_the_chain_of_causes(commands: Commands) -> None:
    shown = commands.fleetlog("history", "deploy", "nginx", "-o", "json")
    assert shown.returncode == 0, shown.stderr
    entries = json.loads(shown.stdout)["entries"]
    named = {entry["event"] for entry in entries}
    assert {"TemplateChanged", "BindingRequested", "PlacementDecided", "WorkRendered", "StatusRolledUp"} <= named
    placement = next(entry for entry in entries if entry["event"] == "PlacementDecided")
    assert [cause["event"] for cause in placement["causes"]] == ["BindingRequested"]
    work = next(entry for entry in entries if entry["event"] == "WorkRendered")
    assert placement["position"] in [cause["position"] for cause in work["causes"]]
    assert [entry["time"] for entry in entries] == sorted(entry["time"] for entry in entries)
    lines = commands.fleetlog("history", "Deployment/nginx").stdout.splitlines()
    assert len(lines) >= len(entries)
    assert any(f"#{placement['position']} " in line and "because #" in line for line in lines)


def test_events_can_be_chosen_by_subject_position_and_number(commands: Commands) -> None:
    placements = [
        json.loads(line)
        for line in commands.fleetlog("events", "--subject", "placement.>", "-o", "json").stdout.splitlines()
    ]
    assert placements
    assert all(item["subject"].startswith("placement.") for item in placements)
    first = placements[0]
    again = commands.fleetlog("events", "--since", str(first["position"]), "-o", "json").stdout.splitlines()
    assert json.loads(again[0])["position"] == first["position"]
    assert json.loads(again[0])["data"]["type"].startswith("Placement")
    assert len(commands.fleetlog("events", "--tail", "3").stdout.splitlines()) == 3
    observed = commands.fleetlog("events", "--stream", "observed", "--tail", "0").stdout
    assert "WorkObserved" in observed


def test_following_shows_events_until_interrupted(commands: Commands) -> None:
    program = "from services.cli.fleetlog import main; main()"
    arguments = ["events", "--follow", "--tail", "1", "--subject", "cluster.member1", "-o", "json"]
    with subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "FLEETLOG_DIR": str(commands.directory)},
    ) as following:
        assert following.stdout is not None
        before = json.loads(following.stdout.readline())
        assert commands.karmadactl("taint", "clusters", "member1", "followed:NoSchedule").returncode == 0
        after = json.loads(following.stdout.readline())
        assert after["position"] > before["position"]
        assert "followed" in json.dumps(after["data"])
        following.send_signal(signal.SIGINT)
        assert following.wait(60) in (0, 130)
    assert commands.karmadactl("taint", "clusters", "member1", "followed-").returncode == 0


def test_history_says_why_nothing_happens_to_an_object(commands: Commands) -> None:
    policy = {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"name": "waiting"},
        "spec": {
            "resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "waiting"}],
            "dependentOverrides": ["nope"],
            "placement": {"clusterAffinity": {"clusterNames": ["member1"]}},
        },
    }
    commands.kubectl("create", "configmap", "waiting").check_returncode()
    commands.kubectl("apply", "-f", "-", stdin=json.dumps(policy)).check_returncode()
    for command in ("history", "explain"):
        said = commands.fleetlog(command, "configmap/waiting")
        assert said.returncode == 1
        assert "OverridePolicy nope does not exist" in said.stderr
        said = commands.fleetlog(command, "configmap/absent")
        assert "it does not exist in the control plane either" in said.stderr
