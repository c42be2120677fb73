"""Requests reach pods of other clusters: real connections, led as EndpointSlices say."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from tests.e2e.exporting import definitions, export, import_into
from tests.e2e.fleet import until, until_equal
from tests.e2e.member_faults import fault
from tests.e2e.pod_network import REFUSED, Cluster, missing, pod_network, proxied
from tests.e2e.space import Space, clusters

pytestmark = pytest.mark.xdist_group("workloads")


@pytest.fixture(scope="module")
def network() -> Iterator[dict[str, Cluster]]:
    """A network between the pods of the three members."""
    if why := missing():
        pytest.skip(why)
    with pod_network(("member1", "member2", "member3")) as made:
        yield made


def running(space: Space, network: dict[str, Cluster], member: str, count: int) -> set[str]:
    """Addresses of the pods of a member, once it has so many; each has its server."""

    def look() -> set[str]:
        pods = space.member[member].items("pods", space.name)
        placed = [pod for pod in pods if (pod.get("status") or {}).get("podIP")]
        addresses = {pod["status"]["podIP"] for pod in placed if "deletionTimestamp" not in pod["metadata"]}
        network[member].run_pods(addresses)
        return addresses if len(addresses) == count == len(pods) else set()

    return until(f"{count} pods in {member}", look)


class Client:
    """Asks without a pause from one cluster, each time over a new connection."""

    def __init__(self, cluster: Cluster, url: str) -> None:
        self._cluster, self._url = cluster, url
        self._end = Event()
        self._pool = ThreadPoolExecutor(1)
        self.rounds: list[tuple[int, list[str]]] = []
        self._running = self._pool.submit(self._ask)

    def _ask(self) -> None:
        while not self._end.is_set():
            self.rounds.append(self._cluster.fetch(self._url, times=10))

    def later(self, count: int) -> list[tuple[int, list[str]]]:
        """Rounds that began after this moment."""
        # The one that is under way may have begun before.
        first = len(self.rounds) + 1
        until("requests", lambda: len(self.rounds) >= first + count or self._running.done())
        return self.rounds[first:]

    def stop(self) -> list[tuple[int, list[str]]]:
        """All rounds."""
        self._end.set()
        self._running.result(60)
        self._pool.shutdown()
        return self.rounds


def sources(rounds: list[tuple[int, list[str]]]) -> set[str]:
    """Addresses that answered."""
    return {line.split()[1] for _, lines in rounds for line in lines}


def test_requests_follow_exported_endpoints(space: Space, network: dict[str, Cluster]) -> None:
    definitions(space)
    web = space.load("web.yaml")
    web["spec"]["replicas"] = 2
    space.apply(web)
    space.apply(space.load("web-service.yaml"))
    # A push and a pull member export, a push member asks.
    space.policy(web, clusters("member1", "member3"))
    export(space, "web", "member1", "member3")
    import_into(space, "web", [{"port": 80, "protocol": "TCP"}], "member2")
    pods = {member: running(space, network, member, 2) for member in ("member1", "member3")}
    consumer = network["member2"]

    def led() -> set[str]:
        return proxied(consumer, space.member["member2"], space.name, "derived-web")

    until_equal("led", led, pods["member1"] | pods["member3"])
    derived = space.held("member2", "service", "derived-web")
    assert derived is not None
    url = f"http://{derived['spec']['clusterIP']}/"
    code, lines = consumer.fetch(url, times=80)
    assert code == 0
    assert {tuple(line.split()) for line in lines} == {
        (member, address) for member, addresses in pods.items() for address in addresses
    }
    client = Client(consumer, url)
    try:
        # One pod of each cluster goes: from the moment that this was delivered nothing reaches it any more.
        space.control.patch("deployment", "web", {"spec": {"replicas": 1}}, space.name)
        left = {member: running(space, network, member, 1) for member in pods}
        until_equal("led", led, left["member1"] | left["member3"])
        client.later(1)
        before = {member: network[member].requests() for member in pods}
        assert sources(client.later(3)) == left["member1"] | left["member3"]
        after = {member: network[member].requests() for member in pods}
        for member, addresses in pods.items():
            for gone in addresses - left[member]:
                assert after[member][gone] == before[member][gone]
        # The pod of one cluster is not ready: the other one serves as long.
        crash = {"namespace": space.name, "name": "web"}
        fault(space.fleet, "member3", "/pods", **crash)
        until_equal("led", led, left["member1"])
        assert sources(client.later(3)) == left["member1"]
        fault(space.fleet, "member3", "/pods", **crash, crash=False)
        until_equal("led", led, left["member1"] | left["member3"])
        assert sources(client.later(3)) == left["member1"] | left["member3"]
    finally:
        rounds = client.stop()
    # Old pods stayed until clients knew, as servers do that end gracefully: nobody was refused.
    assert {code for code, _ in rounds} == {0}
    # Nobody exports it: connections are refused, and no pod hears of them.
    space.control.delete("serviceexport", "web", space.name)
    until_equal("led", led, set())
    before = {member: network[member].requests() for member in pods}
    assert consumer.fetch(url) == (REFUSED, [])
    assert {member: network[member].requests() for member in pods} == before
    space.control.delete("clusterpropagationpolicy", "multicluster-services")
