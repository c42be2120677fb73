"""Verifies that the cluster at a member's address is the member."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from services._kit.identity.identity_reading import read_identity
from services._kit.identity.shared_reading import SharedReading
from services._kit.kube.client import KubeClient, Unreachable


class Stranger(Unreachable):
    """Another cluster answers at the address of a member: nothing is read from it or written to it."""


class MemberGate:
    """The gate of all reflectors of one member; `known` returns its identity, empty while it is not known.

    `on_stranger` hears of every stranger, before a reflector does; `on_bad_answer` of what a reflector could not use.
    """

    stale = False

    def __init__(
        self,
        client: KubeClient,
        cluster: str,
        known: Callable[[], str],
        on_stranger: Callable[[Stranger], None],
        on_bad_answer: Callable[[], None],
    ) -> None:
        self._client = client
        self._cluster = cluster
        self._known = known
        self._on_stranger = on_stranger
        self._on_bad_answer = on_bad_answer
        self._readings = SharedReading(self._verify)

    async def vouch(self, since: int = 0) -> None:
        """Verify the identity, unless that was begun since a moment.

        Raises Stranger for another one, and Unreachable where it cannot be read. A member that forbids us to read its
        identity is trusted.
        """
        if self._known():
            await self._readings.since(since)

    async def _verify(self) -> None:
        known = self._known()
        reading = await read_identity(self._client)
        seen = reading.uid
        if seen == known or reading.forbidden:
            return
        if not seen:
            # Its other answers may come from an intermediary: an empty list deletes nothing.
            raise Unreachable(f"{self._cluster} does not tell who it is any more: {reading.problem}")
        stranger = Stranger(
            f"another cluster answers at the address of {self._cluster}: the uid of its namespace kube-system is "
            f"{seen}, that of the member is {known}; nothing is written there"
        )
        self._on_stranger(stranger)
        # Connections that are open may lead to either.
        await self._client.close()
        raise stranger

    async def opened(self) -> None:
        """Lists are always worth their request."""

    def saw(self, version: str, last: object = None) -> None:
        """Revisions of members do not matter: what is missing there is delivered again."""

    def bad_answer(self) -> None:
        """What it said beside that may be as wrong."""
        self._on_bad_answer()

    async def admits(self, objects: list[Any], version: str) -> bool:
        """A list counts unless it is a stranger's."""
        await self.vouch()
        return True

    def moment(self) -> int:
        """A number for the present moment, for `vouches`."""
        return self._readings.moment()

    async def vouches(self, opened: int) -> bool:
        """A watch that was open at a moment counts unless it is a stranger's."""
        await self.vouch(opened)
        return True
