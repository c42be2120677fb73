"""Services of a simulated cluster: their slices follow pods as those of a real one do."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.manifest import Manifest
from services.member_sim.world.world_model import Key

HTTP = [{"name": "http", "port": 80, "targetPort": "web", "protocol": "TCP"}]
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"


def pod(number: int = 8080, **spec: Any) -> Manifest:
    """Labels and spec of a pod whose container serves at a port with the name `web`."""
    container = {"name": "c", "image": "x", "ports": [{"name": "web", "containerPort": number, "protocol": "TCP"}]}
    return {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container], **spec}}


def service(cluster: Any, name: str = "web", labels: dict[str, str] | None = None, **spec: Any) -> None:
    given = {"selector": {"app": "web"}, "ports": HTTP, "type": "ClusterIP", **spec}
    cluster.created("Service", name, spec=given, metadata={"labels": labels or {}})


def slices(cluster: Any, kind: str = "IPv4") -> list[Manifest]:
    found = [item for item in cluster.all("EndpointSlice") if item["addressType"] == kind]
    return sorted(found, key=lambda item: str(item["metadata"]["name"]))


def endpoints(cluster: Any, kind: str = "IPv4") -> dict[str, Manifest]:
    """Endpoints by the name of their pod."""
    return {each["targetRef"]["name"]: each for item in slices(cluster, kind) for each in item["endpoints"]}


def ready(cluster: Any) -> dict[str, bool]:
    return {name: each["conditions"]["ready"] for name, each in endpoints(cluster).items()}


def test_endpoints_say_node_zone_and_pod(cluster: Any) -> None:
    service(cluster)
    cluster.created("Pod", "a", **pod())
    running = cluster.get("Pod", "a")
    node = cluster.get("Node", running["spec"]["nodeName"], "")
    assert endpoints(cluster) == {
        "a": {
            "addresses": [running["status"]["podIP"]],
            "conditions": {"ready": True, "serving": True, "terminating": False},
            "nodeName": node["metadata"]["name"],
            "zone": node["metadata"]["labels"]["topology.kubernetes.io/zone"],
            "targetRef": {"kind": "Pod", "namespace": "default", "name": "a", "uid": running["metadata"]["uid"]},
        }
    }


def test_a_node_in_another_zone_moves_its_endpoints(make_cluster: Any) -> None:
    cluster = make_cluster(nodes=1)
    service(cluster)
    cluster.created("Pod", "a", **pod())
    name = cluster.get("Pod", "a")["spec"]["nodeName"]
    node = cluster.get("Node", name, "")
    labels = {**node["metadata"]["labels"], "topology.kubernetes.io/zone": "far"}
    cluster._apply("nodes", {**node, "metadata": {**node["metadata"], "labels": labels}}, "9000")
    cluster.settle()
    assert endpoints(cluster)["a"]["zone"] == "far"


def test_slices_follow_the_readiness_of_pods(cluster: Any) -> None:
    service(cluster)
    cluster.created("Pod", "a", **pod())
    cluster.created("Pod", "b", **pod())
    assert ready(cluster) == {"a": True, "b": True}
    cluster.state.crashing.add(("default", "Pod", "a"))
    cluster.again([Key("pods", "default", "a")])
    cluster.settle()
    assert ready(cluster) == {"a": False, "b": True}
    cluster.deleted("Pod", "a")
    assert ready(cluster) == {"b": True}


def test_not_ready_addresses_are_published_if_asked(make_cluster: Any) -> None:
    cluster = make_cluster(ready_delay=0.1)
    service(cluster, publishNotReadyAddresses=True)
    cluster.created("Pod", "a", **pod())
    cluster.state.crashing.add(("default", "Pod", "a"))
    cluster.again([Key("pods", "default", "a")])
    cluster.settle()
    conditions = endpoints(cluster)["a"]["conditions"]
    assert (conditions["ready"], conditions["serving"]) == (True, False)
    (subset,) = cluster.get("Endpoints", "web")["subsets"]
    assert "notReadyAddresses" not in subset


def test_pods_with_other_ports_have_other_slices(cluster: Any) -> None:
    service(cluster)
    cluster.created("Pod", "a", **pod(8080))
    cluster.created("Pod", "b", **pod(9090))
    cluster.created("Pod", "c", metadata={"labels": {"app": "web"}}, spec={"containers": [{"name": "c", "image": "x"}]})
    found = {
        tuple(port["port"] for port in item["ports"]): [each["targetRef"]["name"] for each in item["endpoints"]]
        for item in slices(cluster)
    }
    assert found == {(8080,): ["a"], (9090,): ["b"], (): ["c"]}
    ports = [subset.get("ports", [{}])[0].get("port") for subset in cluster.get("Endpoints", "web")["subsets"]]
    assert sorted(ports, key=str) == [8080, 9090, None]


def test_a_slice_has_a_hundred_endpoints(make_cluster: Any, deployment: Any) -> None:
    cluster = make_cluster(nodes=3, cpu="64", pods=200)
    service(cluster, ports=[{"port": 80, "targetPort": 80, "protocol": "TCP"}])
    cluster.created("Deployment", "web", spec=deployment(250))
    assert sorted(len(item["endpoints"]) for item in slices(cluster)) == [50, 100, 100]
    before = {item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in slices(cluster)}
    name = slices(cluster)[0]["endpoints"][0]["targetRef"]["name"]
    cluster.deleted("Pod", name)
    assert len(endpoints(cluster)) == 250
    after = {item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in slices(cluster)}
    assert after.keys() == before.keys()
    cluster.changed("Deployment", "web", replicas=0)
    (left,) = slices(cluster)
    assert left["endpoints"] == []


def test_labels_of_slices_follow_those_of_the_service(cluster: Any) -> None:
    service(cluster, labels={"team": "blue", MANAGED_BY: "somebody"}, clusterIP="None")
    (found,) = slices(cluster)
    assert found["metadata"]["labels"] == {
        "team": "blue",
        "kubernetes.io/service-name": "web",
        MANAGED_BY: "endpointslice-controller.k8s.io",
        "service.kubernetes.io/headless": "",
    }
    old = cluster.get("Service", "web")
    changed = {**old, "metadata": {**old["metadata"], "labels": {"team": "red"}}}
    cluster._apply("services", changed, "9000")
    cluster.settle()
    assert slices(cluster)[0]["metadata"]["labels"]["team"] == "red"
    assert cluster.get("Endpoints", "web")["metadata"]["labels"]["team"] == "red"


def test_pods_of_a_headless_service_have_names(cluster: Any) -> None:
    service(cluster, clusterIP="None")
    cluster.created("Pod", "a", **pod(hostname="web-0", subdomain="web"))
    cluster.created("Pod", "b", **pod(hostname="web-1", subdomain="other"))
    assert {name: each.get("hostname") for name, each in endpoints(cluster).items()} == {"a": "web-0", "b": None}


def test_both_families_have_slices_of_their_own(make_cluster: Any) -> None:
    cluster = make_cluster(dual_stack=True)
    service(cluster, ipFamilies=["IPv6", "IPv4"], ipFamilyPolicy="RequireDualStack")
    cluster.created("Pod", "a", **pod())
    first, second = (entry["ip"] for entry in cluster.get("Pod", "a")["status"]["podIPs"])
    assert endpoints(cluster, "IPv4")["a"]["addresses"] == [first]
    assert endpoints(cluster, "IPv6")["a"]["addresses"] == [second]
    (subset,) = cluster.get("Endpoints", "web")["subsets"]
    assert [entry["ip"] for entry in subset["addresses"]] == [second]
    cluster.changed("Service", "web", ipFamilies=["IPv4"])
    assert slices(cluster, "IPv6") == []


def test_a_pod_on_its_nodes_network_has_its_address(cluster: Any) -> None:
    service(cluster)
    cluster.created("Pod", "a", **pod(hostNetwork=True))
    node = cluster.get("Node", cluster.get("Pod", "a")["spec"]["nodeName"], "")
    assert endpoints(cluster)["a"]["addresses"] == [node["status"]["addresses"][0]["address"]]


@pytest.mark.parametrize(
    ("distribution", "hints"),
    [("PreferClose", {"forZones"}), ("PreferSameNode", {"forZones", "forNodes"}), ("", set())],
)
def test_hints_follow_the_traffic_distribution(cluster: Any, distribution: str, hints: set[str]) -> None:
    service(cluster, **({"trafficDistribution": distribution} if distribution else {}))
    cluster.created("Pod", "a", **pod())
    assert set(endpoints(cluster)["a"].get("hints", {})) == hints


def test_only_load_balancers_have_an_address_outside(cluster: Any) -> None:
    service(cluster, type="LoadBalancer")
    assert cluster.get("Service", "web")["status"]["loadBalancer"]["ingress"][0]["ip"]
    cluster.changed("Service", "web", type="ClusterIP")
    assert cluster.get("Service", "web")["status"]["loadBalancer"] == {}


def test_endpoints_that_a_user_wrote_are_mirrored(cluster: Any) -> None:
    service(cluster, selector=None)
    assert slices(cluster) == []
    subsets = [{"addresses": [{"ip": "192.0.2.1"}], "notReadyAddresses": [{"ip": "192.0.2.2"}], "ports": [{"port": 9}]}]
    cluster.create("Endpoints", "web", subsets=subsets, metadata={"labels": {"team": "blue"}})
    cluster.settle()
    (found,) = slices(cluster)
    assert {each["addresses"][0]: each["conditions"]["ready"] for each in found["endpoints"]} == {
        "192.0.2.1": True,
        "192.0.2.2": False,
    }
    assert found["metadata"]["labels"] == {
        "team": "blue",
        "kubernetes.io/service-name": "web",
        MANAGED_BY: "endpointslicemirroring-controller.k8s.io",
    }
    assert found["ports"] == [{"protocol": "TCP", "name": "", "port": 9}]
    # With a selector the slices are those of pods.
    cluster.changed("Service", "web", selector={"app": "web"})
    assert [item["metadata"]["labels"][MANAGED_BY] for item in slices(cluster)] == ["endpointslice-controller.k8s.io"]


def test_nothing_is_left_of_a_deleted_service(cluster: Any) -> None:
    service(cluster)
    cluster.created("Pod", "a", **pod())
    service(cluster, "own", selector=None)
    cluster.created("Endpoints", "own", subsets=[{"addresses": [{"ip": "192.0.2.1"}]}])
    assert len(slices(cluster)) == 2
    cluster.deleted("Service", "web")
    cluster.deleted("Service", "own")
    assert slices(cluster) == []
