"""The verbs over HTTP: creating, changing and deleting objects as kubectl and clients do."""

import asyncio
import json
from typing import Any

import pytest

from services.apiserver.server import ApiServer
from services.apiserver.store import StoreUnavailable

CM = "/api/v1/namespaces/default/configmaps"
APPLY = "application/apply-patch+yaml"
DEPLOY = "/apis/apps/v1/namespaces/default/deployments"


def config(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def deployment(name: str, replicas: int = 1) -> dict[str, Any]:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


async def test_create_get_replace_delete(client: Any) -> None:
    code, made = await client("POST", CM, config("a", x="1"))
    assert code == 201
    assert made["metadata"]["uid"]
    assert made["metadata"]["namespace"] == "default"
    made["data"]["x"] = "2"
    code, replaced = await client("PUT", f"{CM}/a", made)
    assert (code, replaced["data"]) == (200, {"x": "2"})
    assert int(replaced["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])
    code, status = await client("PUT", f"{CM}/a", made)
    assert (code, status["reason"]) == (409, "Conflict")
    code, answer = await client("DELETE", f"{CM}/a")
    assert (code, answer["status"], answer["details"]["uid"]) == (200, "Success", made["metadata"]["uid"])
    code, status = await client("GET", f"{CM}/a")
    assert (code, status["reason"], status["details"]) == (404, "NotFound", {"name": "a", "kind": "configmaps"})


async def test_a_write_that_changes_nothing_is_not_a_write(client: Any, server: ApiServer) -> None:
    _, made = await client("POST", DEPLOY, deployment("d"))
    revision, writes = server.store.revision, server.audit.writes
    for _ in range(2):
        assert (await client("PUT", f"{DEPLOY}/d", made))[1]["metadata"] == made["metadata"]
    merge = "application/merge-patch+json"
    code, same = await client("PATCH", f"{DEPLOY}/d", {"spec": {"replicas": 1}}, media=merge)
    assert (code, same["metadata"]["resourceVersion"]) == (200, made["metadata"]["resourceVersion"])
    await client("PATCH", f"{DEPLOY}/d/status", {"status": {}}, media=merge)
    assert (server.store.revision, server.audit.writes) == (revision, writes)


async def test_the_audit_log_names_writer_object_and_change(client: Any, server: ApiServer) -> None:
    await client("POST", CM, config("a", x="1"), User_Agent="tester/1")
    await client("PATCH", f"{CM}/a", {"data": {"x": "2"}}, media="application/merge-patch+json")
    await client("DELETE", f"{CM}/a")
    assert server.settings.audit_log is not None
    lines = [json.loads(line) for line in server.settings.audit_log.read_text().splitlines()]
    found = [r for r in lines if r["resource"] == "configmaps" and r["name"] == "a"]
    assert [(r["verb"], r["user"], r["changed"]) for r in found] == [
        ("create", "admin", True),
        ("patch", "admin", True),
        ("delete", "admin", True),
    ]
    assert found[0]["manager"] == "tester"


async def test_concurrent_patches_without_a_revision_all_succeed(client: Any) -> None:
    await client("POST", CM, config("a"))
    merge = "application/merge-patch+json"
    results = await asyncio.gather(
        *(client("PATCH", f"{CM}/a", {"data": {f"k{i}": "v"}}, media=merge) for i in range(40))
    )
    assert {code for code, _ in results} == {200}
    assert len((await client("GET", f"{CM}/a"))[1]["data"]) == 40


@pytest.mark.parametrize(
    ("media", "patch", "expected"),
    [
        ("application/json-patch+json", [{"op": "add", "path": "/data/y", "value": "2"}], {"x": "1", "y": "2"}),
        ("application/merge-patch+json", {"data": {"x": None, "y": "2"}}, {"y": "2"}),
        ("application/strategic-merge-patch+json", {"data": {"y": "2"}}, {"x": "1", "y": "2"}),
    ],
)
async def test_patch_formats(client: Any, media: str, patch: Any, expected: dict[str, str]) -> None:
    await client("POST", CM, config("a", x="1"))
    code, new = await client("PATCH", f"{CM}/a", patch, media=media)
    assert (code, new["data"]) == (200, expected)


async def test_status_and_spec_are_written_apart(client: Any) -> None:
    await client("POST", DEPLOY, deployment("d"))
    merge = "application/merge-patch+json"
    body = {"spec": {"replicas": 7}, "status": {"replicas": 3, "observedGeneration": 1}}
    _, by_status = await client("PATCH", f"{DEPLOY}/d/status", body, media=merge)
    assert (by_status["spec"]["replicas"], by_status["status"]["replicas"]) == (1, 3)
    assert by_status["metadata"]["generation"] == 1
    body["status"]["replicas"] = 5
    _, by_main = await client("PATCH", f"{DEPLOY}/d", body, media=merge)
    assert (by_main["spec"]["replicas"], by_main["status"]["replicas"]) == (7, 3)
    assert by_main["metadata"]["generation"] == 2


async def test_scale(client: Any) -> None:
    await client("POST", DEPLOY, deployment("d", 2))
    _, scale = await client("GET", f"{DEPLOY}/d/scale")
    assert (scale["kind"], scale["spec"], scale["status"]["selector"]) == ("Scale", {"replicas": 2}, "a=b")
    scale["spec"]["replicas"] = 5
    assert (await client("PUT", f"{DEPLOY}/d/scale", scale))[1]["spec"] == {"replicas": 5}
    code, status = await client("PUT", f"{DEPLOY}/d/scale", scale)
    assert (code, status["reason"]) == (409, "Conflict")
    assert (await client("GET", f"{DEPLOY}/d"))[1]["spec"]["replicas"] == 5


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({"spec": "x"}, "v1.Scale.Spec: readObjectStart: expect { or n, but found"),
        ({"metadata": [None]}, "v1.Scale.ObjectMeta: v1.ObjectMeta.readObjectStart"),
        ({"spec": {"replicas": "x"}}, "v1.Scale.Spec: v1.ScaleSpec.Replicas: readUint32: unexpected character"),
    ],
)
async def test_a_scale_of_the_wrong_shape_is_refused_with_its_place(client: Any, body: Any, place: str) -> None:
    await client("POST", DEPLOY, deployment("a"))
    code, answer = await client("PUT", f"{DEPLOY}/a/scale", {"kind": "Scale", "apiVersion": "autoscaling/v1", **body})
    assert code == 400
    assert place.partition(":")[0] in answer["message"]
    code, answer = await client("PATCH", f"{DEPLOY}/a/scale", body, media="application/merge-patch+json")
    assert code == 400
    assert answer["message"].startswith('Scale in version "v1" cannot be handled as a Scale: ')
    for text in ("[1]", '"x"', "-1"):
        code, answer = await client("PATCH", f"{DEPLOY}/a/scale?fieldManager=m", text, media=APPLY)
        assert code in (400, 500)
        assert answer["message"].startswith(("json: cannot unmarshal", "Invalid JSON Patch"))


async def test_dry_run_writes_nothing(client: Any, server: ApiServer) -> None:
    before = server.store.revision
    code, made = await client("POST", f"{CM}?dryRun=All", config("a"))
    assert (code, "resourceVersion" in made["metadata"]) == (201, False)
    assert (await client("GET", f"{CM}/a"))[0] == 404
    assert server.store.revision == before
    code, status = await client("POST", f"{CM}?dryRun=Some", config("a"))
    assert (code, status["reason"]) == (422, "Invalid")


async def test_unknown_fields_are_dropped_warned_about_or_refused(client: Any) -> None:
    body = config("a") | {"unknown": 1}
    code, status = await client("POST", f"{CM}?fieldValidation=Strict", body)
    assert code == 400
    assert 'unknown field "unknown"' in status["message"]
    url = f"{client.server.url}{CM}?fieldValidation=Warn"
    async with client.session.post(url, json=body) as response:
        assert response.status == 201
        assert response.headers["Warning"] == '299 - "unknown field \\"unknown\\""'
        assert "unknown" not in await response.json()


async def test_fields_given_twice_are_refused_or_warned_about(client: Any) -> None:
    body = '{"metadata":{"name":"d","name":"d"},"data":{"a":"1","a":"2"},"x":[{"y":1},{"y":1,"y":2,"y":3}]}'
    code, answer = await client("POST", f"{CM}?fieldValidation=Strict", body)
    assert code == 400
    for path in ("metadata.name", "data.a", "x[1].y"):
        assert answer["message"].count(f'duplicate field "{path}"') == 1
    code, made = await client("POST", f"{CM}?fieldValidation=Warn", body)
    assert (code, made["data"]) == (201, {"a": "2"})


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("fieldValidation=Odd", 'fieldValidation: Unsupported value: "Odd"'),
        ("fieldManager=a%0Ab", "invalid character U+000A (at position 1)"),
        (f"fieldManager={'a' * 129}", "fieldManager: Too long: must have at most 128 bytes"),
    ],
)
async def test_options_of_writes_are_checked(client: Any, query: str, text: str) -> None:
    code, answer = await client("POST", f"{CM}?{query}", config("o"))
    assert code == 422
    assert answer["message"].startswith('CreateOptions.meta.k8s.io "" is invalid')
    assert text in answer["message"]
    code, answer = await client("PATCH", f"{CM}/o?{query}", {"data": {}}, media="application/merge-patch+json")
    assert (code, text in answer["message"]) == (422, True)


