"""Bad requests over HTTP: refused with the place of what is wrong in them, and they harm nothing."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.apiserver.core_objects import APPLY, CM, DEPLOY, MERGE, config, deployment


async def test_unknown_fields_are_dropped_warned_about_or_refused(client: Any) -> None:
    body = config("a") | {"unknown": 1}
    code, status = await client("POST", f"{CM}?fieldValidation=Strict", body)
    assert code == 400
    assert 'unknown field "unknown"' in status["message"]
    for name, query, texts in (
        ("warned", "?fieldValidation=Warn", ['299 - "unknown field \\"unknown\\""']),
        ("said_nothing", "", ['299 - "unknown field \\"unknown\\""']),
        ("ignored", "?fieldValidation=Ignore", []),
    ):
        sent = body | {"metadata": {"name": name.replace("_", "-")}}
        async with client.session.post(f"{client.server.url}{CM}{query}", json=sent) as response:
            assert response.status == 201
            assert response.headers.getall("Warning", []) == texts
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
    code, answer = await client("PATCH", f"{CM}/o?{query}", {"data": {}}, media=MERGE)
    assert (code, text in answer["message"]) == (422, True)


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
    code, answer = await client("PATCH", f"{DEPLOY}/a/scale", body, media=MERGE)
    assert (code, answer["details"]["causes"][0]["field"]) == (422, "patch")
    assert 'Scale in version "v1" cannot be handled as a Scale: ' in answer["message"]
    for text in ("[1]", '"x"', "-1"):
        code, answer = await client("PATCH", f"{DEPLOY}/a/scale?fieldManager=m", text, media=APPLY)
        assert code in (400, 422)
        assert "an object was expected" in answer["message"] or answer["message"] == "Invalid JSON Patch"


@pytest.mark.parametrize("metadata", [-1, "x", [{}], 1.5])
async def test_an_applied_document_without_metadata_is_refused(client: Any, metadata: Any) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    for name in ("new", "there"):
        if name == "there":
            await client("POST", CM, config(name))
        code, answer = await client("PATCH", f"{CM}/{name}?fieldManager=m", body, media=APPLY)
        assert code in (400, 500)
        assert answer["message"].startswith("failed to create typed patch object")


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({"gracePeriodSeconds": "x"}, "v1.DeleteOptions.GracePeriodSeconds: readUint64: unexpected character"),
        ({"preconditions": {"uid": 3}}, "v1.DeleteOptions.Preconditions: v1.Preconditions.UID: ReadString: expects"),
        ({"dryRun": "All"}, "v1.DeleteOptions.DryRun: []string: decode slice: expect [ or n"),
    ],
)
async def test_deletion_options_of_wrong_type_are_refused(client: Any, body: dict[str, Any], place: str) -> None:
    await client("POST", CM, config("a"))
    code, answer = await client("DELETE", f"{CM}/a", {"kind": "DeleteOptions", "apiVersion": "v1", **body})
    assert code == 400
    assert answer["message"].startswith(place)
    assert (await client("GET", f"{CM}/a"))[0] == 200


async def test_metadata_of_the_server_is_not_taken_from_clients(client: Any) -> None:
    metadata = {"name": "own", "clusterName": "c", "selfLink": "/x", "resourceVersion": "abc"}
    code, made = await client("POST", CM, {"metadata": metadata})
    assert (code, {"clusterName", "selfLink"} & made["metadata"].keys()) == (201, set())
    assert made["metadata"]["resourceVersion"].isdigit()


async def test_an_eviction_names_its_pod(client: Any) -> None:
    path = "/api/v1/namespaces/default/pods"
    await client("POST", path, {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
    for metadata in ({}, {"name": "q"}):
        code, answer = await client("POST", f"{path}/p/eviction", {"metadata": metadata})
        assert (code, answer["message"]) == (400, "name in URL does not match name in Eviction object")


async def test_an_eviction_of_the_wrong_type_is_refused_with_its_place(client: Any) -> None:
    path = "/api/v1/namespaces/default/pods"
    await client("POST", path, {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
    body = {"metadata": {"name": "p"}, "deleteOptions": {"gracePeriodSeconds": "x"}}
    code, answer = await client("POST", f"{path}/p/eviction", body)
    assert code == 400
    assert "Eviction.DeleteOptions: v1.DeleteOptions.GracePeriodSeconds: readUint64" in answer["message"]


async def test_broken_bodies_are_answered_and_harm_nothing(client: Any) -> None:
    for body in (b"", b"{", b"[]", b"null", b"5", b'{"metadata":5}', b'{"metadata":{"labels":[]}}', b"\xff\xfe"):
        code, status = await client("POST", CM, body)
        assert 400 <= code < 500, (body, status)
    for path in ("/api/v1/%zz", "/apis//", "/api/v1/namespaces//configmaps", "/nope", "/apis/x/y/z"):
        assert (await client("GET", path))[0] < 500
    assert (await client("GET", "/healthz"))[0] == 200
