"""karmadactl in the control plane, in members and in both: rows, columns, errors, discovery (journeys 12, 16, 18)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import yaml

from schemas.manifest import Manifest
from tests.e2e.fleet import Failed, Fleet, Kubectl, until_equal
from tests.e2e.installations import namespace
from tests.e2e.space import EVERYWHERE, Space, weighed

pytestmark = pytest.mark.xdist_group("policies")

WORKLOAD = ["NAME", "CLUSTER", "READY", "UP-TO-DATE", "AVAILABLE", "AGE", "ADOPTION"]
PODS = ["NAME", "CLUSTER", "READY", "STATUS", "RESTARTS", "AGE"]
SHORT_NAMES = {
    "propagationpolicies": "pp",
    "clusterpropagationpolicies": "cpp",
    "overridepolicies": "op",
    "clusteroverridepolicies": "cop",
    "resourcebindings": "rb",
    "clusterresourcebindings": "crb",
    "works": "wk",
    "federatedhpas": "fhpa",
    "cronfederatedhpas": "cronfhpa",
    "multiclusterservices": "mcs",
    "multiclusteringresses": "mci",
    "resourceinterpretercustomizations": "ric",
}


@pytest.fixture(scope="module")
def place(fleet: Fleet) -> Iterator[Space]:
    """A namespace with a Deployment that has one replica in each member."""
    with namespace(fleet, "scopes") as made:
        web = made.load("web.yaml")
        web["spec"]["replicas"] = 3
        made.apply(web)
        made.policy(web, weighed(**dict.fromkeys(EVERYWHERE, 1)))
        until_equal("the sum", lambda: _ready(made), 3)
        yield made


def _ready(space: Space) -> object:
    return ((space.control.get("deployment", "web", space.name) or {}).get("status") or {}).get("readyReplicas")


def _copy(name: str) -> list[str]:
    return ["web", name, "1/1", "1", "1", "Y"]


def _shown(rows: list[list[str]]) -> list[list[str]]:
    """The rows below the header, without the age."""
    assert rows[0] == WORKLOAD
    assert all(re.fullmatch(r"(\d+[dhms]){1,2}", row[5]) for row in rows[1:]), rows
    return [[*row[:5], *row[6:]] for row in rows[1:]]


TEMPLATE = ["web", "Karmada", "3/3", "3", "3", "-"]


@pytest.mark.main_path
def test_one_object_in_every_scope(fleet: Fleet, place: Space) -> None:
    asked = ("get", "deploy", "web", "-n", place.name)
    for words, wanted in (
        ((), [TEMPLATE]),
        (("-s", "karmada"), [TEMPLATE]),
        (("-s", "members"), [_copy(name) for name in EVERYWHERE]),
        (("--operation-scope=all",), [TEMPLATE, *(_copy(name) for name in EVERYWHERE)]),
        (("-s", "all", "-C", "member1,member3"), [TEMPLATE, _copy("member1"), _copy("member3")]),
        (("-s", "members", "--clusters", "member2"), [_copy("member2")]),
    ):
        assert _shown(fleet.table(*asked, *words)) == wanted, words


def test_pods_of_members_and_their_wide_columns(fleet: Fleet, place: Space) -> None:
    asked = ("get", "pods", "-n", place.name, "-l", "app=web", "-s", "members")
    rows = fleet.table(*asked)
    assert rows[0] == PODS
    assert [row[1:5] for row in rows[1:]] == [[name, "1/1", "Running", "0"] for name in EVERYWHERE]
    wide = fleet.table(*asked, "-C", "member1,member3", "-o", "wide")
    assert wide[0] == [*PODS, "IP", "NODE", "NOMINATED", "NODE", "READINESS", "GATES", "ADOPTION"]
    assert [(row[1], row[-1]) for row in wide[1:]] == [("member1", "N"), ("member3", "N")]
    # A template makes no pods in the control plane.
    none = fleet.karmadactl("get", "pods", "-n", place.name)
    assert (none.returncode, none.stdout) == (0, "")
    assert none.stderr == f"No resources found in {place.name} namespace.\n"


def test_kinds_are_apart_and_namespaces_come_first(fleet: Fleet, place: Space) -> None:
    shown = fleet.said("get", "deploy,pods", "-A", "-s", "members", "-C", "member3")
    pods, deployments = ([line.split() for line in part.splitlines()] for part in shown.split("\n\n"))
    assert (pods[0][:3], deployments[0][:3]) == (["NAMESPACE", "NAME", "CLUSTER"],) * 2
    own = [row[1:3] for row in deployments if row[0] == place.name]
    assert own == [["deployment.apps/web", "member3"]]
    (pod,) = [row[1:3] for row in pods if row[0] == place.name]
    assert (pod[0].startswith("pod/web-"), pod[1]) == (True, "member3")
    category = [row[:2] for row in fleet.table("get", "all", "-n", place.name, "-s", "all", "-C", "member3")]
    kinds = ["pod", "deployment.apps", "replicaset.apps"]
    found = [(row[0].partition("/")[0], row[1]) for row in category if row[0] != "NAME"]
    assert found == [
        *((kind, "member3") for kind in kinds[:1]),
        (kinds[1], "Karmada"),
        *((k, "member3") for k in kinds[1:]),
    ]


def test_objects_of_files_are_found(fleet: Fleet, place: Space, tmp_path: Path) -> None:
    web = place.load("web.yaml")
    policy: Manifest = {"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy"}
    policy["metadata"] = web["metadata"] | {"labels": {}, "annotations": {}}
    (tmp_path / "web.yaml").write_text(yaml.safe_dump(web))
    everywhere = fleet.table("get", "-f", str(tmp_path / "web.yaml"), "-s", "all", "-C", "member3")
    assert _shown(everywhere) == [TEMPLATE, _copy("member3")]
    (tmp_path / "policy.yaml").write_text(yaml.safe_dump(policy))
    names = [row[:2] for row in fleet.table("get", "-f", str(tmp_path)) if row[0] != "NAME"]
    assert names == [["deployment.apps/web", "Karmada"], ["propagationpolicy.policy.karmada.io/web", "Karmada"]]
    for words in (
        ("-f", str(tmp_path), "deploy"),
        ("-f", str(tmp_path / "none")),
        ("-f", str(tmp_path), "-n", "other"),
    ):
        done = fleet.karmadactl("get", *words)
        assert (done.returncode, done.stdout) == (1, ""), words


def test_documents_are_one_per_cluster(fleet: Fleet, place: Space) -> None:
    asked = ("get", "deploy", "-n", place.name, "-C", "member1,member3")
    single = list(yaml.safe_load_all(fleet.said(*asked, "web", "-o", "yaml")))
    assert [(item["kind"], item["spec"]["replicas"]) for item in single] == [("Deployment", 1)] * 2
    several = msgspec.json.Decoder(Manifest)
    listed = several.decode(fleet.said("get", "deploy", "-n", place.name, "-o", "json"))
    assert (listed["kind"], listed["metadata"]) == ("List", {"resourceVersion": ""})
    (item,) = listed["items"]
    assert (item["apiVersion"], item["kind"], "managedFields" in item["metadata"]) == ("apps/v1", "Deployment", False)
    assert fleet.said(*asked, "-o", "name") == "deployment.apps/web\n" * 2


def test_what_cannot_be_shown_is_named(fleet: Fleet, place: Space) -> None:
    for words, code, said in (
        (("get", "pods", "-C", "moon,member1,mars"), 1, "clusters don't exist: moon,mars"),
        (("get", "services", "-A", "-l", "a=b"), 0, "No resources found\n"),
        (("get", "nopes"), 1, "resource type 'nopes'"),
        (("get", "deploy", "-w", "pods"), 1, "Error from server (NotFound)"),
        (("exec", "web", "-s", "all", "-n", place.name, "--", "ls"), 1, "'all'"),
    ):
        done = fleet.karmadactl(*words)
        assert (done.returncode, done.stdout) == (code, ""), (words, done.stderr)
        assert said in done.stderr, words


def test_missing_object_is_an_error_of_its_cluster(fleet: Fleet, place: Space) -> None:
    del place
    asked = ("get", "node", "member1-node-1", "-s", "members", "-C", "member1,member3")
    shown = fleet.karmadactl(*asked)
    assert shown.returncode == 1
    assert [line.split()[1] for line in shown.stdout.splitlines()] == ["CLUSTER", "member1"]
    # On a busy machine a line before it says what is waited for.
    missing = 'Error from server (NotFound): cluster(member3): nodes "member1-node-1" not found'
    assert shown.stderr.splitlines()[-1] == missing
    assert fleet.karmadactl(*asked, "--ignore-not-found").returncode == 0


def test_both_programs_say_their_version(fleet: Fleet) -> None:
    asked = re.compile(r'version: version\.Info\{GitVersion:"v[^"]+", PythonVersion:"3[^"]+", Platform:"[^"]+"\}\n')
    assert asked.fullmatch(fleet.said("version").removeprefix("karmadactl "))
    beside = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["kubectl", "karmada", "version"], env=beside, capture_output=True, text=True, timeout=90, check=False
    )
    assert asked.fullmatch(done.stdout.removeprefix("kubectl karmada ")), done.stderr


def test_kinds_are_discovered_in_both_scopes(fleet: Fleet, control: Kubectl, place: Space) -> None:
    rows = fleet.table("api-resources", "--no-headers")
    assert {row[0]: row[1] for row in rows if row[0] in SHORT_NAMES and "karmada.io" in row[2]} == SHORT_NAMES
    typed = control.run("api-resources", "--no-headers")
    assert {line.split()[0] for line in typed.splitlines()} == {row[0] for row in rows}
    assert fleet.table("api-resources", "--api-group=apps")[0] == [
        "NAME",
        "SHORTNAMES",
        "APIVERSION",
        "NAMESPACED",
        "KIND",
    ]
    versions = fleet.said("api-versions").split()
    assert versions == sorted(versions)
    assert {"policy.karmada.io/v1alpha1", "work.karmada.io/v1alpha2", "cluster.karmada.io/v1alpha1"} <= set(versions)
    for member in ("member1", "member3"):
        inside = ("-s", "members", "--cluster", member)
        served = fleet.said("api-versions", *inside).split()
        assert "apps/v1" in served
        assert not any("karmada.io" in version for version in served)
        assert "deployments.apps" in fleet.said("api-resources", "--api-group=apps", "-o", "name", *inside).split()
        assert "FIELD: replicas" in fleet.said("explain", "deploy.spec.replicas", *inside)
    assert "clusterAffinity\t<Object>" in fleet.said("explain", "pp.spec.placement")
    assert "<no description>" not in control.run("explain", "pp.spec.placement")
    with pytest.raises(Failed, match='resource type "pp"'):
        fleet.said("explain", "pp", "-s", "members", "--cluster", "member3")
    described = fleet.said("describe", "deploy", "web", "-n", place.name, "-s", "members", "-C", "member3")
    assert "karmada.io/managed=true" in described


def test_watch_shows_changes_of_template_and_copies(fleet: Fleet, place: Space) -> None:
    program = "from services.cli.karmadactl import main; main()"
    words = ["get", "deploy", "web", "-n", place.name, "-s", "all", "-C", "member3", "-w", "--output-watch-events"]
    environment = {**os.environ, "KUBECONFIG": str(place.control.kubeconfig)}
    with subprocess.Popen(
        [sys.executable, "-c", program, *words], stdout=subprocess.PIPE, text=True, env=environment
    ) as following:
        assert following.stdout is not None
        try:
            assert following.stdout.readline().split() == ["EVENT", *WORKLOAD]
            first = [following.stdout.readline().split() for _ in range(2)]
            assert sorted((row[0], row[2], row[-1]) for row in first) == [
                ("ADDED", "Karmada", "N"),
                ("ADDED", "member3", "Y"),
            ]
            place.control.run("label", "deploy", "web", "seen=yes", namespace=place.name)
            seen: set[tuple[str, str]] = set()
            while not {("MODIFIED", "Karmada"), ("MODIFIED", "member3")} <= seen:
                line = following.stdout.readline().split()
                assert line, "the watch ended"
                seen.add((line[0], line[2]))
        finally:
            following.kill()