async def test_generate_name_gives_distinct_names(client: Any) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "x-"}}
    names = {(await client("POST", CM, body))[1]["metadata"]["name"] for _ in range(20)}
    assert len(names) == 20
    assert all(n.startswith("x-") and len(n) == 7 for n in names)


async def test_pages_show_one_snapshot(client: Any) -> None:
    for name in "abcde":
        await client("POST", f"{CM}", config(name) | {"metadata": {"name": name, "labels": {"t": "1"}}})
    query = "?labelSelector=t%3D1&limit=2"
    _, first = await client("GET", CM + query)
    await client("DELETE", f"{CM}/d")
    await client("POST", CM, config("cc") | {"metadata": {"name": "cc", "labels": {"t": "1"}}})
    _, second = await client("GET", f"{CM}{query}&continue={first['metadata']['continue']}")
    _, third = await client("GET", f"{CM}{query}&continue={second['metadata']['continue']}")
    names = [i["metadata"]["name"] for page in (first, second, third) for i in page["items"]]
    assert names == ["a", "b", "c", "d", "e"]
    assert len({p["metadata"]["resourceVersion"] for p in (first, second, third)}) == 1
    assert "continue" not in third["metadata"]


async def test_finalizers_keep_an_object_until_they_are_gone(client: Any) -> None:
    body = config("a") | {"metadata": {"name": "a", "finalizers": ["x.example.com/f"]}}
    await client("POST", CM, body)
    code, left = await client("DELETE", f"{CM}/a")
    assert (code, left["kind"], bool(left["metadata"]["deletionTimestamp"])) == (200, "ConfigMap", True)
    revision = left["metadata"]["resourceVersion"]
    assert (await client("DELETE", f"{CM}/a"))[1]["metadata"]["resourceVersion"] == revision
    merge = "application/merge-patch+json"
    assert (await client("PATCH", f"{CM}/a", {"metadata": {"finalizers": None}}, media=merge))[0] == 200
    assert (await client("GET", f"{CM}/a"))[0] == 404


