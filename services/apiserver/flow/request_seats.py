"""Priority and fairness: gives each request its seats, by the level and the user that it belongs to."""

from __future__ import annotations

from services.apiserver.core.metrics import FLOW_REFUSED, FLOW_SECONDS, FLOW_TAKEN, FLOW_WAITING
from services.apiserver.core.status_errors import too_many_requests
from services.apiserver.flow.fair_seats import FairSeats, Refused
from services.apiserver.flow.priority_levels import (
    EXEMPT,
    LEADER_ELECTION,
    REST,
    SYSTEM,
    USERS,
    WORKLOADS,
    classified,
    seats_of_body,
    seats_of_list,
)

__all__ = ["EXEMPT", "RequestSeats", "classified", "seats_of_body", "seats_of_list", "take_seat"]


async def take_seat(seats: FairSeats, flow: str) -> None:
    """Take one seat, after a wait where none is free; raises 429."""
    if not seats.take(flow, 1):
        try:
            await seats.wait(flow, 1)
        except Refused:
            raise too_many_requests() from None


class RequestSeats:
    """The levels with their seats; `seats` is how many requests of users the server works on at a time."""

    def __init__(self, seats: int, queue: int, patience: float, most_watches: int) -> None:
        def level(name: str, part: float, by_flow: float) -> FairSeats:
            own = max(4, int(seats * part))
            return FairSeats(name, own, max(2, int(own * by_flow)), queue, patience)

        self.levels = {
            found.name: found
            for found in (
                level(LEADER_ELECTION, 0.1, 0.5),
                level(SYSTEM, 0.3, 0.5),
                level(WORKLOADS, 0.3, 0.5),
                level(USERS, 0.25, 0.5),
                level(REST, 0.05, 1.0),
            )
        }
        self._most_watches = most_watches
        self._watches: dict[str, int] = {}
        for found in self.levels.values():
            _show(found)

    async def wait(self, level: FairSeats, flow: str, width: int) -> None:
        """Wait for seats that were not there at once; raises 429."""
        with FLOW_SECONDS.labels(level.name).time():
            try:
                await level.wait(flow, width)
            except Refused as error:
                FLOW_REFUSED.labels(level.name, error.reason).inc()
                raise too_many_requests() from None

    def watch_begins(self, level: str, user: str) -> None:
        """Count a watch of a user; raises 429 where that would be too many."""
        count = self._watches.get(user, 0)
        if level != EXEMPT and count >= self._most_watches:
            FLOW_REFUSED.labels(level, "watches").inc()
            raise too_many_requests(f"{user} has {count} open watches, as many as one user may have")
        self._watches[user] = count + 1

    def watch_ends(self, user: str) -> None:
        """Count a watch less."""
        left = self._watches[user] - 1
        if left:
            self._watches[user] = left
        else:
            del self._watches[user]


def _show(level: FairSeats) -> None:
    FLOW_TAKEN.labels(level.name).set_function(lambda: level.taken)
    FLOW_WAITING.labels(level.name).set_function(lambda: level.waiting)
