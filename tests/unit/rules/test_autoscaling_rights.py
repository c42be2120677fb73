"""The autoscaler and the gateway may do what they need and nothing else: in control plane, members, and host."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
import yaml

from schemas.manifest import Manifest
from services._rules.constants import NAMESPACE_CLUSTER
from services._rules.kubernetes.rbac.policy_rules import Access
from services._rules.kubernetes.rbac.role_index import GROUP, Place, RoleIndex
from services._rules.kubernetes.rbac.service_roles import SERVICE_GROUP, service_objects, user_of
from services.apiserver.core.request_context import Identity
from services.cli.members.member_account import reading_rights

ROOT = Path(__file__).parents[3]
HPA = "autoscaling.karmada.io"
READ = ("get", "list", "watch")
FOLLOW = ("list", "watch")
VERBS = (*READ, "create", "update", "patch", "delete", "deletecollection")
KINDS = (
    *product([""], ("secrets", "configmaps", "pods", "nodes", "namespaces", "services", "serviceaccounts", "events")),
    *product(["apps"], ("deployments", "statefulsets", "replicasets", "daemonsets", "controllerrevisions")),
    *product([HPA], ("federatedhpas", "cronfederatedhpas")),
    *product(["policy.karmada.io"], ("propagationpolicies", "overridepolicies", "clusterpropagationpolicies")),
    *product(["work.karmada.io"], ("works", "resourcebindings")),
    *product([GROUP], ("roles", "clusterroles", "rolebindings", "clusterrolebindings")),
    ("cluster.karmada.io", "clusters"),
    ("batch", "jobs"),
    ("example.com", "things"),
    ("autoscaling", "horizontalpodautoscalers"),
    ("metrics.k8s.io", "pods"),
    ("metrics.k8s.io", "nodes"),
    ("custom.metrics.k8s.io", "pods"),
    ("external.metrics.k8s.io", "queue"),
    ("authorization.k8s.io", "subjectaccessreviews"),
    ("authentication.k8s.io", "tokenreviews"),
)
SUBRESOURCES = ("", "status", "scale", "rps")

Right = tuple[str, tuple[str, str], str]
CONTROL: dict[str, set[Right]] = {
    "autoscaler": {
        *product(READ, [(HPA, "federatedhpas")], [""]),
        *product(FOLLOW, [(HPA, "cronfederatedhpas"), ("autoscaling", "horizontalpodautoscalers")], [""]),
        # Schedules change the limits of FederatedHPAs.
        ("patch", (HPA, "federatedhpas"), ""),
        *product(["patch"], [(HPA, "federatedhpas"), (HPA, "cronfederatedhpas")], ["status"]),
        # Whatever has a scale can be a target.
        *product(["get", "update", "patch"], KINDS, ["scale"]),
        # The label by which members keep their replicas, and the autoscalers that call for it.
        *product(["patch"], product(["apps"], ["deployments", "statefulsets", "replicasets"]), [""]),
        *product(["get"], [("custom.metrics.k8s.io", "pods")], SUBRESOURCES),
        *product(["list"], [("external.metrics.k8s.io", "queue")], SUBRESOURCES),
        *product(["get", "create", "patch"], [("", "events")], [""]),
    },
    "gateway": {
        *product(["get", "list"], [("cluster.karmada.io", "clusters")], [""]),
        ("create", ("authorization.k8s.io", "subjectaccessreviews"), ""),
        ("create", ("authentication.k8s.io", "tokenreviews"), ""),
    },
}
MEMBER: dict[str, set[Right]] = {
    "autoscaler": {
        *product(READ, [("", "pods")], [""]),
        *product(["get", "list"], [("metrics.k8s.io", "pods")], [""]),
        *product(["get"], KINDS, ["scale"]),
    },
    "gateway": {
        *product(["get", "list"], [("metrics.k8s.io", "pods"), ("metrics.k8s.io", "nodes")], SUBRESOURCES),
        *product(["get", "list"], [("custom.metrics.k8s.io", "pods")], SUBRESOURCES),
        *product(["get", "list"], [("external.metrics.k8s.io", "queue")], SUBRESOURCES),
    },
}


def indexed(objects: list[Manifest]) -> RoleIndex:
    index = RoleIndex()
    for manifest in objects:
        metadata = manifest["metadata"]
        index.take(Place(manifest["kind"], metadata.get("namespace", ""), metadata["name"]), manifest)
    return index


def rights(index: RoleIndex, service: str, namespace: str) -> set[Right]:
    """Everything of the kinds above that a service may do with an object of a namespace."""
    who = Identity(user_of(service), "", (SERVICE_GROUP,))
    return {
        (verb, (group, kind), subresource)
        for verb, (group, kind), subresource in product(VERBS, KINDS, SUBRESOURCES)
        if index.decide(who, Access(verb, group, "v1", kind, subresource, namespace, "x")).allowed
    }


@pytest.mark.parametrize("service", CONTROL)
def test_rights_in_the_control_plane_are_those_that_are_needed(service: str) -> None:
    index = indexed([item for item in service_objects() if item["kind"] != "Namespace"])
    assert rights(index, service, "default") == CONTROL[service]
    # Beside them the credentials of members, which are in a namespace of their own.
    reads = READ if service == "autoscaler" else ("get",)
    credentials = set(product(reads, [("", "secrets")], [""]))
    assert rights(index, service, NAMESPACE_CLUSTER) - CONTROL[service] == credentials


@pytest.mark.parametrize("service", MEMBER)
def test_rights_in_members_are_those_that_are_needed(service: str) -> None:
    assert rights(indexed(list(reading_rights())), service, "default") == MEMBER[service]


@pytest.mark.parametrize("service", CONTROL)
def test_pods_have_no_rights_in_the_host_but_their_secrets(service: str) -> None:
    documents = list(yaml.safe_load_all((ROOT / f"k8s/base/{service}.yaml").read_text()))
    assert not {"Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"} & {item["kind"] for item in documents}
    (pod,) = (item["spec"]["template"]["spec"] for item in documents if item["kind"] == "Deployment")
    assert pod["automountServiceAccountToken"] is False
    named = {volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume}
    own = {"fleetlog-gateway"} if service == "gateway" else set()
    assert named == {f"fleetlog-log-{service}", f"fleetlog-control-{service}", *own}