async def until_gone(client: Any, path: str) -> None:
    for _ in range(1000):
        if (await client("GET", path))[0] == 404:
            return
        await asyncio.sleep(0.005)
    raise AssertionError(f"{path} is still there")


async def test_a_namespace_is_found_by_a_label_with_its_name(client: Any) -> None:
    path = "/api/v1/namespaces"
    _, made = await client("POST", path, {"metadata": {"generateName": "n-"}})
    name = made["metadata"]["name"]
    assert made["metadata"]["labels"] == {"kubernetes.io/metadata.name": name}
    _, found = await client("GET", f"{path}?labelSelector=kubernetes.io/metadata.name={name}")
    assert [item["metadata"]["name"] for item in found["items"]] == [name]
    _, new = await client("PUT", f"{path}/{name}", {"metadata": {"name": name, "labels": {"a": "b"}}})
    assert new["metadata"]["labels"] == {"a": "b", "kubernetes.io/metadata.name": name}


async def test_a_deleted_namespace_takes_its_content_along(client: Any) -> None:
    await client("POST", "/api/v1/namespaces", {"metadata": {"name": "gone"}})
    held = config("held") | {"metadata": {"name": "held", "finalizers": ["x.example.com/f"]}}
    await client("POST", "/api/v1/namespaces/gone/configmaps", held)
    await client("POST", "/api/v1/namespaces/gone/configmaps", config("free"))
    assert (await client("DELETE", "/api/v1/namespaces/gone"))[1]["status"]["phase"] == "Terminating"
    await until_gone(client, "/api/v1/namespaces/gone/configmaps/free")
    code, status = await client("POST", "/api/v1/namespaces/gone/configmaps", config("new"))
    assert (code, status["details"]["causes"][0]["reason"]) == (403, "NamespaceTerminating")
    assert (await client("GET", "/api/v1/namespaces/gone"))[0] == 200
    merge = "application/merge-patch+json"
    path = "/api/v1/namespaces/gone/configmaps/held"
    await client("PATCH", path, {"metadata": {"finalizers": None}}, media=merge)
    await until_gone(client, "/api/v1/namespaces/gone")


