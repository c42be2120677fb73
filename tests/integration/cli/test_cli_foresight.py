"""plan, guard, undo and atomic apply on a running installation."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.reading import reader_of
from tests.integration.cli.conftest import Commands, eventually
from tests.support.commands import run_command

SPACE = "foresight"


def kubectl(commands: Commands, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run kubectl in the namespace of these tests."""
    return subprocess.run(
        ["kubectl", f"--kubeconfig={commands.kubeconfig}", "-n", SPACE, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def deployment(name: str, image: str = "nginx:1") -> dict[str, Any]:
    labels = {"app": name}
    containers = [{"name": "web", "image": image}]
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    metadata = {"name": name, "namespace": SPACE}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def policy(name: str, *clusters: str, selects: str = "", **annotations: str) -> dict[str, Any]:
    selector = {"apiVersion": "apps/v1", "kind": "Deployment", "name": selects or name}
    metadata: dict[str, Any] = {"name": name, "namespace": SPACE}
    if annotations:
        metadata["annotations"] = {f"policy.fleetlog.io/{each.replace('_', '-')}": v for each, v in annotations.items()}
    return {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": metadata,
        "spec": {"resourceSelectors": [selector], "placement": {"clusterAffinity": {"clusterNames": list(clusters)}}},
    }


@pytest.fixture
def space(commands: Commands) -> Iterator[None]:
    """A namespace with one Deployment that one policy sends to member1."""
    kubectl(commands, "create", "namespace", SPACE)
    for item in (deployment("web"), policy("web", "member1", max_radius="0")):
        done = kubectl(commands, "apply", "-f", "-", stdin=json.dumps(item))
        assert done.returncode == 0, done.stderr
    eventually(lambda: copies(commands, "web") == {"member1"})
    yield
    for item in json.loads(kubectl(commands, "get", "propagationpolicies", "-o", "json").stdout)["items"]:
        name = item["metadata"]["name"]
        kubectl(commands, "annotate", "--overwrite", "pp", name, "policy.fleetlog.io/confirm-radius=any")
    kubectl(commands, "delete", "propagationpolicies,deployments", "--all", "--wait=true")


def copies(commands: Commands, name: str) -> set[str]:
    """The clusters that hold a Deployment."""
    found = reader_of(commands.kubeconfig).get("resourcebindings", f"{name}-deployment", SPACE) or {}
    return {item["name"] for item in (found.get("spec") or {}).get("clusters") or ()}


def written(directory: Path, *items: dict[str, Any]) -> str:
    path = directory / "set.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return str(path)


@pytest.mark.usefixtures("space")
def test_edit_is_planned_guarded_confirmed_and_undone(commands: Commands, tmp_path: Path) -> None:
    same = written(tmp_path, policy("web", "member1", max_radius="0"))
    done = commands.fleetlog("plan", "-f", same)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "Nothing would change."), done.stderr
    edit = written(tmp_path, policy("web", "member2", max_radius="0"))
    done = commands.fleetlog("plan", "-f", edit, "-o", "json")
    assert done.returncode == 2, done.stderr
    plan = json.loads(done.stdout)
    assert plan["placements"][0]["after"] == {"member2": 2}
    assert (plan["radius"]["moved"], plan["radius"]["disturbed"]) == (2, 1)
    assert "confirm-radius" in plan["objects"][0]["guard"]
    assert copies(commands, "web") == {"member1"}, "a plan changes nothing"
    refused = kubectl(commands, "apply", "-f", edit)
    assert "would move, change or end 1 workload" in refused.stderr
    confirmed = written(tmp_path, policy("web", "member2", max_radius="0", confirm_radius="1"))
    assert kubectl(commands, "apply", "-f", confirmed).returncode == 0
    eventually(lambda: copies(commands, "web") == {"member2"})
    done = commands.fleetlog("undo", "pp/web", "-n", SPACE)
    assert (done.returncode, "no terminal to ask at" in done.stderr) == (1, True)
    assert "member2=2" in done.stdout, "the plan is shown first"
    done = commands.fleetlog("undo", "pp/web", "-n", SPACE, "--yes")
    assert "would move, change or end 1 workload" in done.stderr
    done = commands.fleetlog("undo", "pp/web", "-n", SPACE, "--yes", "--confirm-radius", "1")
    assert done.returncode == 0, done.stderr
    eventually(lambda: copies(commands, "web") == {"member1"})


@pytest.mark.usefixtures("space")
def test_deleted_policy_and_template_are_brought_back(commands: Commands) -> None:
    kubectl(commands, "annotate", "pp", "web", "policy.fleetlog.io/confirm-radius=any")
    assert kubectl(commands, "delete", "pp", "web").returncode == 0
    done = commands.fleetlog("undo", "propagationpolicy/web", "-n", SPACE, "--yes")
    assert done.returncode == 0, done.stderr
    assert kubectl(commands, "get", "pp", "web").returncode == 0
    claim, reader = "propagationpolicy.karmada.io/name", reader_of(commands.kubeconfig)
    eventually(lambda: claim in str(reader.get("deployments", "web", SPACE)))
    kubectl(commands, "set", "image", "deployment/web", "web=nginx:2")
    looks = lambda: commands.fleetlog("undo", "deploy/web", "-n", SPACE, "--list").stdout.count("written")  # noqa: E731
    eventually(lambda: looks() >= 2)
    done = commands.fleetlog("undo", "deploy/web", "-n", SPACE, "--yes")
    assert done.returncode == 0, done.stderr
    assert "nginx:1" in kubectl(commands, "get", "deployment", "web", "-o", "json").stdout


@pytest.mark.usefixtures("space")
def test_set_is_applied_whole_or_not_at_all(commands: Commands, tmp_path: Path) -> None:
    bad = policy("bad", "member1")
    bad["spec"]["resourceSelectors"] = []
    done = commands.fleetlog("apply", "--atomic", "-f", written(tmp_path, deployment("app0"), bad))
    assert done.returncode == 1
    assert "items[1] (PropagationPolicy bad)" in done.stderr
    assert kubectl(commands, "get", "deployment", "app0").returncode == 1
    override = {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "OverridePolicy",
        "metadata": {"name": "mirror", "namespace": SPACE},
        "spec": {
            "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}],
            "overrideRules": [
                {"overriders": {"imageOverrider": [{"component": "Tag", "operator": "replace", "value": "9"}]}}
            ],
        },
    }
    names = [f"app{number}" for number in range(25)]
    members = [override, *map(deployment, names), *(policy(name, "member1", "member2") for name in names)]
    done = commands.fleetlog("apply", "--atomic", "-f", written(tmp_path, *members), "-o", "json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert (answer["atomicInStore"], len(answer["objects"])) == (True, 51)
    eventually(lambda: all(copies(commands, name) for name in names))
    facts = commands.fleetlog("events", "--tail", "0", "-o", "json").stdout.splitlines()
    seen = [json.loads(line) for line in facts]
    places = sorted(
        item["position"]
        for item in seen
        if item["subject"].startswith(("template.", "binding.", "policy."))
        and any(f".{name}" in f"{item['subject']}." for name in (*(f"{each}." for each in names), "mirror."))
    )
    first = places[: 1 + 3 * len(names)]
    assert first == list(range(first[0], first[0] + len(first))), "every fact of the set stands beside the others"
    again = commands.fleetlog("apply", "--atomic", "-f", written(tmp_path, *members))
    assert (again.returncode, again.stdout.count(" unchanged")) == (0, 51)
    assert run_command("fleetlog", "apply", "-f", "x", FLEETLOG_DIR=str(commands.directory)).returncode == 1


def started(commands: Commands, *arguments: str) -> subprocess.Popen[bytes]:
    """A command in a process that may be killed."""
    program = [sys.executable, "-c", "from services.cli.fleetlog import main; main()", *arguments]
    environment = {**os.environ, "FLEETLOG_DIR": str(commands.directory)}
    return subprocess.Popen(program, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.mark.long
@pytest.mark.usefixtures("space")
def test_killed_command_leaves_all_or_nothing(commands: Commands, tmp_path: Path) -> None:
    count = 40

    def given(turn: int) -> str:
        labels = {"turn": str(turn)}
        maps = [{"name": f"m{turn}-{number}", "namespace": SPACE, "labels": labels} for number in range(count)]
        data = {"filler": "x" * 20_000}
        return written(
            tmp_path, *({"apiVersion": "v1", "kind": "ConfigMap", "metadata": each, "data": data} for each in maps)
        )

    def held(turn: int) -> int:
        return len(reader_of(commands.kubeconfig).items("configmaps", SPACE, f"turn={turn}"))

    began = time.monotonic()
    assert started(commands, "apply", "--atomic", "-f", given(0)).wait(60) == 0
    lasts = time.monotonic() - began
    assert held(0) == count
    codes = []
    # Later and later; the last one is left alone.
    for turn in range(1, 9):
        process = started(commands, "apply", "--atomic", "-f", given(turn))
        try:
            process.wait(lasts * turn / 8 if turn < 8 else 120.0)
        except subprocess.TimeoutExpired:
            process.kill()
        codes.append(process.wait(60))
        assert held(turn) in (0, count), f"killed in turn {turn}"
    assert set(codes) == {-9, 0}
    assert codes[-1] == 0
    eventually(lambda: all(held(turn) in (0, count) for turn in range(len(codes))))
    kubectl(commands, "delete", "configmaps", "-l", "turn")
