"""No request holds up others: while the server works on a hostile one, a neighbour is answered.

The server is a process of its own, the neighbour a user with a connection of its own, both as in an installation.
"""

from __future__ import annotations

import http.client
import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.fleet import until_equal
from tests.support.apiserver_process import ANSWERS_BESIDE, ServerProcess

YAML, PROTOBUF = "application/yaml", "application/vnd.kubernetes.protobuf"
MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
JSON_PATCH, APPLY = "application/json-patch+json", "application/apply-patch+yaml"
MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CONTAINERS = 15_000
THINGS = "/apis/hostile.example.io/v1/namespaces/default/things"


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A running server with one kind defined."""
    found = ServerProcess(tmp_path_factory.mktemp("hostile"), CONTROLLERS="0")
    code, answer = found.send("POST", DEFINITIONS, definition("things"), user="root")
    assert code == 201, answer
    await_served(found, THINGS)
    yield found
    assert found.stop() == 0
    assert "Traceback" not in found.log()


def await_served(target: ServerProcess, path: str) -> None:
    """Wait until a collection is there."""
    until_equal(f"{path} is served", lambda: target.send("GET", path, user="root")[0], 200)


def definition(plural: str, schema: Any = None) -> Any:
    """A CustomResourceDefinition."""
    kind = plural[:-1].capitalize()
    names = {"plural": plural, "singular": plural[:-1], "kind": kind, "listKind": f"{kind}List"}
    shape = schema or {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": shape}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.hostile.example.io"},
        "spec": {"group": "hostile.example.io", "scope": "Namespaced", "names": names, "versions": [version]},
    }


def nested(levels: int, leaf: Any = "x") -> Any:
    """Maps within each other."""
    for _ in range(levels):
        leaf = {"a": leaf}
    return leaf


def schema_of(levels: int) -> Any:
    """A schema of maps within each other."""
    shape: Any = {"type": "string"}
    for _ in range(levels):
        shape = {"type": "object", "properties": {"a": shape}}
    return shape


def config(name: str, **rest: Any) -> Any:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, **rest}


def thing(name: str, **rest: Any) -> Any:
    return {"apiVersion": "hostile.example.io/v1", "kind": "Thing", "metadata": {"name": name}, **rest}


def pod(name: str, containers: int, image: str = "i") -> Any:
    """A pod with many containers."""
    made = [{"name": f"c{number}", "image": image} for number in range(containers)]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": made}}


def bomb() -> bytes:
    """Nine aliases of nine aliases, seven times."""
    lines = [b"apiVersion: v1", b"kind: ConfigMap", b"metadata: {name: bomb}", b"x0: &x0 [y,y,y,y,y,y,y,y,y]"]
    for number in range(1, 8):
        inner = b",".join([b"*x%d" % (number - 1)] * 9)
        lines.append(b"x%d: &x%d [%s]" % (number, number, inner))
    return b"\n".join(lines)


HEAD = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: "
DEEP = b"[" * 100_000
MANY = b"[" + b",".join([b"{}"] * 900_000) + b"]"
REFUSED: list[Any] = [
    pytest.param("POST", MAPS, DEEP, YAML, 400, "nested deeper", id="yaml-flow"),
    pytest.param("POST", MAPS, HEAD + DEEP, YAML, 400, "nested deeper", id="yaml-flow-inside"),
    pytest.param("POST", MAPS, b"- " * 20_000, YAML, 400, "nested deeper", id="yaml-blocks"),
    pytest.param("POST", MAPS, DEEP + b"]" * 100_000, "application/json", 400, "nested deeper", id="json-deep"),
    pytest.param("POST", MAPS, b'{"a":' * 900 + b"1" + b"}" * 900, "application/json", 400, "nested", id="json-900"),
    pytest.param("POST", MAPS, HEAD + b"&a [*a]", YAML, 400, "inside of itself", id="yaml-loop"),
    pytest.param("POST", MAPS, bomb(), YAML, 400, "aliases", id="yaml-bomb"),
    pytest.param("POST", MAPS, HEAD + b"{}\nx:\n" + b"- y\n" * 600_000, YAML, 400, "more than", id="yaml-many"),
    pytest.param("POST", MAPS, MANY, "application/json", 413, "more than", id="json-many"),
    pytest.param("POST", MAPS, b"k8s\0" + b"\0" * 3_000_000, PROTOBUF, 400, "number 0", id="protobuf-zeros"),
    pytest.param("POST", MAPS, b"k8s\0" + b"\x18\x01" * 1_300_000, PROTOBUF, 413, "more than", id="protobuf-many"),
    pytest.param("POST", MAPS, b" " * 9_000_000, "application/json", 413, "limit", id="too-large"),
    pytest.param("POST", MAPS, b'{"a":' + b"9" * 1_000_000 + b"}", "application/json", 400, "", id="digits"),
    pytest.param("PATCH", "/api/v1/namespaces/default", nested(5000), MERGE, 400, "nested deeper", id="merge-deep"),
    pytest.param("PATCH", "/api/v1/namespaces/default", nested(900), STRATEGIC, 400, "nested", id="strategic-deep"),
    pytest.param("POST", THINGS, thing("deep", spec=nested(800)), "application/json", 400, "nested", id="custom-deep"),
    pytest.param(
        "PATCH", f"{THINGS}/d?fieldManager=m", thing("d", spec=nested(800)), APPLY, 400, "nested", id="apply-deep"
    ),
    pytest.param("POST", DEFINITIONS, definition("deeps", schema_of(240)), "application/json", 400, "nested", id="crd"),
    pytest.param("GET", f"{MAPS}?limit=99999999999999999999", None, "", 400, "out of range", id="limit"),
    pytest.param("GET", f"{MAPS}?timeoutSeconds={'9' * 20}", None, "", 400, "out of range", id="timeout-seconds"),
    pytest.param("GET", f"{MAPS}?limit={'9' * 6000}", None, "", 400, "out of range", id="limit-of-6000-digits"),
    pytest.param("GET", f"{MAPS}?timeout=soon", None, "", 400, "invalid timeout", id="timeout"),
    pytest.param("POST", MAPS, config("t"), ";;;", 415, "unknown format", id="media-type"),
]


@pytest.mark.parametrize(("method", "path", "body", "media", "code", "text"), REFUSED)
def test_hostile_bodies_are_refused_at_once(
    target: ServerProcess, method: str, path: str, body: Any, media: str, code: int, text: str
) -> None:
    raw = body if isinstance(body, bytes) or body is None else _encoded(body)
    with target.neighbour():
        found, answer = target.send(method, path, raw, media)
    assert (found, answer["kind"]) == (code, "Status")
    assert text in answer["message"]


def _encoded(value: Any) -> bytes:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(50_000)
    try:
        return json.dumps(value).encode()
    finally:
        sys.setrecursionlimit(before)


def test_documents_as_deep_as_objects_get_are_taken(target: ServerProcess) -> None:
    assert target.send("POST", THINGS, thing("deep-enough", spec=nested(290)))[0] == 201
    assert target.send("PATCH", f"{THINGS}/deep-enough", {"spec": nested(290, 2)}, MERGE)[0] == 200
    body = json.dumps(thing("deep-enough", spec=nested(250, 3))).encode()
    assert target.send("PATCH", f"{THINGS}/deep-enough?fieldManager=m&force=true", body, APPLY)[0] == 200
    assert target.send("GET", THINGS, None, Accept=YAML)[0] == 200
    assert target.send("POST", DEFINITIONS, definition("nesteds", schema_of(120)))[0] == 201


def test_patches_cannot_nest_deeper_than_bodies(target: ServerProcess) -> None:
    assert target.send("POST", THINGS, thing("grown", spec=nested(150, {})))[0] == 201
    place = "/spec" + "/a" * 150 + "/b"
    with target.neighbour():
        code, answer = target.send(
            "PATCH", f"{THINGS}/grown", [{"op": "add", "path": place, "value": nested(200)}], JSON_PATCH
        )
    assert (code, answer["message"]) == (400, "the document is nested deeper than 300 levels")


def test_large_objects_hold_up_no_neighbour(target: ServerProcess) -> None:
    images = [{"name": f"c{number}", "image": "j"} for number in range(CONTAINERS)]
    requests = [
        ("POST", PODS, pod("large", CONTAINERS), "application/json"),
        ("PATCH", f"{PODS}/large", {"metadata": {"labels": {"a": "b"}}}, MERGE),
        ("PATCH", f"{PODS}/large", {"spec": {"containers": images}}, STRATEGIC),
    ]
    with target.neighbour() as neighbour:
        for method, path, body, media in requests:
            code, answered = target.send_beside(neighbour, method, path, json.dumps(body).encode(), media)
            assert code in (200, 201, 504)
            assert answered >= ANSWERS_BESIDE, method


def test_large_yaml_is_read_and_written_aside(target: ServerProcess) -> None:
    data = "".join(f"  key{number}: value\n" for number in range(12_000))
    text = f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: long\ndata:\n{data}".encode()
    with target.neighbour() as neighbour:
        code, answered = target.send_beside(neighbour, "POST", MAPS, text, YAML)
        assert code == 201
        assert answered >= ANSWERS_BESIDE
        code, answer = target.send("GET", f"{MAPS}/long", Accept=YAML)
    assert code == 200
    assert b"key11999: value" in answer


def test_large_schemas_hold_up_no_neighbour(target: ServerProcess) -> None:
    fields = {
        f"field{number}": {"type": "object", "properties": {"a": {"type": "string", "maxLength": 5}}}
        for number in range(12_000)
    }
    wide = {"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}}
    body = json.dumps(definition("wides", wide)).encode()
    with target.neighbour() as neighbour:
        code, answered = target.send_beside(neighbour, "POST", DEFINITIONS, body)
        assert code == 201
        assert answered >= ANSWERS_BESIDE
        await_served(target, "/apis/hostile.example.io/v1/namespaces/default/wides")
        wide_one = {"apiVersion": "hostile.example.io/v1", "kind": "Wide", "metadata": {"name": "w"}, "spec": {}}
        code, answer = target.send("POST", "/apis/hostile.example.io/v1/namespaces/default/wides", wide_one)
        assert code == 201, answer


def test_odd_headers_are_refused_without_a_trace(target: ServerProcess) -> None:
    for name in ("Authorization", "User-Agent", "Accept", "Content-Type", "X-Odd", "Impersonate-User"):
        code, answer = target.send("GET", MAPS, None, "", **{name: "t\u00e9\u00ff"})
        assert code < 500, (name, answer)
        assert "Traceback" not in str(answer)
    connection = http.client.HTTPConnection("127.0.0.1", target.port, timeout=60)
    connection.request("GET", "/version", headers={"Authorization": "Bearer mallory"})
    server = connection.getresponse().getheader("Server", "")
    connection.close()
    assert "aiohttp" not in server
    assert "Python" not in server