@pytest.mark.parametrize("policy", ["Background", "Foreground"])
async def test_dependents_go_with_their_owner(client: Any, policy: str) -> None:
    _, owner = await client("POST", CM, config("owner"))
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    meta = {"name": "child", "ownerReferences": [reference | {"blockOwnerDeletion": True}]}
    await client("POST", CM, config("child") | {"metadata": meta})
    await client("DELETE", f"{CM}/owner", {"propagationPolicy": policy})
    await until_gone(client, f"{CM}/child")
    await until_gone(client, f"{CM}/owner")


async def test_orphaned_dependents_stay_without_the_reference(client: Any) -> None:
    _, owner = await client("POST", CM, config("owner"))
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    await client("POST", CM, config("child") | {"metadata": {"name": "child", "ownerReferences": [reference]}})
    await client("DELETE", f"{CM}/owner", {"propagationPolicy": "Orphan"})
    await until_gone(client, f"{CM}/owner")
    code, child = await client("GET", f"{CM}/child")
    assert (code, "ownerReferences" in child["metadata"]) == (200, False)


async def test_a_dependent_of_an_owner_that_never_was_is_collected(client: Any) -> None:
    uid = "11111111-1111-1111-1111-111111111111"
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}
    await client("POST", CM, config("child") | {"metadata": {"name": "child", "ownerReferences": [reference]}})
    await until_gone(client, f"{CM}/child")


async def test_a_definition_serves_its_objects_and_takes_them_along(client: Any) -> None:
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"n": {"type": "integer"}}}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "gears", "kind": "Gear"}
    spec = {"group": "g.example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert (await client("POST", crds, {"metadata": {"name": "gears.g.example.com"}, "spec": spec}))[0] == 201
    gears = "/apis/g.example.com/v1/namespaces/default/gears"
    for _ in range(1000):
        if (await client("GET", gears))[0] == 200:
            break
        await asyncio.sleep(0.005)
    body = {"apiVersion": "g.example.com/v1", "kind": "Gear", "metadata": {"name": "a"}, "spec": {"n": 1}}
    assert (await client("POST", gears, body))[0] == 201
    bad = body | {"metadata": {"name": "b"}, "spec": {"n": "x"}}
    code, status = await client("POST", gears, bad)
    assert (code, status["details"]["causes"][0]["field"]) == (422, "spec.n")
    await client("DELETE", f"{crds}/gears.g.example.com")
    await until_gone(client, f"{crds}/gears.g.example.com")
    assert (await client("GET", gears))[0] == 404


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


async def test_a_pod_is_bound_to_a_node_by_either_path(client: Any) -> None:
    path = "/api/v1/namespaces/default"
    spec = {"containers": [{"name": "c", "image": "i"}]}
    for name in ("one", "two"):
        await client("POST", f"{path}/pods", {"metadata": {"name": name}, "spec": spec})
    code, answer = await client("POST", f"{path}/pods/one/binding", {"target": {"kind": "Pod", "name": "n"}})
    assert (code, answer["details"]["causes"][0]["field"]) == (422, "target.kind")
    body = {"metadata": {"name": "two"}, "target": {"kind": "Node", "name": "n2"}}
    assert (await client("POST", f"{path}/pods/one/binding", {"target": {"name": "n1"}}))[0] == 201
    assert (await client("POST", f"{path}/bindings", body))[0] == 201
    nodes = [(await client("GET", f"{path}/pods/{name}"))[1]["spec"]["nodeName"] for name in ("one", "two")]
    assert nodes == ["n1", "n2"]
    code, answer = await client("POST", f"{path}/bindings", {**body, "metadata": {"name": "none"}})
    assert (code, answer["message"]) == (404, 'pods "none" not found')


async def test_a_definition_with_rules_says_that_they_are_not_evaluated(client: Any) -> None:
    schema = {"type": "object", "x-kubernetes-validations": [{"rule": "true"}]}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "as", "kind": "A"}
    body = {"metadata": {"name": "as.x.io"}, "spec": {"group": "x.io", "scope": "Cluster", "names": names}}
    body["spec"]["versions"] = [version]
    url = f"{client.server.url}/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    async with client.session.post(url, json=body) as response:
        assert response.status == 201
        assert "are kept but not evaluated" in response.headers["Warning"]


@pytest.mark.parametrize(
    ("plural", "field"), [("secrets", "data"), ("configmaps", "binaryData"), ("configmaps", "data")]
)
async def test_a_value_left_empty_is_empty(client: Any, plural: str, field: str) -> None:
    path = f"/api/v1/namespaces/default/{plural}"
    code, made = await client("POST", path, {"metadata": {"name": "e"}, field: {"a": None}})
    assert (code, made[field]) == (201, {"a": ""})


