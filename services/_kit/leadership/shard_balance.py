"""Shares the shard groups of a service among its live instances.

Every instance that is ready says which groups it leads. One that leads more than its share hands a group over: it ends
its term first, and only then tells the heir, which takes the lease at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from schemas.subjects import presence
from services._kit.base.clock import Clock
from services._kit.base.log_errors import LogError
from services._kit.leadership.lease import Lease
from services._kit.log.heartbeat_bus import NatsBus
from services._rules.log.group_balance import next_handover

MOST_INSTANCES: Final = 100
"""Of more than that no further ones are remembered."""


class Presence(Struct):
    """An instance that may lead, in how many groups it divides the work, and those that it leads."""

    instance: str
    groups: int
    leads: tuple[int, ...] = ()


_presence = msgspec.json.Decoder(Presence)


class ShardBalance:
    """Hands over groups of one process; `leases` are those of all groups in order, `interval` is in seconds."""

    def __init__(
        self,
        service: str,
        instance: str,
        leases: Sequence[Lease],
        bus: NatsBus,
        ready: Callable[[], bool],
        clock: Clock,
        interval: float,
    ) -> None:
        self._subject = presence(service)
        self._instance = instance
        self._leases = leases
        self._bus = bus
        self._ready = ready
        self._clock = clock
        self._interval = interval
        self._patience = leases[0].takeover_after
        self._others: dict[str, tuple[float, frozenset[int]]] = {}
        """Groups that other instances lead, and when that was heard."""
        self._handed: tuple[int, str, float] | None = None
        """The handover under way, and when it began."""

    async def run(self) -> None:
        """Tell of ourselves and hand over what is too much, until cancelled."""
        await self._bus.subscribe(self._subject, self._hear)
        while True:
            if self._ready():
                try:
                    await self._bus.publish(self._subject, msgspec.json.encode(self._own()))
                except LogError:
                    self._others.clear()
                self._hand_over()
            await asyncio.sleep(self._interval)

    def _own(self) -> Presence:
        leads = tuple(index for index, lease in enumerate(self._leases) if lease.is_leader)
        return Presence(self._instance, len(self._leases), leads)

    def _hear(self, data: bytes) -> None:
        try:
            heard = _presence.decode(data)
        except msgspec.MsgspecError:
            return
        if heard.instance == self._instance or heard.groups != len(self._leases):
            return
        if heard.instance in self._others or len(self._others) < MOST_INSTANCES:
            self._others[heard.instance] = (self._clock.monotonic(), frozenset(heard.leads))

    def _hand_over(self) -> None:
        now = self._clock.monotonic()
        self._others = {name: seen for name, seen in self._others.items() if now - seen[0] < self._patience}
        if self._handed is not None:
            group, heir, since = self._handed
            if now - since < 2 * self._patience and group not in self._others.get(heir, (0.0, frozenset()))[1]:
                return
            self._handed = None
        leading = {name: groups for name, (_, groups) in self._others.items()}
        found = next_handover({**leading, self._instance: frozenset(self._own().leads)}, self._instance)
        if found is not None:
            group, heir = found
            self._handed = (group, heir, now)
            self._leases[group].hand_over(heir)
