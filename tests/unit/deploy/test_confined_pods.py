"""Every pod that is rendered keeps to the Pod Security Standard "restricted", ends in order and can be evicted."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from services.cli.hosting.host_manifests import shipped
from services.cli.registration.agent_manifests import AgentPlan, agent_objects
from services.cli.renewal.secret_renewal import SECRETS
from tests.support.pod_security import violations

ROOT = Path(__file__).parents[3]
Manifest = dict[str, Any]
AGENT = AgentPlan(cluster="m3", namespace="fleet", url="tls://nats:4222", identity="SEED", signed=True)
OVERLAYS = ("k8s/base", "k8s/overlays/stock", "k8s/overlays/node-ports")


def kustomized(directory: str) -> list[Manifest]:
    """What `kubectl kustomize` makes of a directory of the repository."""
    done = subprocess.run(["kubectl", "kustomize", str(ROOT / directory)], capture_output=True, text=True, check=True)
    return [each for each in yaml.safe_load_all(done.stdout) if each]


@pytest.fixture(scope="module")
def rendered() -> dict[str, list[Manifest]]:
    """Everything that is offered for installing, by where it comes from."""
    found = {directory: kustomized(directory) for directory in OVERLAYS}
    return {**found, "init": shipped(), "agent": agent_objects(AGENT)}


def workloads(objects: list[Manifest]) -> Iterator[Manifest]:
    return (each for each in objects if "template" in each.get("spec", {}))


def test_every_pod_keeps_to_the_restricted_standard(rendered: dict[str, list[Manifest]]) -> None:
    for place, objects in rendered.items():
        pods = {each["metadata"]["name"]: each["spec"]["template"] for each in workloads(objects)}
        assert len(pods) > (0 if place == "agent" else 15)
        assert not {name: found for name, pod in pods.items() if (found := violations(pod))}, place


def test_every_pod_is_closed_off_from_its_surroundings(rendered: dict[str, list[Manifest]]) -> None:
    # They use the API of the cluster that they run in.
    with_token = ("karmada-agent", "agent-signer")
    for objects in rendered.values():
        for each in workloads(objects):
            pod = each["spec"]["template"]["spec"]
            assert pod["enableServiceLinks"] is False
            assert pod["automountServiceAccountToken"] is (each["metadata"]["name"] in with_token)
            assert {one["topologyKey"] for one in pod["topologySpreadConstraints"]} >= {"topology.kubernetes.io/zone"}
            for container in pod["containers"]:
                assert container["securityContext"]["readOnlyRootFilesystem"] is True
                assert {"startupProbe", "livenessProbe", "readinessProbe"} <= set(container)
                assert container["resources"]["limits"]["memory"]


def test_the_job_that_renews_is_confined_and_may_little(rendered: dict[str, list[Manifest]]) -> None:
    for place in (*OVERLAYS, "init"):
        found = {each["kind"]: each for each in rendered[place] if each["metadata"]["name"] == "certificate-renewal"}
        assert set(found) == {"ServiceAccount", "Role", "RoleBinding", "NetworkPolicy", "CronJob"}
        job = found["CronJob"]["spec"]
        assert job["concurrencyPolicy"] == "Forbid"
        template = job["jobTemplate"]["spec"]["template"]
        assert not violations(template)
        pod = template["spec"]
        assert pod["enableServiceLinks"] is False
        assert pod["serviceAccountName"] == "certificate-renewal"
        (container,) = pod["containers"]
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert container["resources"]["limits"]["memory"]
        (rule,) = found["Role"]["rules"]
        assert (rule["apiGroups"], rule["resources"], rule["verbs"]) == ([""], ["secrets"], ["get", "update"])
        assert [f"--secret={name}" for name in rule["resourceNames"]] == container["args"]
        (subject,) = found["RoleBinding"]["subjects"]
        assert (subject["kind"], subject["name"]) == ("ServiceAccount", "certificate-renewal")
        policy = found["NetworkPolicy"]["spec"]
        assert policy["podSelector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
        assert "ingress" not in policy
        assert {port["port"] for one in policy["egress"] for port in one["ports"]} == {53, 443, 6443}


def test_what_signs_for_agents_may_little(rendered: dict[str, list[Manifest]]) -> None:
    for place in (*OVERLAYS, "init"):
        found = {each["kind"]: each for each in rendered[place] if each["metadata"]["name"] == "agent-signer"}
        rules = [(one["resources"], one["resourceNames"], one["verbs"]) for one in found["Role"]["rules"]]
        assert rules == [
            (["secrets"], ["fleetlog-nats-accounts"], ["get", "patch"]),
            (["statefulsets"], ["nats"], ["get"]),
        ]
        assert [subject["name"] for subject in found["RoleBinding"]["subjects"]] == ["agent-signer"]
        assert found["Deployment"]["spec"]["replicas"] == 1
        others = [
            each["metadata"]["name"]
            for each in workloads(rendered[place])
            if "'fleetlog-control-agent-signer'" in str(each) or "'fleetlog-log-agent-signer'" in str(each)
        ]
        assert others == ["agent-signer"]
        # Agents of other clusters come in by the port of the nodes, where it is opened.
        opened = place == "k8s/overlays/node-ports"
        named = {(each["kind"], each["metadata"]["name"]): each["spec"] for each in rendered[place] if "spec" in each}
        assert named["Service", "log"].get("type") == ("NodePort" if opened else None)
        ports = {"ports": [{"protocol": "TCP", "port": 4222}]}
        assert (ports in named["NetworkPolicy", "nats"]["ingress"]) is opened


def test_no_other_pod_of_ours_has_a_token_or_the_authority(rendered: dict[str, list[Manifest]]) -> None:
    for place in (*OVERLAYS, "init"):
        text = {each["metadata"]["name"] for each in rendered[place] if "fleetlog-authority'" in str(each)}
        assert text == {"certificate-renewal"}, place


def test_secrets_that_are_renewed_hold_all_certificates_of_pods(rendered: dict[str, list[Manifest]]) -> None:
    for place in ("k8s/overlays/stock", "init"):
        mounted = {
            volume["secret"]["secretName"]
            for each in workloads(rendered[place])
            for volume in each["spec"]["template"]["spec"]["volumes"]
            if "secret" in volume
        }
        # Passwords of the log, keys and accounts end by no date; authorities are not renewed.
        others = {name for name in mounted if name.startswith("fleetlog-log-")}
        assert mounted - others - set(SECRETS) == {"fleetlog-secrets-keys", "fleetlog-authorities"}
        assert mounted >= set(SECRETS)


def test_a_budget_lets_one_instance_go_however_many_there_are(rendered: dict[str, list[Manifest]]) -> None:
    for place in OVERLAYS:
        budgets = [each for each in rendered[place] if each["kind"] == "PodDisruptionBudget"]
        assert budgets
        for each in budgets:
            assert each["spec"]["maxUnavailable"] == 1
            assert "minAvailable" not in each["spec"]


def test_listeners_leave_their_service_before_they_stop(rendered: dict[str, list[Manifest]]) -> None:
    pods = {each["metadata"]["name"]: each["spec"]["template"]["spec"] for each in workloads(rendered[OVERLAYS[1]])}
    for each in rendered[OVERLAYS[1]]:
        if each["kind"] != "Service" or each["metadata"]["name"] in ("etcd", "nats", "log"):
            continue
        pod = pods[each["metadata"]["name"]]
        (container,) = pod["containers"]
        waits = [*container.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command", ())[1:]]
        waits += [one.get("value") for one in container.get("env", ()) if one["name"] == "FLEETLOG_DRAIN_SECONDS"]
        waits += re.findall(r"--shutdown-delay-duration=(\d+)s", "\n".join(container.get("command", ())))
        assert len(waits) == 1, each["metadata"]["name"]
        assert 0 < int(waits[0]) < pod["terminationGracePeriodSeconds"] - 30


def test_a_server_of_the_log_has_time_to_send_its_clients_away(rendered: dict[str, list[Manifest]]) -> None:
    (workload,) = (each for each in workloads(rendered["k8s/base"]) if each["metadata"]["name"] == "nats")
    pod = workload["spec"]["template"]["spec"]
    container = pod["containers"][0]
    told = container["lifecycle"]["preStop"]["exec"]["command"][-1]
    assert told == "nats-server --signal ldm=/run/nats/nats.pid && sleep 1"
    assert container["command"] == ["nats-server"]
    assert container["args"][-2:] == ["-P", "/run/nats/nats.pid"]
    (config,) = (each["data"]["nats.conf"] for each in rendered["k8s/base"] if each["kind"] == "ConfigMap")
    lasts = [int(one) for one in re.findall(r'^lame_duck_\w+: "(\d+)s"$', config, re.MULTILINE)]
    assert len(lasts) == 2
    assert sum(lasts) < pod["terminationGracePeriodSeconds"]


def test_what_reloads_the_log_may_signal_its_server(rendered: dict[str, list[Manifest]]) -> None:
    for place in (*OVERLAYS, "init"):
        (workload,) = (each for each in workloads(rendered[place]) if each["metadata"]["name"] == "nats")
        pod = workload["spec"]["template"]["spec"]
        server, reloader = pod["containers"]
        assert pod["shareProcessNamespace"] is True
        for container in (server, reloader):
            assert not {"runAsUser", "runAsGroup"} & set(container["securityContext"]), "else they differ"
        mounts = {each["mountPath"]: (each["name"], each.get("readOnly")) for each in reloader["volumeMounts"]}
        assert mounts == {"/etc/nats": ("config", True), "/tls": ("tls", True), "/run/nats": ("run", None)}
        assert {"name": "run", "mountPath": "/run/nats"} in server["volumeMounts"]
        assert reloader["args"] == ["/etc/nats", "/tls"]
        assert reloader["command"][:3] == ["fleetlog", "nats", "reload-on-change"]


def test_policies_let_services_reach_what_they_call(rendered: dict[str, list[Manifest]]) -> None:
    policies = {
        each["metadata"]["name"]: each["spec"]
        for each in rendered["k8s/overlays/stock"]
        if each["kind"] == "NetworkPolicy"
    }
    anywhere = {name for name, spec in policies.items() if {} in spec["egress"]}
    assert anywhere == {
        *("autoscaler", "cluster-monitor", "estimator", "executor", "gateway", "search"),
        *("detector", "kube-apiserver", "override-renderer", "status-aggregator"),
    }
    for name in ("networking", "webhook"):
        ports = {port["port"] for rule in policies[name]["egress"] if "to" not in rule for port in rule["ports"]}
        assert ports == {53, 443, 6443}


GOOD: Manifest = {
    "metadata": {},
    "spec": {
        "securityContext": {"runAsNonRoot": True, "runAsUser": 1, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [
            {
                "name": "one",
                "image": "one",
                "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
            }
        ],
    },
}
BAD: tuple[tuple[str, Manifest], ...] = (
    ("spec", {"hostNetwork": True}),
    ("spec", {"hostPID": True}),
    ("spec", {"hostIPC": True}),
    ("spec", {"volumes": [{"name": "host", "hostPath": {"path": "/"}}]}),
    ("spec", {"volumes": [{"name": "share", "nfs": {"server": "one", "path": "/"}}]}),
    ("spec.securityContext", {"runAsNonRoot": False}),
    ("spec.securityContext", {"runAsUser": 0}),
    ("spec.securityContext", {"seccompProfile": {"type": "Unconfined"}}),
    ("spec.securityContext", {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}),
    ("spec.securityContext", {"appArmorProfile": {"type": "Unconfined"}}),
    ("spec.securityContext", {"seLinuxOptions": {"type": "spc_t"}}),
    ("spec.securityContext", {"windowsOptions": {"hostProcess": True}}),
    ("metadata", {"annotations": {"container.apparmor.security.beta.kubernetes.io/one": "unconfined"}}),
    ("container", {"ports": [{"containerPort": 80, "hostPort": 80}]}),
    ("container", {"livenessProbe": {"httpGet": {"host": "10.0.0.1", "port": 80}}}),
    ("container.securityContext", {"privileged": True}),
    ("container.securityContext", {"allowPrivilegeEscalation": True}),
    ("container.securityContext", {"capabilities": {"drop": ["NET_RAW"]}}),
    ("container.securityContext", {"capabilities": {"drop": ["ALL"], "add": ["SYS_ADMIN"]}}),
    ("container.securityContext", {"procMount": "Unmasked"}),
    ("container.securityContext", {"runAsNonRoot": False}),
    ("container.securityContext", {"runAsUser": 0}),
)


@pytest.mark.parametrize("kind", ["containers", "initContainers", "ephemeralContainers"])
@pytest.mark.parametrize(("place", "change"), BAD, ids=lambda each: str(each)[:40])
def test_the_check_of_the_standard_finds_each_violation(kind: str, place: str, change: Manifest) -> None:
    pod = deepcopy(GOOD)
    assert not violations(pod)
    spec = pod["spec"]
    first, _, rest = place.partition(".")
    if first == "container":
        spec[kind] = [deepcopy(spec["containers"][0])]
        spec[kind][0]["name"] = "changed"
    target = {"spec": spec, "metadata": pod["metadata"], "container": spec[kind][0] if kind in spec else {}}[first]
    (target[rest] if rest else target).update(change)
    assert len(violations(pod)) == 1