@pytest.mark.parametrize("metadata", [-1, "x", [{}], 1.5])
async def test_an_applied_document_without_metadata_is_refused(client: Any, metadata: Any) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    for name in ("new", "there"):
        if name == "there":
            await client("POST", CM, config(name))
        code, answer = await client("PATCH", f"{CM}/{name}?fieldManager=m", body, media=APPLY)
        assert code in (400, 500)
        assert answer["message"].startswith("failed to create typed patch object")


async def test_a_service_that_loses_its_address_is_told_both_fields(client: Any) -> None:
    path = "/api/v1/namespaces/default/services"
    _, made = await client("POST", path, {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}})
    spec = {k: v for k, v in made["spec"].items() if k != "clusterIPs"}
    code, answer = await client("PUT", f"{path}/s", {**made, "spec": {**spec, "clusterIP": "None"}})
    assert code == 422
    assert {c["field"] for c in answer["details"]["causes"]} == {"spec.clusterIPs", "spec.clusterIPs[0]"}


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({"gracePeriodSeconds": "x"}, "v1.DeleteOptions.GracePeriodSeconds: readUint64: unexpected character"),
        ({"preconditions": {"uid": 3}}, "v1.DeleteOptions.Preconditions: v1.Preconditions.UID: ReadString: expects"),
        ({"dryRun": "All"}, "v1.DeleteOptions.DryRun: []string: decode slice: expect [ or n"),
    ],
)
async def test_deletion_options_of_the_wrong_type_are_refused_with_their_place(
    client: Any, body: dict[str, Any], place: str
) -> None:
    await client("POST", CM, config("a"))
    code, answer = await client("DELETE", f"{CM}/a", {"kind": "DeleteOptions", "apiVersion": "v1", **body})
    assert code == 500
    assert answer["message"].startswith(place)
    assert (await client("GET", f"{CM}/a"))[0] == 200


async def test_an_eviction_of_the_wrong_type_is_refused_with_its_place(client: Any) -> None:
    path = "/api/v1/namespaces/default/pods"
    await client("POST", path, {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
    body = {"metadata": {"name": "p"}, "deleteOptions": {"gracePeriodSeconds": "x"}}
    code, answer = await client("POST", f"{path}/p/eviction", body)
    assert code == 400
    assert "Eviction.DeleteOptions: v1.DeleteOptions.GracePeriodSeconds: readUint64" in answer["message"]


async def test_a_protobuf_body_is_read_and_answered_in_json(client: Any) -> None:
    # A Namespace named "pb", as client-go encodes it.
    head = b'k8s\x00\n\x0f\n\x02v1\x12\tNamespace\x12\x1a\n\x12\n\x02pb\x12\x00\x1a\x00"\x00*\x002\x008\x00B\x00'
    raw = head + b'\x12\x00\x1a\x02\n\x00\x1a\x00"\x00'
    code, made = await client("POST", "/api/v1/namespaces", raw, media="application/vnd.kubernetes.protobuf")
    assert (code, made["metadata"]["name"], made["status"]) == (201, "pb", {"phase": "Active"})
    code, status = await client("POST", "/api/v1/namespaces", b"nonsense", media="application/vnd.kubernetes.protobuf")
    assert (code, status["reason"]) == (400, "BadRequest")


async def test_broken_bodies_are_answered_and_harm_nothing(client: Any) -> None:
    for body in (b"", b"{", b"[]", b"null", b"5", b'{"metadata":5}', b'{"metadata":{"labels":[]}}', b"\xff\xfe"):
        code, status = await client("POST", CM, body)
        assert 400 <= code < 500, (body, status)
    for path in ("/api/v1/%zz", "/apis//", "/api/v1/namespaces//configmaps", "/nope", "/apis/x/y/z"):
        assert (await client("GET", path))[0] < 500
    assert (await client("GET", "/healthz"))[0] == 200


async def test_a_deletion_that_the_store_broke_off_is_finished_by_the_next_one(
    client: Any, server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    pods = "/api/v1/namespaces/default/pods"
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}], "nodeName": "n"}}
    code, made = await client("POST", pods, {"apiVersion": "v1", "kind": "Pod", **pod})
    assert code == 201, made

    async def unavailable(*_: object) -> None:
        raise StoreUnavailable("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(server.store, "delete", unavailable)
        code, _ = await client("DELETE", f"{pods}/p?gracePeriodSeconds=0")
        assert code == 503
    code, left = await client("GET", f"{pods}/p")
    assert (code, left["metadata"]["deletionGracePeriodSeconds"]) == (200, 0)
    await client("DELETE", f"{pods}/p?gracePeriodSeconds=0")
    assert (await client("GET", f"{pods}/p"))[0] == 404
