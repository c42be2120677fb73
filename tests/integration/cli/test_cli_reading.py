"""What `karmadactl get`, `fleetlog events` and `fleetlog history` show of a running installation."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import Any

import pytest
import yaml

from tests.integration.cli.conftest import Commands


def test_clusters_are_listed_with_their_columns(commands: Commands) -> None:
    rows = commands.rows("get", "clusters", "member1", "member2")
    assert rows[0] == ["NAME", "CLUSTER", "VERSION", "MODE", "READY", "AGE", "ADOPTION"]
    assert [[row[0], row[3], row[4], row[6]] for row in rows[1:]] == [
        ["member1", "Push", "True", "-"],
        ["member2", "Push", "True", "-"],
    ]


def test_pods_are_shown_where_they_run(commands: Commands) -> None:
    rows = commands.rows("get", "pods", "-l", "app=nginx")
    assert rows[0] == ["NAME", "CLUSTER", "READY", "STATUS", "RESTARTS", "AGE"]
    assert [row[1:4] for row in rows[1:]] == [["member1", "1/1", "Running"], ["member2", "1/1", "Running"]]
    wide = commands.rows("get", "pods", "-l", "app=nginx", "-o", "wide")
    assert wide[0][-1] == "ADOPTION"
    assert all(row[-1] == "N" for row in wide[1:])


def test_a_template_and_its_copies_side_by_side(commands: Commands) -> None:
    rows = commands.rows("get", "deploy/nginx", "-s", "all", "-C", "member1,member2")
    assert [[row[0], row[1], row[2], row[-1]] for row in rows] == [
        ["NAME", "CLUSTER", "READY", "ADOPTION"],
        ["nginx", "Karmada", "2/2", "-"],
        ["nginx", "member1", "1/1", "Y"],
        ["nginx", "member2", "1/1", "Y"],
    ]


def test_namespace_column_comes_first_and_kinds_are_separate(commands: Commands) -> None:
    shown = commands.karmadactl("get", "deploy,pods", "-A", "-s", "members", "-C", "member1")
    first, second = shown.stdout.split("\n\n")
    assert first.splitlines()[0].split()[:3] == ["NAMESPACE", "NAME", "CLUSTER"]
    assert first.splitlines()[1].split()[:3] == ["default", "deployment.apps/nginx", "member1"]
    assert second.splitlines()[1].split()[1].startswith("pod/nginx-")


def test_documents_are_one_per_cluster(commands: Commands) -> None:
    shown = commands.karmadactl("get", "deploy", "nginx", "-s", "members", "-C", "member1,member2", "-o", "yaml")
    documents: list[dict[str, Any]] = list(yaml.safe_load_all(shown.stdout))
    assert [(item["kind"], item["spec"]["replicas"]) for item in documents] == [("Deployment", 1), ("Deployment", 1)]
    listed = json.loads(commands.karmadactl("get", "deploy", "-o", "json").stdout)
    assert listed["kind"] == "List"
    assert [(item["apiVersion"], item["kind"]) for item in listed["items"]] == [("apps/v1", "Deployment")]
    assert "managedFields" not in listed["items"][0]["metadata"]
    assert commands.karmadactl("get", "deploy", "-o", "name").stdout == "deployment.apps/nginx\n"


def test_missing_object_is_an_error_of_its_cluster(commands: Commands) -> None:
    asked = ("get", "deploy", "nginx", "-s", "members", "-C", "member1,member3")
    shown = commands.karmadactl(*asked)
    assert shown.returncode == 1
    assert [line.split()[1] for line in shown.stdout.splitlines()] == ["CLUSTER", "member1"]
    assert shown.stderr.startswith("Error from server (NotFound): cluster(member3): ")
    assert commands.karmadactl(*asked, "--ignore-not-found").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("get", "services", "-n", "kube-public"), 0, "No resources found in kube-public namespace."),
        (("get", "services", "-A", "-l", "a=b"), 0, "No resources found\n"),
        (("get", "nopes"), 1, "resource type 'nopes'"),
        (("get", "pods", "-C", "moon,member1,mars"), 1, "moon,mars"),
        (("get", "pods", "-s", "moon"), 1, "moon"),
    ],
)
def test_output_that_cannot_be_shown_is_reported(
    commands: Commands, arguments: tuple[str, ...], code: int, words: str
) -> None:
    shown = commands.karmadactl(*arguments)
    assert (shown.returncode, shown.stdout) == (code, "")
    assert words in shown.stderr


def test_a_cluster_that_is_no_control_plane_is_named(commands: Commands) -> None:
    member = str(commands.directory / "member1.kubeconfig")
    shown = commands.karmadactl("get", "pods", "--kubeconfig", member)
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


def test_object_without_history_is_reported(commands: Commands) -> None:
    shown = commands.fleetlog("history", "deploy", "nope")
    assert shown.returncode == 1
    assert "deployments.apps/default/nope" in shown.stderr


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
        assert commands.karmadactl("taint", "clusters", "member1", "followed:PreferNoSchedule").returncode == 0
        after = json.loads(following.stdout.readline())
        assert after["position"] > before["position"]
        assert "followed" in json.dumps(after["data"])
        following.send_signal(signal.SIGINT)
        assert following.wait(60) in (0, 130)
    assert commands.karmadactl("taint", "clusters", "member1", "followed-").returncode == 0
