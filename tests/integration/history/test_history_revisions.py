"""Revisions that clients hold stay valid when what they came from is purged and the gateway starts anew."""

from __future__ import annotations

import aiohttp

from schemas.events.binding import BindingReleased
from tests.integration.gateway.conftest import Client, client, gateway, start_gateway, writer
from tests.integration.gateway.story import cluster, requested
from tests.support.lifetimes import named

__all__ = ["client", "gateway", "start_gateway", "writer"]
RB = "/apis/work.karmada.io/v1alpha2/namespaces/default/resourcebindings"


async def test_a_revision_never_goes_back(writer, start_gateway, gateway, client):
    await writer.append(cluster("member1"), requested())
    last = await writer.append(BindingReleased(key=named("other"), uid="u1"))
    before = await client.until(RB, lambda body: body["metadata"]["resourceVersion"] == str(last))
    assert [item["metadata"]["name"] for item in before["items"]] == ["nginx-deployment"]
    assert await writer.logs["FACTS"].purge("binding.*.*.*.other", last) == 1
    later = await start_gateway()
    async with aiohttp.ClientSession() as session:
        again = Client(session, later.api.url)
        assert (await again.get(RB))["metadata"]["resourceVersion"] == str(last)
        newer = await writer.append(requested(generation=2))
        seen = await again.until(RB, lambda body: body["metadata"]["resourceVersion"] == str(newer))
    assert seen["items"][0]["metadata"]["resourceVersion"] == str(newer)
