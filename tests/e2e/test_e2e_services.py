"""A Service that one member exports is reachable from another, by push and by pull, and follows its pods."""

from __future__ import annotations

import json
from typing import Any

from schemas.manifest import Manifest
from tests.e2e.fleet import until, until_equal
from tests.e2e.space import Space, clusters
from tests.support.commands import run_command

API = "multicluster.x-k8s.io/v1alpha1"
DERIVED = "kubernetes.io/service-name=derived-web"


def definitions(space: Space) -> Manifest:
    """The policy that brings both definitions to every member."""
    kinds = ("serviceexports", "serviceimports")
    named = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    return space.apply(
        {
            "apiVersion": "policy.karmada.io/v1alpha1",
            "kind": "ClusterPropagationPolicy",
            "metadata": {"name": "multicluster-services"},
            "spec": {
                "resourceSelectors": [{**named, "name": f"{kind}.multicluster.x-k8s.io"} for kind in kinds],
                "placement": clusters(*space.member),
                "conflictResolution": "Overwrite",
            },
        }
    )


def pods(space: Space, member: str) -> list[str]:
    """Addresses of the ready pods of a member."""
    found = space.member[member].items("pods", space.name)
    return sorted(item["status"]["podIP"] for item in found if (item.get("status") or {}).get("podIP"))


def reached(space: Space, member: str) -> list[str]:
    """Addresses behind the derived Service in a member."""
    slices = space.member[member].items("endpointslices", space.name, DERIVED)
    return sorted(address for item in slices for each in item.get("endpoints") or () for address in each["addresses"])


def fleetlog(space: Space, *words: str) -> str:
    """Output of a command about the space."""
    return run_command("fleetlog", *words, "-n", space.name, "--dir", str(space.fleet.layout.directory)).stdout


def traced(space: Space, member: str) -> tuple[int, list[str]]:
    """Endpoints that a client in a member reaches, and the clusters that they are in."""
    found = json.loads(fleetlog(space, "trace", "service/web", "--from", member, "-o", "json"))
    return found["reached"], [item["cluster"] for item in found["slices"]]


def condition(space: Space, kind: str) -> Any:
    status = (space.control.get("serviceexport", "web", space.name) or {}).get("status") or {}
    return next((item["status"] for item in status.get("conditions") or () if item["type"] == kind), None)


def test_an_exported_service_is_reachable_where_it_is_imported(space: Space) -> None:
    definitions(space)
    web = space.apply(space.load("web.yaml"))
    space.apply(space.load("web-service.yaml"))
    export = {"apiVersion": API, "kind": "ServiceExport", "metadata": {"name": "web", "namespace": space.name}}
    space.apply(export)
    # From a pull member to a push member.
    space.policy(web, clusters("member3"))
    others = [{"apiVersion": "v1", "kind": "Service", "name": "web"}, {"apiVersion": API, "kind": "ServiceExport"}]
    space.apply(
        {
            "apiVersion": "policy.karmada.io/v1alpha1",
            "kind": "PropagationPolicy",
            "metadata": {"name": "export", "namespace": space.name},
            "spec": {"resourceSelectors": others, "placement": clusters("member3")},
        }
    )
    imported = {
        "apiVersion": API,
        "kind": "ServiceImport",
        "metadata": {"name": "web", "namespace": space.name},
        "spec": {"type": "ClusterSetIP", "ports": [{"port": 80, "protocol": "TCP"}]},
    }
    space.apply(imported)
    policy = {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"name": "import", "namespace": space.name},
        "spec": {
            "resourceSelectors": [{"apiVersion": API, "kind": "ServiceImport"}],
            "placement": clusters("member2"),
        },
    }
    space.apply(policy)
    space.until_in("service", "derived-web", ("member2",))
    until("a pod runs", lambda: pods(space, "member3"))
    until_equal("reached", lambda: reached(space, "member2"), pods(space, "member3"))
    until_equal("valid", lambda: condition(space, "Valid"), "True")
    until_equal("traced", lambda: traced(space, "member2"), (1, ["member3"]))
    # More pods follow.
    space.control.patch("deployment", "web", {"spec": {"replicas": 3}}, space.name)
    until("three pods run", lambda: len(pods(space, "member3")) == 3)
    until_equal("reached", lambda: reached(space, "member2"), pods(space, "member3"))
    # It moves to a push member, and is imported by the pull member as well.
    space.policy(web, clusters("member1"))
    for name, members in (("export", ("member1",)), ("import", ("member2", "member3"))):
        found = space.control.get("propagationpolicy", name, space.name)
        assert found is not None
        placement = clusters(*members)
        space.control.patch("propagationpolicy", name, {"spec": {"placement": placement}}, space.name)
    until("pods run in member1", lambda: len(pods(space, "member1")) == 3)
    for member in ("member2", "member3"):
        until_equal("reached", lambda member=member: reached(space, member), pods(space, "member1"))
    # Without the export nothing is left of it, without the import no Service.
    space.control.delete("serviceexport", "web", space.name)
    for member in ("member2", "member3"):
        until_equal("reached", lambda member=member: reached(space, member), [])
    space.control.delete("serviceimport", "web", space.name)
    space.until_in("service", "derived-web", ())
    until_equal("derived", lambda: space.control.get("service", "derived-web", space.name), None)
    steps = fleetlog(space, "history", "service/web", "--endpoints")
    assert "member3 does not export it any more" in steps
    assert "member1 offers 3 endpoints, 3 ready" in steps
    space.control.delete("clusterpropagationpolicy", "multicluster-services")
