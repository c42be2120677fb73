"""What a reader of lists does when the store behind its endpoint is an older one, and then the newer one again."""

from __future__ import annotations

from collections.abc import Collection

from services._kit.identity.identity_gate import EndpointIdentity, Gate, Locator, place_of_kept
from services._kit.kube.list_watch import Kept
from services._rules.absence.absence_guard import Guard
from services._rules.absence.endpoint_identity import Reading, Sighting


class Endpoint:
    """An endpoint whose store is at a revision that the test sets."""

    def __init__(self, revision: int) -> None:
        self.revision = revision
        self.cuts = 0
        self.readings = 0
        self.versions: dict[str, int] = {}
        self.guard: Guard[str] = Guard(scope="templates")
        self.identity = EndpointIdentity(self._read, self.guard, self._cut, lambda: None)

    async def _read(self, newest: Collection[Sighting]) -> Reading:
        self.readings += 1
        older = any(self.versions.get(seen.path, seen.version) < seen.version for seen in newest)
        return Reading("ours", self.revision, older=older)

    async def _cut(self) -> None:
        self.cuts += 1


async def test_watch_skips_the_past_of_a_restored_store() -> None:
    endpoint = Endpoint(100)
    gate: Gate[str] = Gate(endpoint.identity)
    await gate.opened()
    assert await gate.admits([], "100")

    endpoint.revision = 40
    assert not await gate.vouches(0), "an older state of the store: what it lacks has to be listed"
    await gate.opened()
    assert await gate.admits([], "40")
    assert await gate.vouches(0)
    assert endpoint.cuts == 1

    endpoint.revision = 120
    assert not await gate.vouches(0), "a watch from 40 would tell of everything up to 120 once more"
    assert endpoint.cuts == 2
    await gate.opened()
    assert await gate.admits([], "120")
    endpoint.revision = 121
    assert await gate.vouches(0)
    assert endpoint.cuts == 2


async def test_restored_store_is_listed_again_at_its_old_revision() -> None:
    endpoint = Endpoint(100)
    gate: Gate[str] = Gate(endpoint.identity)
    await gate.opened()
    assert await gate.admits([], "100")
    for revision, vouched in ((90, False), (95, True), (100, False), (105, True)):
        endpoint.revision = revision
        assert await gate.vouches(0) is vouched, revision
        if not vouched:
            await gate.opened()
            assert await gate.admits([], str(revision))


def _configmap(name: str, version: int) -> Kept:
    return Kept("shop", name, str(version), b"{}")


async def test_restored_store_that_came_further_is_recognised() -> None:
    endpoint = Endpoint(100)
    gate: Gate[Kept] = Gate(endpoint.identity, None, Locator("/api/v1/configmaps", place_of_kept))
    await gate.opened()
    assert await gate.admits([_configmap("b", 80), _configmap("c", 90), _configmap("a", 70)], "100")
    gate.saw("98", _configmap("a", 98))
    gate.saw("99", _configmap("lost", 99))

    endpoint.revision, endpoint.versions = 200, {"/api/v1/namespaces/shop/configmaps/a": 70}
    assert not await gate.vouches(0), "the newest object that was seen is older than it was"
    assert endpoint.guard.doubted
    assert endpoint.cuts == 1
    await gate.opened()
    assert await gate.admits([_configmap("a", 70)], "200")
    assert await gate.vouches(0)
    assert endpoint.cuts == 1


async def test_newest_object_of_a_list_shows_a_restored_store() -> None:
    endpoint = Endpoint(100)
    gate: Gate[Kept] = Gate(endpoint.identity, None, Locator("/api/v1/configmaps", place_of_kept))
    await gate.opened()
    assert await gate.admits([_configmap("b", 80), _configmap("c", 90), _configmap("a", 70)], "100")
    endpoint.revision, endpoint.versions = 200, {"/api/v1/namespaces/shop/configmaps/c": 60}
    assert not await gate.vouches(0)


async def test_a_watch_counts_by_a_reading_since_it_was_open() -> None:
    endpoint = Endpoint(100)
    gate: Gate[str] = Gate(endpoint.identity)
    await gate.opened()
    assert await gate.admits([], "100")
    opened = gate.moment()
    assert await gate.vouches(opened)
    assert endpoint.readings == 2, "the list's reading began before the watch was open"

    later = gate.moment()
    assert await gate.vouches(opened)
    assert endpoint.readings == 2, "one reading since it was open is enough"
    assert await gate.vouches(later)
    assert endpoint.readings == 3, "a watch that was open later has not been vouched for"


async def test_a_reading_that_found_another_endpoint_vouches_for_none() -> None:
    endpoint = Endpoint(100)
    gate: Gate[str] = Gate(endpoint.identity)
    await gate.opened()
    assert await gate.admits([], "100")
    opened = gate.moment()
    endpoint.revision = 40
    assert not await endpoint.identity.check() or gate.stale
    assert not await gate.vouches(opened)
