"""What is no review, too large, too deep, too slow or too much is answered with a sentence, and others go on."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest

from services._rules import constants as const
from services._rules.admission import Context, Denied
from services._rules.admission.webhook_table import DELETION, HOOKS
from services._rules.admission.write_steps import Write
from tests.support.reviews import Caller, Known, patched, request_of, review, reviewing

PATH = "/mutate-propagationpolicy"
CHECK = "/validate-propagationpolicy"
SCRIPTS = "/validate-resourceinterpretercustomization"


def policy(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": const.POLICY_API,
        "kind": "PropagationPolicy",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap"}], **spec},
    }


def nested(depth: int) -> bytes:
    body = review(request_of("PropagationPolicy", "CREATE", policy(x=0), None, "shop"))
    return body.replace(b'"x":0', b'"x":' + b'{"a":' * depth + b"0" + b"}" * depth)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "no JSON"),
        (b"{", "no JSON"),
        (b"\xff\xfe", "no JSON"),
        (b"[]", "no AdmissionReview: Expected `object`"),
        (b"{}", "missing required field"),
        (b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}', "missing required field `request`"),
        (review({"uid": "1", "kind": {"kind": "PropagationPolicy"}}), "missing required field `operation`"),
        (
            review(request_of("PropagationPolicy", "CREATE", policy())).replace(b"io/v1", b"io/v1beta1"),
            "AdmissionReview of admission.k8s.io/v1beta1 is not answered here; send a AdmissionReview",
        ),
        (nested(100_000), "nested too deep"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_what_is_no_review_gets_400_and_a_sentence(caller: Caller, body: bytes, words: str) -> None:
    code, text = await caller.post(PATH, body)
    assert code == 400
    assert words in text.decode()
    assert (await caller.review(PATH, request_of("PropagationPolicy", "CREATE", policy(), None, "shop")))["allowed"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": {"kind": "Work", "version": "v1alpha1"}}, "answers for PropagationPolicy, not for Work"),
        ({"operation": "CONNECT"}, "CONNECT"),
        ({"object": None}, "request.object: Required value"),
        ({"object": {"metadata": {"labels": {"a": 1}}}}, "metadata.labels"),
        ({"object": {"metadata": []}}, "metadata"),
    ],
)
async def test_a_review_that_cannot_be_answered_is_denied(caller: Caller, change: dict[str, Any], words: str) -> None:
    request = request_of("PropagationPolicy", "CREATE", policy(), None, "shop") | change
    for path in (PATH, CHECK):
        answer = await caller.review(path, request)
        assert answer["allowed"] is False
        assert (answer["status"]["code"], answer["status"]["reason"]) == (400, "BadRequest")
        assert words in answer["status"]["message"]


async def test_each_path_answers_for_its_kind(caller: Caller) -> None:
    for path, hook in HOOKS.items():
        answer = await caller.review(path, request_of("Work" if hook.kind != "Work" else "Cluster", "CREATE", {}))
        if hook.kind != DELETION:
            assert f"answers for {hook.kind}, not for " in answer["status"]["message"]


async def test_an_installation_may_allow_taints_that_evict(tmp_path: Path) -> None:
    taints = [{"key": "a", "effect": "NoExecute"}]
    tainting = {"metadata": {"name": "t"}, "spec": {"taints": taints}}
    for allowed in (False, True):
        async with reviewing(tmp_path, Known(), Context(allow_no_execute_taint_policy=allowed)) as caller:
            stored, _ = await caller.admit("ClusterTaintPolicy", "CREATE", tainting)
        assert (stored is not None) is allowed


async def test_wrong_types_are_left_to_the_schema_and_refused(caller: Caller) -> None:
    wrong = policy(placement="x")
    request = request_of("PropagationPolicy", "CREATE", wrong, None, "shop")
    answer = await caller.review(PATH, request)
    assert (answer["allowed"], "patch" in answer) == (True, False)
    answer = await caller.review(CHECK, request)
    assert (answer["allowed"], answer["status"]["code"], answer["status"]["reason"]) == (False, 400, "BadRequest")
    assert "PropagationPolicy spec.placement" in answer["status"]["message"]
    work = {"metadata": {"name": "a"}, "spec": "x"}
    answer = await caller.review("/mutate-work", request_of("Work", "CREATE", work, None, "shop"))
    assert (answer["allowed"], answer["status"]["code"]) == (False, 400), "no later step checks it"


async def test_a_deep_object_is_answered(caller: Caller) -> None:
    code, body = await caller.post(PATH, nested(300))
    assert (code, b'"allowed":' in body) == (200, True)


async def test_bodies_are_bounded(tmp_path: Path) -> None:
    async with reviewing(tmp_path, Known(), max_body_bytes=1000) as caller:
        code, text = await caller.post(PATH, b" " * 2000)
        assert code == 400
        assert b"more than 1000 bytes; FLEETLOG_MAX_BODY_BYTES" in text


async def test_unknown_paths_and_methods_are_named(caller: Caller) -> None:
    code, text = await caller.post("/mutate-pods", b"{}")
    assert (code, b"fleetlog crds print" in text) == (404, True)
    async with caller._session.get(f"{caller.url}{PATH}", ssl=caller.trust) as response:
        assert response.status == 405


async def test_reviews_beyond_the_bound_are_turned_away(tmp_path: Path) -> None:
    """One that is never sent to its end takes the only place; when its caller goes, the place is free again."""
    async with reviewing(tmp_path, Known(), max_requests=1) as caller:
        port = urlsplit(caller.url).port
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=caller.trust)
        writer.write(f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n".encode())
        await writer.drain()
        body = review(request_of("PropagationPolicy", "CREATE", policy(), None, "shop"))
        async with asyncio.timeout(60):
            while (await caller.post(PATH, body))[0] != 429:
                continue
            writer.close()
            while (await caller.post(PATH, body))[0] != 200:
                continue


async def test_a_body_that_never_ends_is_given_up(caller: Caller) -> None:
    port = urlsplit(caller.url).port
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=caller.trust)
    writer.write(f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n".encode())
    async with asyncio.timeout(60):
        assert b"504" in await reader.readline()
    writer.close()


async def test_a_deleted_object_may_break_every_rule(caller: Caller) -> None:
    old = policy(preemption="Always")
    old["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a/b"]}
    new = policy(preemption="Always")
    assert (await caller.admit("PropagationPolicy", "UPDATE", new, old, "shop"))[0] == new


async def test_customizations_that_cannot_be_read_let_none_pass(caller: Caller, stored: Known) -> None:
    script = {
        "apiVersion": "config.karmada.io/v1alpha1",
        "kind": "ResourceInterpreterCustomization",
        "metadata": {"name": "a"},
        "spec": {"target": {"apiVersion": "v1", "kind": "Pod"}, "customizations": {}},
    }
    stored.existing = Denied("validating", 500, "the stored ones cannot be read: connection refused; try again")
    answer = await caller.review(SCRIPTS, request_of(script["kind"], "CREATE", script))
    assert (answer["allowed"], answer["status"]["code"]) == (False, 500)
    assert "try again" in answer["status"]["message"]
    stored.existing = ()
    assert (await caller.review(SCRIPTS, request_of(script["kind"], "CREATE", script)))["allowed"]


async def test_a_fault_of_a_check_is_an_answer(tmp_path: Path) -> None:
    async def fails(write: Write) -> Denied | None:
        raise KeyError("secret")

    async with reviewing(tmp_path, Known(), guard=fails) as caller:
        stored, answer = await caller.admit("PropagationPolicy", "CREATE", policy(), None, "shop")
        assert (stored, answer["status"]["code"]) == (None, 500)
        assert "KeyError" in answer["status"]["message"]
        assert "secret" not in answer["status"]["message"]


async def test_a_guard_is_asked_about_admitted_policies_only(tmp_path: Path) -> None:
    asked: list[Write] = []

    async def guard(write: Write) -> Denied | None:
        asked.append(write)
        return Denied("validating", 403, "moves 412 workloads; confirm it")

    async with reviewing(tmp_path, Known(), guard=guard) as caller:
        await caller.admit("PropagationPolicy", "CREATE", policy(preemption="Always"), None, "shop")
        assert asked == []
        _, answer = await caller.admit("PropagationPolicy", "CREATE", policy(), None, "shop")
        assert answer["status"]["message"] == "moves 412 workloads; confirm it"
        assert [write.new["spec"]["resourceSelectors"][0]["namespace"] for write in asked if write.new] == ["shop"]


@pytest.mark.parametrize("kind", ["ResourceBinding", "ClusterResourceBinding"])
async def test_bindings_are_converted_both_ways(caller: Caller, kind: str) -> None:
    older = {
        "apiVersion": "work.karmada.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": "web", "uid": "1"},
        "spec": {
            "resource": {"apiVersion": "v1", "kind": "Pod", "name": "web", "replicas": 2},
            "clusters": [{"name": "m1", "replicas": 2}],
        },
    }

    async def convert(obj: Any, version: str) -> dict[str, Any]:
        request = {"uid": "7", "desiredAPIVersion": version, "objects": [obj]}
        body = {"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1", "request": request}
        code, answer = await caller.post("/convert", msgspec.json.encode(body))
        assert code == 200, answer
        response = msgspec.json.decode(answer)["response"]
        assert response["uid"] == "7"
        return dict(response)

    up = await convert(older, "work.karmada.io/v1alpha2")
    assert up["result"] == {"status": "Success"}
    (newer,) = up["convertedObjects"]
    assert newer["spec"]["replicas"] == 2
    assert newer["metadata"] == older["metadata"]
    assert (await convert(newer, "work.karmada.io/v1alpha1"))["convertedObjects"] == [older]
    failed = await convert(older, "work.karmada.io/v1")
    assert failed["result"]["status"] == "Failure"
    assert "use work.karmada.io/v1alpha1 or work.karmada.io/v1alpha2" in failed["result"]["message"]
    code, text = await caller.post("/convert", b"{}")
    assert (code, b"no ConversionReview" in text) == (400, True)


async def test_a_patch_changes_no_more_than_the_defaults(caller: Caller) -> None:
    given = policy(placement={"spreadConstraints": [{"maxGroups": 2}]}, unknown={"kept": True})
    response = await caller.review(PATH, request_of("PropagationPolicy", "CREATE", given, None, "shop"))
    made = patched(given, response)
    assert made["spec"]["unknown"] == {"kept": True}
    assert made["spec"]["placement"]["spreadConstraints"] == [
        {"maxGroups": 2, "minGroups": 1, "spreadByField": "cluster"}
    ]
    assert made["metadata"]["finalizers"] == [const.PROPAGATION_POLICY_FINALIZER]
    answer = await caller.review(PATH, request_of("PropagationPolicy", "UPDATE", made, made, "shop"))
    assert "patch" not in answer
