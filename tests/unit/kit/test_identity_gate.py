"""What a reader of lists does when the store behind its endpoint is an older one, and then the newer one again."""

from __future__ import annotations

from services._kit.identity.identity_gate import EndpointIdentity, Gate
from services._rules.absence.absence_guard import Guard
from services._rules.absence.endpoint_identity import Reading


class Endpoint:
    """An endpoint whose store is at a revision that the test sets."""

    def __init__(self, revision: int) -> None:
        self.revision = revision
        self.cuts = 0
        self.guard: Guard[str] = Guard(scope="templates")
        self.identity = EndpointIdentity(self._read, self.guard, self._cut, lambda: None)

    async def _read(self) -> Reading:
        return Reading("ours", self.revision)

    async def _cut(self) -> None:
        self.cuts += 1


async def test_watch_skips_the_past_of_a_restored_store() -> None:
    endpoint = Endpoint(100)
    gate: Gate[str] = Gate(endpoint.identity)
    await gate.opened()
    assert await gate.admits([], "100")

    endpoint.revision = 40
    assert not await gate.vouches(), "an older state of the store: what it lacks has to be listed"
    await gate.opened()
    assert await gate.admits([], "40")
    assert await gate.vouches()
    assert endpoint.cuts == 1

    endpoint.revision = 120
    assert not await gate.vouches(), "a watch from 40 would tell of everything up to 120 once more"
    assert endpoint.cuts == 2
    await gate.opened()
    assert await gate.admits([], "120")
    endpoint.revision = 121
    assert await gate.vouches()
    assert endpoint.cuts == 2


async def test_restored_store_is_listed_again_at_its_old_revision() -> None:
    endpoint = Endpoint(100)
    gate: Gate[str] = Gate(endpoint.identity)
    await gate.opened()
    assert await gate.admits([], "100")
    for revision, vouched in ((90, False), (95, True), (100, False), (105, True)):
        endpoint.revision = revision
        assert await gate.vouches() is vouched, revision
        if not vouched:
            await gate.opened()
            assert await gate.admits([], str(revision))
