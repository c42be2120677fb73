"""plan, guard, undo and atomic apply on a running installation."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.reading import reader_of
from tests.integration.cli.conftest import Commands, eventually
from tests.support.commands import run_command

pytestmark = pytest.mark.xdist_group("commands")

SPACE = "foresight"


def kubectl(commands: Commands, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run kubectl in the namespace of these tests."""
    return commands.kubectl("-n", SPACE, *arguments, stdin=stdin)


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
