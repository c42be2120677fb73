"""The charts render what kustomize and `karmadactl register` make, and each value changes what it says."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from schemas.topology import SERVICES
from services._rules.kubernetes.rbac.service_roles import dns
from services.cli.registration.agent_manifests import AgentPlan, agent_objects
from services.cli.renewal.secret_renewal import SECRETS
from tests.support import helm
from tests.support.pod_security import violations

ROOT = Path(__file__).parents[3]
Manifest = dict[str, Any]
Objects = dict[tuple[str, str], Manifest]
NAMESPACE = "fleetlog-system"
MEMBER = {"cluster": "m3", "url": "tls://nats:4222", "identity": "SEED"}
DEPLOYED = {dns(service) for service in SERVICES}


def kustomized(directory: str) -> Objects:
    done = subprocess.run(["kubectl", "kustomize", str(ROOT / directory)], capture_output=True, text=True, check=True)
    return helm.by_place([each for each in yaml.load_all(done.stdout, Loader=helm.LOADER) if each])


def rendered(values: Manifest | None = None, namespace: str = NAMESPACE) -> Objects:
    return helm.by_place(helm.template("fleetlog", namespace, values or {}))


@pytest.fixture(scope="module")
def usual() -> Objects:
    """The chart with its default values."""
    return rendered()


def container(objects: Objects, name: str, kind: str = "Deployment") -> Manifest:
    found: Manifest = pod(objects, name, kind)["containers"][0]
    return found


def pod(objects: Objects, name: str, kind: str = "Deployment") -> Manifest:
    found: Manifest = objects[kind, name]["spec"]["template"]["spec"]
    return found


def environment(objects: Objects, name: str) -> dict[str, str]:
    return {each["name"]: each.get("value", "") for each in container(objects, name)["env"]}


def without_checksum(objects: Objects) -> Objects:
    """The objects without what only a chart says: that pods are replaced when a ConfigMap changed."""
    found = deepcopy(objects)
    metadata = found["StatefulSet", "nats"]["spec"]["template"]["metadata"]
    assert set(metadata.pop("annotations")) == {"checksum/config"}
    return found


@pytest.mark.parametrize(("kind", "directory"), [("included", "k8s/overlays/stock"), ("external", "k8s/base")])
def test_a_chart_without_values_renders_what_kustomize_does(kind: str, directory: str) -> None:
    wanted = kustomized(directory)
    del wanted["Namespace", NAMESPACE]
    assert without_checksum(rendered({"controlPlane": {"kind": kind}})) == wanted


@pytest.mark.parametrize(("signed", "ca"), [(True, ""), (False, "AUTHORITY\n")])
def test_the_chart_of_an_agent_renders_what_registration_deploys(signed: bool, ca: str) -> None:
    plan = AgentPlan(
        cluster="m3",
        namespace="fleet",
        url="tls://nats:4222",
        identity="SEED",
        signed=signed,
        authority=ca,
        requests="read",
    )
    values = {**MEMBER, "signed": signed, "ca": ca, "requests": "read"}
    found = helm.by_place(helm.template("fleetlog-agent", "fleet", values))
    wanted = helm.by_place(agent_objects(plan))
    del wanted["Namespace", "fleet"]
    for objects in (found, wanted):
        container(objects, "karmada-agent")["env"].sort(key=lambda each: each["name"])
    assert found == wanted


@pytest.mark.parametrize("chart", ["fleetlog", "fleetlog-agent"])
def test_charts_are_as_helm_wants_them(chart: str) -> None:
    code, said, errors = helm.run("lint", "--strict", str(helm.CHARTS / chart), values=MEMBER if "-" in chart else {})
    assert code == 0, said + errors


@pytest.mark.parametrize(
    ("chart", "values", "told"),
    [
        ("fleetlog", {"workloads": {"schedular": {}}}, "schedular"),
        ("fleetlog", {"workloads": {"nats": {"replicas": 5}}}, "replicas"),
        ("fleetlog", {"image": {"digest": "latest"}}, "digest"),
        ("fleetlog", {"controlPlane": {"kind": "own"}}, "kind"),
        ("fleetlog", {"log": {"from": ["everywhere"]}}, "from"),
        ("fleetlog", {"log": {"url": "log.example"}}, "url"),
        ("fleetlog", {"workloads": {"agent-signer": {"replicas": 2}}}, "replicas"),
        ("fleetlog", {"certificates": {"certManager": {"enabled": True}}}, "issuer"),
        ("fleetlog", {"certificates": {"renewal": {"schedule": "daily"}}}, "schedule"),
        ("fleetlog", {"env": {"FLEETLOG_FEATURE_GATE": "Failover=true"}}, "FLEETLOG_FEATURE_GATE"),
        ("fleetlog", {"workloads": {"scheduler": {"env": {"FLEETLOG_API_PORT": 1}}}}, "FLEETLOG_API_PORT"),
        ("fleetlog-agent", {**MEMBER, "env": {"FLEETLOG_FEATURE_GATES": ""}}, "FLEETLOG_FEATURE_GATES"),
        ("fleetlog-agent", {}, "cluster"),
        ("fleetlog-agent", {**MEMBER, "identity": ""}, "existingSecret"),
        ("fleetlog-agent", {**MEMBER, "cluster": "UPPER"}, "cluster"),
    ],
)
def test_values_that_cannot_be_are_refused(chart: str, values: Manifest, told: str) -> None:
    code, _, errors = helm.run("template", str(helm.CHARTS / chart), values=values)
    assert code != 0
    assert told in errors


SMALL = {"nodeSelector": {"disk": "fast"}, "tolerations": [{"operator": "Exists"}], "priorityClassName": "high"}
EVERYTHING: Manifest = {
    "image": {"repository": "mirror:5000/fleetlog", "tag": "1.10", "pullPolicy": "Always", "pullSecrets": ["login"]},
    "pods": {**SMALL, "annotations": {"note": "x"}, "labels": {"team": "y", "app.kubernetes.io/name": "z"}},
    "logLevel": "debug",
    "env": {"FLEETLOG_TAKEOVER_AFTER": 4},
    "workloads": {
        "scheduler": {
            "replicas": 3,
            "resources": {"limits": {"memory": "4Gi"}},
            "image": {"digest": "sha256:" + "a" * 64},
            "nodeSelector": {"zone": "b"},
            "tolerations": [{"key": "own", "operator": "Exists"}],
            "priorityClassName": "highest",
            "affinity": {"nodeAffinity": {}, "podAffinity": {"x": []}},
            "logLevel": "info",
            "env": {"FLEETLOG_TAKEOVER_AFTER": 6, "FLEETLOG_HTTP_HOST": "::"},
            "podAnnotations": {"note": "own"},
        },
        "descheduler": {"enabled": True},
        "search": {"enabled": False},
        "gateway": {"service": {"type": "LoadBalancer", "annotations": {"lb": "internal"}}},
        "certificate-renewal": {"resources": {"limits": {"memory": "1Gi"}}},
        "nats": {"storage": {"className": "ssd", "size": "100Gi"}, "affinity": {"podAffinity": {"x": []}}},
        "etcd": {"storage": {"size": "20Gi"}, "image": {"repository": "mirror:5000/etcd"}},
        "kube-apiserver": {
            "replicas": 3,
            "extraArgs": ["--event-ttl=2h", "--v=2"],
            "service": {"type": "NodePort", "nodePort": 32443},
            "image": {"tag": "v1.32.0"},
        },
    },
    "log": {
        "maxFileStore": "90GB",
        "from": ["192.0.2.0/24"],
        "url": "tls://log.example:32422",
        "service": {"type": "NodePort", "nodePort": 32422, "annotations": {"lb": "none"}},
    },
    "controlPlane": {"cidrs": ["198.51.100.7/32"], "ports": [7443]},
    "networkPolicies": {
        "members": {"cidrs": ["10.0.0.0/8", "fd00::/8"]},
        "extraEgress": [{"ports": [{"protocol": "TCP", "port": 4318}]}],
    },
    "monitoring": {"podMonitor": True, "rules": True, "dashboards": True, "labels": {"release": "prometheus"}},
    "certificates": {
        "certManager": {"enabled": True, "issuerRef": {"name": "ours"}, "duration": "720h"},
        "renewal": {"schedule": "5 4 * * 1"},
    },
    "rollOnSecrets": True,
}


@pytest.fixture(scope="module")
def changed() -> Objects:
    """The chart with nearly every value."""
    return rendered(EVERYTHING, "elsewhere")


def _egress(objects: Objects, name: str) -> list[Manifest]:
    found: list[Manifest] = objects["NetworkPolicy", name]["spec"]["egress"]
    return found


def _blocks(*cidrs: str) -> list[Manifest]:
    return [{"ipBlock": {"cidr": cidr}} for cidr in cidrs]


def _renewal(objects: Objects) -> Manifest:
    found: Manifest = objects["CronJob", "certificate-renewal"]["spec"]
    return found


def _renewing(objects: Objects) -> Manifest:
    found: Manifest = _renewal(objects)["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]
    return found


def _claim(objects: Objects, name: str) -> Manifest:
    found: Manifest = objects["StatefulSet", name]["spec"]["volumeClaimTemplates"][0]["spec"]
    return found


CONTROL = {"to": _blocks("198.51.100.7/32"), "ports": [{"protocol": "TCP", "port": 7443}]}
MEMBERS = {"to": _blocks("10.0.0.0/8", "fd00::/8")}
EXTRA = {"ports": [{"protocol": "TCP", "port": 4318}]}
RENEWAL_API = {"ports": [{"protocol": "TCP", "port": port} for port in (443, 6443)]}
MANAGED = {"fleetlog-nats-tls", "fleetlog-gateway", "fleetlog-search", "fleetlog-webhook"}
EFFECTS: dict[str, tuple[Callable[[Objects], object], object]] = {
    "image": (lambda o: container(o, "detector")["image"], "mirror:5000/fleetlog:1.10"),
    "digest": (lambda o: container(o, "scheduler")["image"], "mirror:5000/fleetlog@sha256:" + "a" * 64),
    "image of another": (lambda o: container(o, "etcd", "StatefulSet")["image"], "mirror:5000/etcd:v3.5.17"),
    "tag of another": (lambda o: container(o, "kube-apiserver")["image"], "registry.k8s.io/kube-apiserver:v1.32.0"),
    "image that stays": (lambda o: container(o, "nats", "StatefulSet")["image"], "nats:2.15.1-alpine"),
    "pull policy": (lambda o: container(o, "nats", "StatefulSet")["imagePullPolicy"], "Always"),
    "pull secrets": (lambda o: pod(o, "etcd", "StatefulSet")["imagePullSecrets"], [{"name": "login"}]),
    "replicas": (lambda o: o["Deployment", "scheduler"]["spec"]["replicas"], 3),
    "optional": (lambda o: o["Deployment", "descheduler"]["spec"]["replicas"], 2),
    "disabled": (lambda o: [kind for kind, name in o if name == "search"], []),
    "resources": (
        lambda o: container(o, "scheduler")["resources"],
        {"requests": {"cpu": "50m", "memory": "96Mi"}, "limits": {"memory": "4Gi"}},
    ),
    "nodes": (lambda o: pod(o, "scheduler")["nodeSelector"], {"disk": "fast", "zone": "b"}),
    "nodes of all": (lambda o: pod(o, "nats", "StatefulSet")["nodeSelector"], {"disk": "fast"}),
    "tolerations": (
        lambda o: pod(o, "scheduler")["tolerations"],
        [{"operator": "Exists"}, {"key": "own", "operator": "Exists"}],
    ),
    "priority": (lambda o: pod(o, "scheduler")["priorityClassName"], "highest"),
    "priority of all": (lambda o: pod(o, "kube-apiserver")["priorityClassName"], "high"),
    "affinity": (lambda o: set(pod(o, "scheduler")["affinity"]), {"nodeAffinity", "podAffinity"}),
    "affinity that stays": (
        lambda o: set(pod(o, "nats", "StatefulSet")["affinity"]),
        {"podAffinity", "podAntiAffinity"},
    ),
    "level": (lambda o: environment(o, "detector")["FLEETLOG_LOG_LEVEL"], "debug"),
    "own level": (lambda o: environment(o, "scheduler")["FLEETLOG_LOG_LEVEL"], "info"),
    "setting": (lambda o: environment(o, "detector")["FLEETLOG_TAKEOVER_AFTER"], "4"),
    "own setting": (lambda o: environment(o, "scheduler")["FLEETLOG_TAKEOVER_AFTER"], "6"),
    "setting replaced": (
        lambda o: [each["value"] for each in container(o, "scheduler")["env"] if each["name"] == "FLEETLOG_HTTP_HOST"],
        ["::"],
    ),
    "annotation": (
        lambda o: o["Deployment", "scheduler"]["spec"]["template"]["metadata"]["annotations"]["note"],
        "own",
    ),
    "labels": (
        lambda o: o["Deployment", "janitor"]["spec"]["template"]["metadata"]["labels"],
        {"team": "y", "app.kubernetes.io/name": "janitor", "app.kubernetes.io/part-of": "fleetlog"},
    ),
    "service": (
        lambda o: (o["Service", "gateway"]["spec"]["type"], o["Service", "gateway"]["metadata"]["annotations"]),
        ("LoadBalancer", {"lb": "internal"}),
    ),
    "volume": (
        lambda o: (_claim(o, "nats")["storageClassName"], _claim(o, "nats")["resources"]),
        ("ssd", {"requests": {"storage": "100Gi"}}),
    ),
    "volume of etcd": (lambda o: _claim(o, "etcd")["resources"]["requests"], {"storage": "20Gi"}),
    "arguments": (
        lambda o: [flag for flag in container(o, "kube-apiserver")["command"] if flag.startswith(("--event", "--v="))],
        ["--event-ttl=2h", "--v=2"],
    ),
    "image beside the log": (
        lambda o: [pod(o, "nats", "StatefulSet")["containers"][1][field] for field in ("image", "imagePullPolicy")],
        ["mirror:5000/fleetlog:1.10", "Always"],
    ),
    "schedule of the renewal": (lambda o: _renewal(o)["schedule"], "5 4 * * 1"),
    "image of the renewal": (lambda o: _renewing(o)["image"], "mirror:5000/fleetlog:1.10"),
    "memory of the renewal": (lambda o: _renewing(o)["resources"]["limits"], {"memory": "1Gi"}),
    "variables of the renewal, which it stays without": (
        lambda o: [each["name"] for each in _renewing(o)["env"]],
        ["POD_NAMESPACE"],
    ),
    "account of the renewal": (
        lambda o: o["RoleBinding", "certificate-renewal"]["subjects"][0]["namespace"],
        "elsewhere",
    ),
    "what is renewed": (
        lambda o: set(SECRETS) - {name.removeprefix("--secret=") for name in _renewing(o)["args"]},
        MANAGED,
    ),
    "what may be renewed": (
        lambda o: set(SECRETS) - set(o["Role", "certificate-renewal"]["rules"][0]["resourceNames"]),
        MANAGED,
    ),
    "ways of the renewal": (lambda o: _egress(o, "certificate-renewal")[1:], [RENEWAL_API, EXTRA]),
    "account of the signer": (lambda o: o["RoleBinding", "agent-signer"]["subjects"][0]["namespace"], "elsewhere"),
    "where agents reach the log": (
        lambda o: [each for each in container(o, "agent-signer")["env"] if each["name"] == "LOG_URL"],
        [{"name": "LOG_URL", "value": "tls://log.example:32422"}],
    ),
    "door of the log": (
        lambda o: [o["Service", "log"]["spec"]["type"], o["Service", "log"]["spec"]["ports"][0]["nodePort"]],
        ["NodePort", 32422],
    ),
    "port of the control plane": (lambda o: o["Service", "kube-apiserver"]["spec"]["ports"][0]["nodePort"], 32443),
    "ways of the signer": (lambda o: _egress(o, "agent-signer")[-3:], [RENEWAL_API, CONTROL, EXTRA]),
    "name of the log in its certificate": (
        lambda o: "log.example" in o["Certificate", "fleetlog-nats-tls"]["spec"]["dnsNames"],
        True,
    ),
    "store": (lambda o: "max_file_store: 90GB\n" in o["ConfigMap", "nats"]["data"]["nats.conf"], True),
    "addresses of the log": (
        lambda o: "nats-0.nats.elsewhere.svc:6222" in o["ConfigMap", "nats"]["data"]["nats.conf"],
        True,
    ),
    "namespace": (
        lambda o: environment(o, "detector")["FLEETLOG_NATS_URL"].split(","),
        [f"tls://nats-{number}.nats.elsewhere.svc:4222" for number in range(3)],
    ),
    "namespace of all": (lambda o: {each["metadata"]["namespace"] for each in o.values()}, {"elsewhere"}),
    "who reaches the log": (
        lambda o: o["NetworkPolicy", "nats"]["spec"]["ingress"][-1]["from"],
        _blocks("192.0.2.0/24"),
    ),
    "control plane": (lambda o: _egress(o, "webhook")[-2:], [CONTROL, EXTRA]),
    "members": (lambda o: _egress(o, "executor")[-3:], [MEMBERS, CONTROL, EXTRA]),
    "webhooks of users": (lambda o: _egress(o, "kube-apiserver")[-2:], [MEMBERS, EXTRA]),
    "egress of the log": (lambda o: EXTRA in _egress(o, "nats"), False),
    "monitor": (lambda o: o["PodMonitor", "fleetlog"]["metadata"]["labels"]["release"], "prometheus"),
    "rules": (lambda o: min(name for kind, name in o if kind == "PrometheusRule"), "fleetlog-alerts"),
    "dashboards": (
        lambda o: o["ConfigMap", "fleetlog-log"]["data"]["fleetlog-log.json"],
        (ROOT / "k8s/dashboards/fleetlog-log.json").read_text(encoding="utf-8"),
    ),
    "issuer": (
        lambda o: o["Certificate", "fleetlog-webhook"]["spec"]["issuerRef"],
        {"name": "ours", "kind": "Issuer", "group": "cert-manager.io"},
    ),
    "names in certificates": (
        lambda o: "*.nats.elsewhere.svc" in o["Certificate", "fleetlog-nats-tls"]["spec"]["dnsNames"],
        True,
    ),
    "certificate of a front": (
        lambda o: next(
            [source["secret"]["name"] for source in volume["projected"]["sources"]]
            for volume in pod(o, "gateway")["volumes"]
            if volume["name"] == "gateway"
        ),
        ["fleetlog-gateway", "fleetlog-gateway-tls"],
    ),
    "secrets": (
        lambda o: "checksum/secrets" in o["Deployment", "janitor"]["spec"]["template"]["metadata"]["annotations"],
        True,
    ),
}


@pytest.mark.parametrize("name", EFFECTS)
def test_a_value_changes_what_it_says(usual: Objects, changed: Objects, name: str) -> None:
    effect, wanted = EFFECTS[name]
    assert effect(changed) == wanted
    if "stays" in name or name == "egress of the log":
        return
    try:
        before = effect(usual)
    except (KeyError, IndexError, ValueError):
        return
    assert before != wanted, "it was so before"


def test_each_service_gets_the_settings_that_it_knows() -> None:
    given = {
        "FLEETLOG_FEATURE_GATES": "Failover=true",
        "FLEETLOG_ENABLE_NO_EXECUTE_TAINT_EVICTION": "true",
        "HTTPS_PROXY": "http://proxy.example:3128",
    }
    objects = rendered({"env": given})
    got = {name: given.keys() & environment(objects, name).keys() for name in ("failover", "webhook", "janitor")}
    assert got == {"failover": given.keys(), "webhook": given.keys(), "janitor": {"HTTPS_PROXY"}}


@pytest.mark.parametrize("address", ["192.0.2.7", "[fd00::7]"])
def test_an_address_of_the_log_is_in_its_certificate(address: str) -> None:
    manager = {"certManager": {"enabled": True, "issuerRef": {"name": "ours"}}}
    found = rendered({"certificates": manager, "log": {"url": f"tls://{address}:4222"}})
    spec = found["Certificate", "fleetlog-nats-tls"]["spec"]
    assert spec["ipAddresses"] == ["127.0.0.1", address.strip("[]")]


def test_renewal_is_turned_off_as_a_whole() -> None:
    found = rendered({"certificates": {"renewal": {"enabled": False}}})
    assert not [name for _, name in found if name == "certificate-renewal"]


def test_reloader_is_turned_off_as_a_whole(usual: Objects) -> None:
    before = pod(usual, "nats", "StatefulSet")
    after = pod(rendered({"log": {"reloader": {"enabled": False}}}), "nats", "StatefulSet")
    assert after == {
        **{name: value for name, value in before.items() if name != "shareProcessNamespace"},
        "containers": before["containers"][:1],
    }


def test_values_leave_pods_restricted(usual: Objects, changed: Objects) -> None:
    for objects in (usual, changed):
        pods = {
            name: each["spec"]["template"] for (_, name), each in objects.items() if "template" in each.get("spec", {})
        }
        assert len(pods) > len(DEPLOYED) - 2
        pods["certificate-renewal"] = _renewal(objects)["jobTemplate"]["spec"]["template"]
        assert not {name: found for name, each in pods.items() if (found := violations(each))}
