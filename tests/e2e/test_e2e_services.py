"""A Service that one member exports is reachable from another, by push and by pull, and follows its pods."""

from __future__ import annotations

import json
from typing import Any

import pytest

from schemas.manifest import Manifest
from tests.e2e.exporting import definitions, export, import_into
from tests.e2e.fleet import until, until_equal
from tests.e2e.space import Space, clusters
from tests.support.commands import run_command

pytestmark = pytest.mark.xdist_group("workloads")

DERIVED = "kubernetes.io/service-name=derived-web"
DISPATCHED = (
    "endpointslice.kubernetes.io/managed-by=endpointslice-dispatch-controller.karmada.io,kubernetes.io/service-name=web"
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


PORTS = [{"port": 80, "protocol": "TCP"}]


def an_ingress_says_where_it_is(space: Space) -> None:
    """The status of a MultiClusterIngress names the cluster of its backend."""
    spec = {"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}}
    api, metadata = "networking.karmada.io/v1alpha1", {"name": "shop", "namespace": space.name}
    space.apply({"apiVersion": api, "kind": "MultiClusterIngress", "metadata": metadata, "spec": spec})

    def status() -> Any:
        return (space.control.get("multiclusteringresses", "shop", space.name) or {}).get("status")

    until_equal("status", status, {"serviceLocations": [{"name": "web", "clusters": ["member1"]}]})
    space.control.delete("mci", "shop", space.name)


def leaves_before_its_pods_go(space: Space, web: Manifest) -> None:
    """A tainted cluster leaves the import while its pods run, and comes back."""

    def taint(mark: str) -> None:
        space.fleet.said("taint", "clusters", "member1", mark)

    def both() -> list[str]:
        return sorted(pods(space, "member1") + pods(space, "member3"))

    space.policy(web, clusters("member1", "member3"))
    export(space, "web", "member1", "member3")
    until("pods run in both", lambda: len(both()) == 6)
    until_equal("reached", lambda: reached(space, "member2"), both())
    taint("leaving:NoExecute")
    until_equal("reached", lambda: reached(space, "member2"), pods(space, "member3"))
    assert len(pods(space, "member1")) == 3
    found = json.loads(fleetlog(space, "trace", "service/web", "--from", "member2", "-o", "json"))
    assert found["leftOut"] == [{"cluster": "member1", "reason": "member1 is tainted leaving:NoExecute"}]
    taint("leaving:NoExecute-")
    until_equal("reached", lambda: reached(space, "member2"), both())


@pytest.mark.main_path
def test_an_exported_service_is_reachable_where_it_is_imported(space: Space) -> None:
    definitions(space)
    web = space.apply(space.load("web.yaml"))
    space.apply(space.load("web-service.yaml"))
    # From a pull member to a push member.
    space.policy(web, clusters("member3"))
    export(space, "web", "member3")
    import_into(space, "web", PORTS, "member2")
    space.until_in("service", "derived-web", ("member2",))
    until("a pod runs", lambda: pods(space, "member3"))
    until_equal("reached", lambda: reached(space, "member2"), pods(space, "member3"))
    until_equal("valid", lambda: condition(space, "Valid"), "True")
    until_equal("traced", lambda: traced(space, "member2"), (1, ["member3"]))
    space.control.patch("deployment", "web", {"spec": {"replicas": 3}}, space.name)
    # It moves to a push member, and is imported by the pull member as well.
    space.policy(web, clusters("member1"))
    export(space, "web", "member1")
    import_into(space, "web", PORTS, "member2", "member3")
    until("pods run in member1", lambda: len(pods(space, "member1")) == 3)
    for member in ("member2", "member3"):
        until_equal("reached", lambda member=member: reached(space, member), pods(space, "member1"))
    an_ingress_says_where_it_is(space)
    leaves_before_its_pods_go(space, web)
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


def shared(space: Space, providers: tuple[str, ...], consumers: tuple[str, ...]) -> Manifest:
    """A MultiClusterService `web` between these members."""
    return {
        "apiVersion": "networking.karmada.io/v1alpha1",
        "kind": "MultiClusterService",
        "metadata": {"name": "web", "namespace": space.name},
        "spec": {
            "types": ["CrossCluster"],
            "providerClusters": [{"name": name} for name in providers],
            "consumerClusters": [{"name": name} for name in consumers],
        },
    }


def dispatched(space: Space, member: str) -> list[str]:
    """Addresses of other members behind the Service itself in a member."""
    found = space.member[member].items("endpointslices", space.name, DISPATCHED)
    return sorted(address for item in found for each in item.get("endpoints") or () for address in each["addresses"])


def says(space: Space, kind: str) -> Any:
    """A condition of the MultiClusterService."""
    status = (space.control.get("multiclusterservice", "web", space.name) or {}).get("status") or {}
    return next((item["reason"] for item in status.get("conditions") or () if item["type"] == kind), None)


def works(space: Space, member: str, kind: str) -> list[Manifest]:
    """Works in the execution namespace of a member that belong to the MultiClusterService."""
    label = f"multiclusterservice.karmada.io/namespace={space.name}"
    found = space.control.items("works", f"karmada-es-{member}", label)
    return [work for work in found if work["spec"]["workload"]["manifests"][0]["kind"] == kind]


def provided(space: Space, member: str) -> list[str]:
    """Where the slices are from whose works a member gets; one for each."""
    where = "endpointslice.karmada.io/provision-cluster"
    return [work["metadata"]["annotations"][where] for work in works(space, member, "EndpointSlice")]


def test_a_service_is_reachable_by_its_name_from_consumers(space: Space) -> None:
    # From a push member to another one and to a pull member.
    web = space.apply(space.load("web.yaml"))
    space.policy(web, clusters("member1"))
    space.apply(space.load("web-service.yaml"))
    # A user of member2 has a Service of this name: it is taken over.
    until("the namespace", lambda: space.member["member2"].get("namespace", space.name))
    own = {"selector": {"app": "own"}, "ports": [{"port": 80}]}
    metadata = {"name": "web", "namespace": space.name}
    space.member["member2"].apply({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": own})
    space.apply(shared(space, ("member1",), ("member2", "member3")))
    space.until_in("service", "web", ("member1", "member2", "member3"))
    space.until_field("member2", "service", "web", "spec.selector.app", "web")
    until("a pod runs", lambda: pods(space, "member1"))
    for member in ("member2", "member3"):
        until_equal("dispatched", lambda member=member: dispatched(space, member), pods(space, "member1"))
    until_equal("applied", lambda: says(space, "ServiceApplied"), "ServiceAppliedSucceed")
    until_equal("slices", lambda: says(space, "EndpointSliceDispatched"), "EndpointSliceDispatchedSucceed")
    (marker,) = until("the marker", lambda: works(space, "member1", "MultiClusterService"))
    assert marker["spec"]["suspendDispatching"]
    until_equal("works of slices", lambda: provided(space, "member2"), ["member1"])
    held = space.member["member2"].items("endpointslices", space.name, DISPATCHED)
    assert {item["metadata"]["name"].partition("-")[0] for item in held} == {"member1"}
    service = space.control.get("service", "web", space.name)
    assert service is not None
    assert service["metadata"]["labels"]["resourcetemplate.karmada.io/claimed-by"] == "MultiClusterService"
    until_equal("traced", lambda: traced(space, "member2"), (1, ["member1"]))
    # More pods follow; then a pull member provides, and is no consumer of its own.
    space.control.patch("deployment", "web", {"spec": {"replicas": 3}}, space.name)
    until("three pods run", lambda: len(pods(space, "member1")) == 3)
    until_equal("dispatched", lambda: dispatched(space, "member2"), pods(space, "member1"))
    space.policy(web, clusters("member3"))
    space.apply(shared(space, ("member3",), ("member1", "member3")))
    until("pods run in member3", lambda: len(pods(space, "member3")) == 3)
    until_equal("dispatched", lambda: dispatched(space, "member1"), pods(space, "member3"))
    for member in ("member2", "member3"):
        until_equal("left", lambda member=member: dispatched(space, member), [])
    space.until_in("service", "web", ("member1", "member3"))
    # Without it the Service stays where it is, and belongs to policies again.
    space.control.delete("multiclusterservice", "web", space.name)
    until_equal("dispatched", lambda: dispatched(space, "member1"), [])
    until_equal("works", lambda: works(space, "member3", "MultiClusterService"), [])
    until_equal("gone", lambda: space.control.get("multiclusterservice", "web", space.name), None)

    def labels() -> object:
        found = space.control.get("service", "web", space.name) or {}
        return "resourcetemplate.karmada.io/claimed-by" in (found["metadata"].get("labels") or {})

    until_equal("claimed", labels, False)
    space.until_in("service", "web", ("member1", "member3"))
    assert space.control.get("resourcebinding", "web-service", space.name) is not None
    assert "member3 offers 3 endpoints" in fleetlog(space, "history", "service/web", "--endpoints")
