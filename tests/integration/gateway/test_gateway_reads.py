"""Bindings and works are read from a real log through HTTP, as clients of Kubernetes read them."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest

from services._kit.content.blobs import Blobs
from tests.integration.gateway.story import (
    cluster,
    manifest,
    observed,
    placed,
    rendered,
    requested,
    rolled_up,
)
from tests.support.waiting import eventually

RB = "/apis/work.karmada.io/v1alpha2/namespaces/default/resourcebindings"
WORKS = "/apis/work.karmada.io/v1alpha1/works"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


async def tell_story(writer):
    await writer.append(cluster("member1"), cluster("member2"))
    first = await writer.append(requested())
    await writer.append(
        placed(member1=1, member2=1, cause=first),
        rendered("member1"),
        rendered("member2"),
        observed("member1"),
        observed("member2"),
    )
    return await writer.append(rolled_up("member1", "member2"))


def both_observed(works):
    """Whether a list of works has what both clusters said, which stands on another stream than the rest."""
    return sum(len(work.get("status", {}).get("conditions", ())) == 2 for work in works["items"]) == 2


async def test_a_binding_is_shown_with_the_revision_of_its_newest_fact(writer, gateway, client):
    last = await tell_story(writer)
    path = f"{RB}/nginx-deployment"
    await client.until(RB, lambda body: body["items"] and body["items"][0]["status"].get("aggregatedStatus"))
    body = await client.get(path)
    assert body["metadata"]["resourceVersion"] == str(last)
    assert body["spec"]["clusters"] == [{"name": "member1", "replicas": 1}, {"name": "member2", "replicas": 1}]
    assert {c["type"]: c["status"] for c in body["status"]["conditions"]} == {
        "Scheduled": "True",
        "FullyApplied": "True",
    }
    assert [item["clusterName"] for item in body["status"]["aggregatedStatus"]] == ["member1", "member2"]


async def test_a_gateway_started_later_shows_the_same_binding(writer, start_gateway, gateway, client):
    await tell_story(writer)
    await client.until(RB, lambda body: body["items"] and body["items"][0]["status"].get("aggregatedStatus"))
    other = await start_gateway()
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{other.api.url}{RB}/nginx-deployment", headers=client.headers) as answer,
    ):
        late = await answer.json()
    early = await client.get(f"{RB}/nginx-deployment")
    for body in (early, late):
        for condition in body["status"]["conditions"]:
            del condition["lastTransitionTime"]
    assert late == early


async def test_works_of_all_clusters_are_listed_with_their_manifests(writer, gateway, client):
    await tell_story(writer)
    body = await client.until(WORKS, both_observed)
    assert [(i["metadata"]["namespace"], i["metadata"]["name"]) for i in body["items"]] == [
        ("karmada-es-member1", "nginx-687f7fb96f"),
        ("karmada-es-member2", "nginx-687f7fb96f"),
    ]
    work = body["items"][0]
    assert work["spec"]["workload"]["manifests"][0]["metadata"]["name"] == "nginx"
    assert work["status"]["manifestStatuses"][0]["health"] == "Healthy"


async def test_a_large_manifest_is_fetched_from_the_blobs(writer, gateway, client):
    data = manifest(data={"text": "x" * 10_000})
    await Blobs(writer.logs["BLOBS"]).put(data)
    await writer.append(cluster("member1"), rendered("member1", data=data, inline=False))
    body = await client.until(WORKS, lambda body: body["items"])
    assert body["items"][0]["spec"]["workload"]["manifests"][0]["data"]["text"] == "x" * 10_000


async def test_tables_have_the_columns_of_the_kinds(writer, gateway, client):
    await tell_story(writer)
    await client.until(RB, lambda body: body["items"] and body["items"][0]["status"].get("aggregatedStatus"))
    table = await client.get(RB, accept=TABLE)
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "SCHEDULED", "FULLYAPPLIED", "AGE"]
    assert table["rows"][0]["cells"][:3] == ["nginx-deployment", "True", "True"]
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    await client.until(WORKS, both_observed)
    works = await client.get(WORKS, accept=TABLE)
    assert [row["cells"][:3] for row in works["rows"]] == [["nginx-687f7fb96f", "Deployment", "True"]] * 2


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_writes_are_refused_with_the_object_to_change(gateway, client, method):
    async with client.session.request(
        method, f"{client.url}{RB}/nginx-deployment", headers=client.headers, json={}
    ) as answer:
        body = await answer.json()
    assert (answer.status, body["reason"]) == (405, "MethodNotAllowed")
    assert "projections of the log" in body["message"]
    assert "PropagationPolicy" in body["message"]


async def test_request_without_a_token_is_unauthorized(gateway, client):
    client.headers = {}
    body = await client.get(RB, status=401)
    assert body["reason"] == "Unauthorized"


async def test_history_names_causes(writer, gateway, client):
    await tell_story(writer)
    path = "/fleetlog/v1/history/deployments.apps/default/nginx"
    body = await client.get(path)
    assert len(body["entries"]) == 7
    placement = next(entry for entry in body["entries"] if entry["event"] == "PlacementDecided")
    assert placement["summary"].startswith("member1=1 member2=1")
    assert placement["causes"][0]["event"] == "BindingRequested"
    assert f"because #{placement['causes'][0]['position']} BindingRequested" in placement["line"]
    assert {entry["stream"] for entry in body["entries"]} == {"FACTS", "OBSERVED"}
    assert body["object"] == {"resource": "deployments.apps", "namespace": "default", "name": "nginx"}


async def reached(log, position):
    pump = log.pump([">"])
    async with asyncio.timeout(60):
        async for delivery in pump:
            if delivery.position >= position:
                break
    await pump.close()


async def test_the_history_outlives_the_tail_of_the_facts(writer, connection, gateway, client):
    await tell_story(writer)
    path = "/fleetlog/v1/history/deployments.apps/default/nginx"
    before = await client.get(path)
    facts = (await writer.logs["FACTS"].identity()).last_seq
    await reached(writer.logs["HISTORY"], facts)
    await connection.request("$JS.API.STREAM.PURGE.FACTS", b"", timeout=60)
    after = await client.get(path)

    def steps(body):
        return sorted((entry["stream"], entry["position"], entry["event"]) for entry in body["entries"])

    assert steps(after) == steps(before)


async def test_an_object_without_facts_has_no_history(gateway, client):
    body = await client.get("/fleetlog/v1/history/deployments.apps/default/nginx", status=404)
    assert "the log holds no fact" in body["message"]


async def test_a_gateway_answers_from_memory_while_the_log_is_away(writer, gateway, client, nats_server):
    await tell_story(writer)
    await client.until(RB, lambda body: body["items"])
    nats_server.kill9()

    async def readyz():
        async with client.session.get(f"{client.url}/readyz") as answer:
            return answer.status, await answer.text()

    await eventually(lambda: gateway.api._health.facts()["connection"], "the gateway notices")
    assert await readyz() == (200, "ok")
    assert (await client.get(RB))["items"]
    nats_server.start()
    await eventually(lambda: not gateway.api._health.facts()["connection"], "the gateway is connected again")
