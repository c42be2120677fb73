"""What a member does not take is told with the cluster, the reason and what helps; everything else goes on.

Each kind of refusal comes from a simulated member's API server, beside twenty other objects that have to arrive.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from aiohttp import web

from schemas.events.observed import WorkObserved
from schemas.keys import ObjectKey
from schemas.manifest import Manifest
from services._kit.kube.client import KubeClient, Unreachable
from services.apiserver.auth.certificate_authority import Authority
from tests.support.manifests import container, manifest, pod_spec, workload
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")
OTHERS = 20
CRD = "apiextensions.k8s.io/v1"


def config_map(name: str, text: str = "x", namespace: str = "default") -> Manifest:
    return manifest("v1", "ConfigMap", name, namespace, data={"a": text})


async def refused(member: Any, bad: Manifest, *words: str) -> WorkObserved:
    """Deliver something bad among twenty good ones: all of those arrive, and it is told what is wrong with it."""
    name = bad["metadata"]["name"]
    good = [config_map(f"{name}-{number}") for number in range(OTHERS)]
    first, *rest = await asyncio.gather(member.deliver(bad), *(member.deliver(each) for each in good))
    assert [event.applied for event in rest] == [True] * OTHERS
    failed: WorkObserved = await member.desk.until(first.key, lambda event: event.reason == "AppliedFailed")
    for word in (f"cluster {member.name}", *words):
        assert word in failed.message, failed.message
    assert (failed.applied, failed.absent) == (False, False)
    return failed


async def heals(member: Any, key: ObjectKey) -> None:
    """Once the cause is gone the object arrives, and nobody had to ask."""
    await member.desk.until(key, lambda event: event.applied)


async def test_an_invalid_manifest(member: Any, fresh_name: str) -> None:
    bad = workload("Deployment", fresh_name)
    bad["spec"]["template"]["spec"]["containers"][0]["image"] = ""
    await refused(
        member, bad, "containers[0].image", "Required value", "HTTP 422", "correct the template", "OverridePolicy"
    )
    await member.apply(workload("Deployment", fresh_name))


async def test_a_manifest_of_another_shape(member: Any, fresh_name: str) -> None:
    bad = config_map(fresh_name)
    bad["data"] = {"a": {"not": "text"}}
    await refused(member, bad, "HTTP 400", "correct the template")


async def test_a_field_that_cannot_be_changed(member: Any, fresh_name: str) -> None:
    before = await member.apply(workload("Deployment", fresh_name))
    other = workload("Deployment", fresh_name)
    other["spec"]["selector"]["matchLabels"] = {"app": "other"}
    other["spec"]["template"]["metadata"]["labels"] = {"app": "other"}
    failed = await refused(member, other, "spec.selector", "field is immutable", "delete the object there")
    assert (await member.live(other))["metadata"]["uid"] == before["metadata"]["uid"]
    await member.client.delete(member.path(other))
    await heals(member, failed.key)


async def test_a_kind_the_member_does_not_serve(member: Any, fresh_name: str) -> None:
    plural = f"{fresh_name}things"
    widget = manifest(f"{fresh_name}.example.com/v1", f"{fresh_name}thing".capitalize(), "one", spec={"size": 1})
    kind = widget["kind"]
    good = [config_map(f"{fresh_name}-{number}") for number in range(OTHERS)]
    event, *rest = await asyncio.gather(member.deliver(widget), *(member.deliver(each) for each in good))
    assert all(each.applied for each in rest)
    assert f"does not serve {widget['apiVersion']} {kind}" in event.message
    assert "propagate its CustomResourceDefinition" in event.message
    assert f"cluster {member.name}" in event.message
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    spec = {
        "group": f"{fresh_name}.example.com",
        "scope": "Namespaced",
        "names": {"plural": plural, "singular": plural[:-1], "kind": kind, "listKind": f"{kind}List"},
        "versions": [version],
    }
    name = f"{plural}.{fresh_name}.example.com"
    await member.apply(manifest(CRD, "CustomResourceDefinition", name, "", spec=spec))
    await heals(member, event.key)


async def test_a_namespace_that_is_not_there(member: Any, fresh_name: str) -> None:
    space = f"{fresh_name}-space"
    failed = await refused(
        member, config_map(fresh_name, namespace=space), f'namespaces "{space}" not found', "propagated"
    )
    await member.apply(manifest("v1", "Namespace", space, ""))
    await heals(member, failed.key)


async def test_a_quota_that_is_used_up(member: Any, fresh_name: str) -> None:
    space = await member.namespace(f"{fresh_name}-space")
    hard = {"services": "2", "requests.cpu": "1"}
    quota = manifest("v1", "ResourceQuota", "team", space, spec={"hard": hard})
    await member.client.create(f"/api/v1/namespaces/{space}/resourcequotas", quota)

    def service(name: str) -> Manifest:
        return manifest("v1", "Service", name, space, spec={"ports": [{"port": 80}]})

    await asyncio.gather(*(member.apply(service(f"taken-{number}")) for number in range(2)))
    words = ("exceeded quota: team", "requested: services=1", "limited: services=2", "raise the ResourceQuota there")
    failed = await refused(member, service(fresh_name), *words)
    limited = {**container(), "resources": {"requests": {"cpu": "2"}}}
    pod = manifest("v1", "Pod", f"{fresh_name}-pod", space, spec={"containers": [limited]})
    await refused(member, pod, "exceeded quota: team", "requests.cpu=2", "fewer replicas in this cluster")
    silent = manifest("v1", "Pod", f"{fresh_name}-silent", space, spec=pod_spec())
    await refused(member, silent, "must specify requests.cpu", "set them in the template or by an override")
    await member.client.delete(f"/api/v1/namespaces/{space}/resourcequotas/team")
    await heals(member, failed.key)


async def test_quota_exceeded_makes_the_workload_unhealthy(member: Any, fresh_name: str) -> None:
    space = await member.namespace(f"{fresh_name}-space")
    quota = manifest("v1", "ResourceQuota", "team", space, spec={"hard": {"pods": "1"}})
    await member.client.create(f"/api/v1/namespaces/{space}/resourcequotas", quota)
    web = workload("Deployment", fresh_name, 2)
    web["metadata"]["namespace"] = space
    event = await member.deliver(web)
    assert event.applied
    await member.until_live(web, lambda live: live.get("status", {}).get("readyReplicas") == 1)
    held = await member.desk.until(event.key, lambda seen: b'"readyReplicas":1' in bytes(seen.status or b""))
    assert held.health == "Unhealthy"
    await member.client.delete(f"/api/v1/namespaces/{space}/resourcequotas/team")
    await member.desk.until(event.key, lambda seen: seen.health == "Healthy")


async def test_an_object_that_belongs_to_somebody_else(member: Any, fresh_name: str) -> None:
    theirs = config_map(fresh_name, "theirs")
    await member.client.create("/api/v1/namespaces/default/configmaps", theirs)
    words = ("is not managed from here", "conflictResolution: Overwrite")
    failed = await refused(member, config_map(fresh_name, "ours"), *words)
    assert (await member.live(theirs))["data"] == {"a": "theirs"}
    await member.client.delete(member.path(theirs))
    await heals(member, failed.key)


async def test_an_object_that_is_too_large(member: Any, fresh_name: str) -> None:
    await refused(member, config_map(fresh_name, "x" * ((1 << 20) + 1)), "make the object smaller")
    await member.apply(config_map(fresh_name))


async def test_a_member_that_fails_inside(members: Any, fresh_name: str) -> None:
    member = members[1]
    await member.fault("/faults", {"mode": "refuse", "status": 500, "verbs": ["create"]})
    try:
        event = await member.deliver(config_map(fresh_name))
        assert "HTTP 500" in event.message
        assert "tried again" in event.message
        good = config_map(f"{fresh_name}-other")
        assert (await members[0].deliver(good)).applied
    finally:
        await member.fault("/faults", {"mode": "none"})
    await heals(member, event.key)


async def test_a_member_that_has_too_much_is_no_failure_of_an_object(members: Any, fresh_name: str) -> None:
    member = members[1]
    await member.fault("/faults", {"mode": "refuse", "status": 503, "verbs": ["create"]})
    key = member.desk.give(config_map(fresh_name))
    before = member.lane.stats.failed
    member.lane.look_at(key)
    await eventually(lambda: member.lane.stats.failed >= before + 2, "two failures")
    assert key not in member.desk.latest
    assert member.lane.pace.window.limit < 24
    await member.fault("/faults", {"mode": "none"})
    await heals(member, key)
    assert all(event.applied for event in member.desk.reports if event.key == key)


class Silent(KubeClient):
    """A member that never answers the creation of objects that are called so."""

    async def create(self, path: str, body: bytes | Manifest) -> Manifest:
        """POST an object, unless its name says otherwise."""
        assert isinstance(body, bytes)
        if b'"name":"silent"' in body:
            raise Unreachable(f"POST {self.server}{path}: no answer within 32 s") from TimeoutError()
        return await super().create(path, body)


async def test_object_without_answer_is_reported_and_others_arrive(member: Any, fresh_name: str) -> None:
    desk = member.new_desk()
    bad = desk.give(config_map("silent"))
    good = [desk.give(config_map(f"{fresh_name}-{number}")) for number in range(OTHERS)]
    async with member.lane_of(desk, Silent) as lane:
        for key in (bad, *good):
            lane.look_at(key)
        for key in good:
            await desk.until(key, lambda event: event.applied)
        failed = await desk.until(bad, lambda event: event.reason == "AppliedFailed")
    assert f"cluster {member.name}: POST" in failed.message
    assert "no answer within 32 s" in failed.message


class Webhook:
    """A validating webhook of a member that refuses what is named like it."""

    def __init__(self, url: str, ca: str) -> None:
        self.url, self.ca = url, ca
        self.asked = asyncio.Event()
        self.answer = asyncio.Event()
        self.answer.set()


@pytest_asyncio.fixture(loop_scope="module")
async def webhook(member: Any, fresh_name: str, tmp_path: Any) -> AsyncIterator[Webhook]:
    """A webhook that is asked about ConfigMaps of one name."""
    authority = Authority(tmp_path)
    authority.load()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.server(("127.0.0.1",)))
    ca = authority.ca_pem.decode()

    async def review(request: web.Request) -> web.Response:
        body = msgspec.json.decode(await request.read())
        made.asked.set()
        await made.answer.wait()
        refusal = {"uid": body["request"]["uid"], "allowed": False, "status": {"message": "names end with -prod here"}}
        return web.json_response({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": refusal})

    app = web.Application()
    app.router.add_post("/review", review)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    port = runner.addresses[0][1]
    made = Webhook(f"https://127.0.0.1:{port}/review", ca)
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    hook = {
        "name": "names.policies.example",
        "clientConfig": {"url": made.url, "caBundle": base64.b64encode(ca.encode()).decode()},
        "rules": [rule],
        "objectSelector": {"matchLabels": {"judged": fresh_name}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        # Longer than the delivery of some others takes on a busy machine.
        "timeoutSeconds": 8,
    }
    configuration = manifest(
        "admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", fresh_name, "", webhooks=[hook]
    )
    path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    await member.client.create(path, configuration)
    try:
        yield made
    finally:
        made.answer.set()
        await member.client.delete(f"{path}/{fresh_name}")
        await runner.cleanup()


async def test_a_webhook_that_refuses(member: Any, fresh_name: str, webhook: Webhook) -> None:
    bad = config_map(fresh_name)
    bad["metadata"]["labels"] = {"judged": fresh_name}
    words = ("names.policies.example", "names end with -prod here", "what the webhook wants")
    await refused(member, bad, *words)


async def test_a_webhook_that_does_not_answer_holds_up_nobody_else(
    member: Any, fresh_name: str, webhook: Webhook
) -> None:
    webhook.answer.clear()
    bad = config_map(fresh_name)
    bad["metadata"]["labels"] = {"judged": fresh_name}
    key = member.desk.give(bad)
    member.lane.look_at(key)
    await asyncio.wait_for(webhook.asked.wait(), 60)
    good = [config_map(f"{fresh_name}-{number}") for number in range(OTHERS)]
    assert all(event.applied for event in await asyncio.gather(*(member.deliver(each) for each in good)))
    assert key not in member.desk.latest, "it is still being asked about"
    failed = await member.desk.until(key, lambda event: event.reason == "AppliedFailed")
    assert "failed calling webhook" in failed.message
    assert "mend the admission webhook" in failed.message
