"""What a server does of its own with objects of some kinds: definitions, namespaces, Services, Pods, data."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.apiserver.core_objects import APPLY, until_answered, until_gone


async def test_a_definition_serves_its_objects_and_takes_them_along(client: Any) -> None:
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"n": {"type": "integer"}}}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "gears", "kind": "Gear"}
    spec = {"group": "g.example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert (await client("POST", crds, {"metadata": {"name": "gears.g.example.com"}, "spec": spec}))[0] == 201
    gears = "/apis/g.example.com/v1/namespaces/default/gears"
    await until_answered(client, gears, 200)
    body = {"apiVersion": "g.example.com/v1", "kind": "Gear", "metadata": {"name": "a"}, "spec": {"n": 1}}
    assert (await client("POST", gears, body))[0] == 201
    bad = body | {"metadata": {"name": "b"}, "spec": {"n": "x"}}
    code, status = await client("POST", gears, bad)
    assert (code, status["details"]["causes"][0]["field"]) == (422, "spec.n")
    await client("DELETE", f"{crds}/gears.g.example.com")
    await until_gone(client, f"{crds}/gears.g.example.com")
    assert (await client("GET", gears))[0] == 404


async def test_objects_obey_the_rules_of_their_definition(client: Any) -> None:
    rule = {"rule": "self.n >= oldSelf.n", "message": "n must not fall"}
    spec = {"type": "object", "properties": {"n": {"type": "integer"}}, "x-kubernetes-validations": [rule]}
    schema = {"type": "object", "properties": {"spec": spec}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "as", "kind": "A"}
    body = {"metadata": {"name": "as.x.io"}, "spec": {"group": "x.io", "scope": "Cluster", "names": names}}
    body["spec"]["versions"] = [version]
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert (await client("POST", crds, body))[0] == 201
    await until_answered(client, "/apis/x.io/v1/as", 200)
    code, made = await client("POST", "/apis/x.io/v1/as", {"metadata": {"name": "a"}, "spec": {"n": 2}})
    assert code == 201
    code, status = await client("PUT", "/apis/x.io/v1/as/a", {**made, "spec": {"n": 1}})
    cause = {"reason": "FieldValueInvalid", "message": 'Invalid value: "object": n must not fall', "field": "spec"}
    assert (code, status["details"]["causes"]) == (422, [cause])


async def test_a_namespace_is_found_by_a_label_with_its_name(client: Any) -> None:
    path = "/api/v1/namespaces"
    _, made = await client("POST", path, {"metadata": {"generateName": "n-"}})
    name = made["metadata"]["name"]
    assert made["metadata"]["labels"] == {"kubernetes.io/metadata.name": name}
    _, found = await client("GET", f"{path}?labelSelector=kubernetes.io/metadata.name={name}")
    assert [item["metadata"]["name"] for item in found["items"]] == [name]
    _, new = await client("PUT", f"{path}/{name}", {"metadata": {"name": name, "labels": {"a": "b"}}})
    assert new["metadata"]["labels"] == {"a": "b", "kubernetes.io/metadata.name": name}


async def test_namespace_finalizers_are_validated(client: Any) -> None:
    path = "/api/v1/namespaces/held"
    _, made = await client("POST", "/api/v1/namespaces", {"metadata": {"name": "held"}})
    for name, text in (("a b", "name part must consist of"), ("mine", "neither a standard finalizer name nor")):
        code, answer = await client("PUT", f"{path}/finalize", {**made, "spec": {"finalizers": [name]}})
        assert (code, text in answer["message"]) == (422, True)
    code, new = await client("PUT", f"{path}/finalize", {**made, "spec": {"finalizers": ["kubernetes", "x.io/f"]}})
    assert (code, new["spec"]["finalizers"]) == (200, ["kubernetes", "x.io/f"])


async def test_services_get_distinct_addresses_and_ports(client: Any) -> None:
    services = "/api/v1/namespaces/default/services"
    spec = {"type": "NodePort", "ports": [{"port": 80}], "selector": {"a": "b"}}
    made = [(await client("POST", services, {"metadata": {"name": f"s{i}"}, "spec": spec}))[1] for i in range(10)]
    assert len({m["spec"]["clusterIP"] for m in made}) == 10
    assert len({m["spec"]["ports"][0]["nodePort"] for m in made}) == 10
    taken = {"ports": [{"port": 80}], "clusterIP": made[0]["spec"]["clusterIP"]}
    assert (await client("POST", services, {"metadata": {"name": "t"}, "spec": taken}))[0] == 422
    await client("DELETE", f"{services}/s0")
    assert (await client("POST", services, {"metadata": {"name": "t"}, "spec": taken}))[0] == 201


async def test_an_applied_port_without_a_protocol_is_the_tcp_port(client: Any) -> None:
    path = "/api/v1/namespaces/default/services/s?fieldManager="
    one = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}
    code, made = await client("PATCH", path + "m1", one, media=APPLY)
    assert (code, made["spec"]["ports"]) == (201, [{"protocol": "TCP", "port": 80, "targetPort": 80}])
    owned = made["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]["f:ports"]
    assert owned == {'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:port": {}}}
    spec = {"ports": [{"port": 80, "protocol": "TCP", "name": "web"}, {"port": 80, "protocol": "UDP", "name": "dns"}]}
    code, made = await client("PATCH", path + "m2", {**one, "spec": spec}, media=APPLY)
    assert code == 200
    assert [(p["port"], p["protocol"], p["name"]) for p in made["spec"]["ports"]] == [
        (80, "TCP", "web"),
        (80, "UDP", "dns"),
    ]


async def test_address_of_a_service_stays_unless_it_is_cleared(client: Any) -> None:
    path = "/api/v1/namespaces/default/services"
    _, made = await client("POST", path, {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}})
    spec = {k: v for k, v in made["spec"].items() if k != "clusterIPs"}
    code, answer = await client("PUT", f"{path}/s", {**made, "spec": {**spec, "clusterIP": "None"}})
    assert code == 422
    assert {c["field"] for c in answer["details"]["causes"]} == {"spec.clusterIPs[0]"}
    del spec["clusterIP"]
    code, answer = await client("PUT", f"{path}/s", {**made, "spec": spec})
    assert (code, answer["spec"]["clusterIPs"]) == (200, made["spec"]["clusterIPs"])


async def test_a_pod_is_bound_to_a_node_by_either_path(client: Any) -> None:
    path = "/api/v1/namespaces/default"
    spec = {"containers": [{"name": "c", "image": "i"}]}
    for name in ("one", "two"):
        await client("POST", f"{path}/pods", {"metadata": {"name": name}, "spec": spec})
    one, target = {"metadata": {"name": "one"}}, {"kind": "Node", "name": "n1"}
    for body in ({"target": target}, {"metadata": {"name": "two"}, "target": target}):
        code, answer = await client("POST", f"{path}/pods/one/binding", body)
        assert (code, answer["message"]) == (400, "name in URL does not match name in Binding object")
    code, answer = await client("POST", f"{path}/pods/one/binding", {**one, "target": {"kind": "Pod", "name": "n"}})
    assert (code, answer["message"].startswith('target.kind: Unsupported value: "Pod"')) == (400, True), answer
    body = {"metadata": {"name": "two"}, "target": {"kind": "Node", "name": "n2"}}
    assert (await client("POST", f"{path}/pods/one/binding", {**one, "target": {"name": "n1"}}))[0] == 201
    code, answer = await client("POST", f"{path}/pods/one/binding", {**one, "target": target})
    assert (code, answer["details"]["kind"]) == (409, "pods/binding")
    assert (await client("POST", f"{path}/bindings", body))[0] == 201
    nodes = [(await client("GET", f"{path}/pods/{name}"))[1]["spec"]["nodeName"] for name in ("one", "two")]
    assert nodes == ["n1", "n2"]
    code, answer = await client("POST", f"{path}/bindings", {**body, "metadata": {"name": "none"}})
    assert (code, answer["message"]) == (404, 'pods "none" not found')


@pytest.mark.parametrize(
    ("plural", "field"), [("secrets", "data"), ("configmaps", "binaryData"), ("configmaps", "data")]
)
async def test_a_value_left_empty_is_empty(client: Any, plural: str, field: str) -> None:
    path = f"/api/v1/namespaces/default/{plural}"
    code, made = await client("POST", path, {"metadata": {"name": "e"}, field: {"a": None}})
    assert (code, made[field]) == (201, {"a": ""})
