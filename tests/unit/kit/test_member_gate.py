"""What a stranger at a member's address says counts for nothing, from its first list on."""

from __future__ import annotations

import pytest

from services._kit.identity.member_gate import MemberGate, Stranger
from services._kit.kube.client import KubeClient, Unreachable
from tests.support.hostile_answers import LISTS
from tests.support.hostile_server import HostileServer, hostile_server

NAMESPACES = "/api/v1/namespaces"


def answers(server: HostileServer, uid: str) -> None:
    """Be the cluster of this identity from now on."""
    server.objects[NAMESPACES] = [{"metadata": {"name": "kube-system", "uid": uid, "resourceVersion": "5"}}]


async def test_lists_and_watches_of_a_stranger_do_not_count() -> None:
    strangers: list[Stranger] = []
    async with hostile_server() as server:
        client = KubeClient(server.url, ssl_context=None, headers={})
        gate = MemberGate(client, "m1", lambda: "ours", strangers.append, lambda: None)
        try:
            answers(server, "ours")
            assert await gate.admits([], "5")
            assert await gate.vouches(0)
            answers(server, "theirs")
            with pytest.raises(Stranger, match="another cluster answers at the address of m1"):
                await gate.admits([], "5")
            with pytest.raises(Stranger, match="that of the member is ours"):
                await gate.vouches(0)
            assert len(strangers) == 2
            server.turn("refuse_401", LISTS)
            with pytest.raises(Unreachable, match="does not tell who it is any more"):
                await gate.admits([], "5")
            server.heal()
            answers(server, "ours")
            assert await gate.admits([], "5")
        finally:
            await client.close()


async def test_who_answers_counts_while_no_identity_is_known() -> None:
    async with hostile_server() as server:
        client = KubeClient(server.url, ssl_context=None, headers={})
        gate = MemberGate(client, "m1", lambda: "", lambda _: None, lambda: None)
        try:
            assert await gate.admits([], "5")
            assert server.requests == []
        finally:
            await client.close()
