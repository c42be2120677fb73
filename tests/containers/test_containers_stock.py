"""`compose.ha.yaml` with a stock kube-apiserver, by the commands of docs/deploy.md: a push and a pull member."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
import yaml

from k8s.images import ETCD_IMAGE, KUBE_APISERVER_IMAGE
from k8s.shapes import HIGHLY_AVAILABLE
from k8s.shared import ROOT
from services._rules import constants as const
from services._rules.kubernetes.rbac.service_roles import RULES, user_of
from services.cli.registration.confined_pods import USER
from tests.containers import engine, shell
from tests.containers.composition import Composition
from tests.containers.documented import commands
from tests.e2e.fleet import EXAMPLES, Failed, Kubectl, until, until_equal

pytestmark = [pytest.mark.containers, pytest.mark.long, pytest.mark.timeout(900)]
SECONDS: Final = 420.0
"""How long something may take while two dozen containers start on two cores."""
PUSH, PULL = "member1", "member3"
AUDIT: Final = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}
OWNED: Final = f"""
docker() {{
  [ "$(id -u)" != 0 ] || chown -R {USER}:{USER} deploy
  command docker "$@"
}}
"""
"""Whoever runs the tests as root: containers do not, and the files that commands made are theirs."""


class Stock:
    """The installation, as its administrator sees it."""

    def __init__(self, made: Composition, user: str) -> None:
        self.made = made
        self.place = made.place
        self.kubectl = Kubectl(made.place / "deploy/control.kubeconfig", cache=made.place / "kubectl-cache")
        variables = {
            "FLEETLOG_USER": user,
            "COMPOSE_PROJECT_NAME": made.project,
            **{f"FLEETLOG_{name}_PORT": str(port) for name, port in made.ports.items()},
        }
        self._told = shell.environment(self.kubectl.kubeconfig, variables)

    def shell(self, script: str) -> str:
        """Run commands as a user would, in the directory of the installation; raises Failed."""
        return shell.run(OWNED + script, self.place, self._told, SECONDS)

    def audited(self) -> list[dict[str, Any]]:
        """What our services asked of kube-apiserver so far, in the order of its answers."""
        lines = (self.place / "deploy/audit/log").read_bytes().split(b"\n")[:-1]
        events = map(msgspec.json.decode, lines)
        return [event for event in events if event["user"].get("username", "").startswith("fleetlog:")]


def asked(event: dict[str, Any]) -> str:
    """Who asked for what, without the names of objects."""
    place = event.get("objectRef") or {}
    kind = "/".join(filter(None, (place.get("apiGroup"), place.get("resource"), place.get("subresource"))))
    return f"{event['user']['username']} {event['verb']} {kind or event['requestURI'].partition('?')[0]}"


def forbidden(event: dict[str, Any]) -> bool:
    return bool((event.get("annotations") or {}).get("authorization.k8s.io/decision") == "forbid")


def composition(place: Path) -> None:
    """Write the shipped file with one instance of each service, and with an audit log."""
    content = yaml.safe_load((ROOT / "compose.ha.yaml").read_text())
    for service in content["services"].values():
        service.pop("scale", None)
    server = content["services"]["kube-apiserver"]
    server["command"] += ["--audit-policy-file=/audit/policy.yaml", "--audit-log-path=/audit/log"]
    server["volumes"].append("./deploy/audit:/audit")
    (place / "compose.ha.yaml").write_text(yaml.safe_dump(content))


@pytest.fixture(scope="module")
def stock(image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stock]:
    """The installation, with a push member; started as docs/deploy.md says."""
    for name in (ETCD_IMAGE, KUBE_APISERVER_IMAGE):
        if not engine.has_image(name):
            pytest.skip(f"the engine has no image {name}; pull it, or `python -m tests.containers.prepare --stock`")
    place = tmp_path_factory.mktemp("stock")
    composition(place)
    shutil.copytree(ROOT / "k8s", place / "k8s")
    for name in (*(f"data/{one}" for one in (*HIGHLY_AVAILABLE.nats, "etcd", PUSH, PULL)), "audit"):
        (place / "deploy" / name).mkdir(parents=True)
    (place / "deploy/audit/policy.yaml").write_text(yaml.safe_dump(AUDIT))
    user = f"{os.getuid()}:{os.getgid()}" if os.getuid() else f"{USER}:{USER}"
    made = Composition(
        ["compose.ha.yaml"],
        place,
        place,
        project="fleetlog-test-stock",
        profiles=["stock", "pull"],
        variables={"FLEETLOG_USER": user, "FLEETLOG_AGENT": PULL},
    )
    given = Stock(made, user)
    try:
        given.shell(
            f"docker run --rm --user {user} --volume $PWD/deploy:/deploy --entrypoint fleetlog {image} "
            f"containers prepare --dir /deploy --port {made.ports['CONTROL']}"
        )
        began = time.monotonic()
        given.shell(commands("With a stock control plane instead"))
        print(f"commands: {time.monotonic() - began:.1f} s")
        made.until_healthy(*made.containers())
        print(f"start of {len(made.containers())} containers to ready: {time.monotonic() - began:.1f} s")
        yield given
    except BaseException:
        print(made.run("ps", "--all", check=False))
        raise
    finally:
        made.close()
        # They belong to the user of the containers.
        shutil.rmtree(place, ignore_errors=True)


@pytest.fixture(scope="module")
def members(stock: Stock) -> list[str]:
    """A push member, joined by command, and a pull member, as docs/deploy.md says; both simulated."""
    stock.shell(f"docker compose -f compose.ha.yaml up -d {PUSH} {PULL}")
    held = {name: stock.place / f"deploy/members/{name}.kubeconfig" for name in (PUSH, PULL)}
    stock.made.until_healthy(*(stock.made.container(name) for name in held))
    until("members wrote their kubeconfigs", lambda: all(path.exists() for path in held.values()), SECONDS)
    stock.shell(
        "docker compose -f compose.ha.yaml run --rm -T --entrypoint karmadactl "
        "--volume $PWD/deploy/members:/members:ro "
        f"fleetlog join {PUSH} --cluster-kubeconfig /members/{PUSH}.kubeconfig"
    )
    shutil.copy(held[PULL], stock.place / f"{PULL}.kubeconfig")
    stock.shell(commands("### A pull member"))
    for name in held:
        stock.kubectl.run("wait", "--for=condition=Ready", f"cluster/{name}", "--timeout=80s")
    return list(held)


def policy(name: str, **spec: object) -> dict[str, Any]:
    selectors = [{"apiVersion": "v1", "kind": "ConfigMap", "name": name}]
    return {
        "apiVersion": const.POLICY_API,
        "kind": "PropagationPolicy",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"resourceSelectors": selectors, "placement": {"spreadConstraints": [{"maxGroups": 2}]}, **spec},
    }


def test_nginx_runs_in_both_members(stock: Stock, members: list[str]) -> None:
    wanted = yaml.safe_load((EXAMPLES / "nginx-propagation.yaml").read_text())
    placement = wanted["spec"]["placement"]
    placement["clusterAffinity"]["clusterNames"] = members
    weights = [{"targetCluster": {"clusterNames": [name]}, "weight": 1} for name in members]
    placement["replicaScheduling"]["weightPreference"]["staticWeightList"] = weights
    stock.kubectl.apply(EXAMPLES / "nginx-demo.yaml")
    stock.kubectl.apply(wanted)

    def ready() -> int:
        return int(((stock.kubectl.get("deployment", "nginx") or {}).get("status") or {}).get("readyReplicas", 0))

    until_equal("summed status", ready, 2)
    # Bindings and works are asked of kube-apiserver, which asks the gateway.
    binding = msgspec.json.decode(stock.kubectl.run("get", "rb", "nginx-deployment", "-o", "json"))
    assert {item["clusterName"]: item["applied"] for item in binding["status"]["aggregatedStatus"]} == dict.fromkeys(
        members, True
    )
    works = stock.kubectl.run("get", "works", "-A", "-o", "name")
    assert "nginx" in works
    placed = stock.kubectl.run("get", "works", "-A", "-o", "jsonpath={.items[*].metadata.namespace}")
    assert {f"karmada-es-{name}" for name in members} <= set(placed.split())


def test_policies_pass_the_webhook(stock: Stock) -> None:
    stock.kubectl.apply(policy("admitted"))
    made = stock.kubectl.get("propagationpolicy", "admitted", "default")
    assert made is not None
    assert made["metadata"]["labels"][const.PROPAGATION_POLICY_ID_LABEL]
    assert made["metadata"]["finalizers"] == [const.PROPAGATION_POLICY_FINALIZER]
    assert made["spec"]["resourceSelectors"][0]["namespace"] == "default"
    wrong = policy("refused", resourceSelectors=[{"apiVersion": "v1", "kind": "ConfigMap"}], preemption="Always")
    with pytest.raises(Failed, match=r'webhook "propagationpolicy\.karmada\.io" denied the request'):
        stock.kubectl.apply(wrong)
    # The detector releases it.
    stock.kubectl.delete("propagationpolicy", "admitted", "default")


def test_what_policies_are_compared_with_is_read_by_the_webhook(stock: Stock) -> None:
    stock.kubectl.apply(customization("first"))
    with pytest.raises(Failed, match='webhook "resourceinterpretercustomization'):
        stock.kubectl.apply(customization("second"))


def customization(name: str) -> dict[str, Any]:
    script = "function GetReplicas(obj) return obj.spec.size, nil end"
    return {
        "apiVersion": "config.karmada.io/v1alpha1",
        "kind": "ResourceInterpreterCustomization",
        "metadata": {"name": name},
        "spec": {
            "target": {"apiVersion": "example.io/v1", "kind": "Thing"},
            "customizations": {"replicaResource": {"luaScript": script}},
        },
    }


def test_no_service_lacks_a_right(stock: Stock, members: list[str]) -> None:
    allowed: set[str] = set()
    lacking: set[str] = set()
    # Everything was refused before the roles were there; what was asked again later is no lack.
    for event in reversed(stock.audited()):
        if not forbidden(event):
            allowed.add(asked(event))
        elif asked(event) not in allowed:
            lacking.add(asked(event))
    assert lacking == set()
    # Each asked for something; the estimator and the executor only for credentials of members.
    assert {line.partition(" ")[0] for line in allowed} == {user_of(service) for service in RULES}
    assert f"{user_of('webhook')} list config.karmada.io/resourceinterpretercustomizations" in allowed
