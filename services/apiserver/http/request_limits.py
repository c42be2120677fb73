"""What one request may take: its seats, its time, and the watches that its user may have open."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from services._kit.base import durations
from services.apiserver.core.request import RequestInfo
from services.apiserver.core.request_context import Identity
from services.apiserver.core.status_errors import bad_request
from services.apiserver.flow.fair_seats import FairSeats
from services.apiserver.flow.request_deadlines import RequestDeadlines
from services.apiserver.flow.request_seats import EXEMPT, RequestSeats, classified, seats_of_body, seats_of_list
from services.apiserver.flow.text_workers import TextWorkers

if TYPE_CHECKING:
    from services.apiserver.http.handler import Request

_READS: Final = frozenset({"GET", "HEAD"})

CountOf = Callable[[RequestInfo], int]
"""How many objects a collection holds."""


class RequestLimits:
    """The limits of one server. `seconds_of_request` bounds every request but watches."""

    def __init__(
        self, seats: RequestSeats, texts: TextWorkers, seconds_of_request: float, count: CountOf = lambda _: 0
    ) -> None:
        self.seats = seats
        self.texts = texts
        self.deadlines = RequestDeadlines()
        self._seconds = seconds_of_request
        self._count = count

    def seconds(self, query: Mapping[str, str]) -> float:
        """The time of a request: what it asks for, and no more than others have; raises 400."""
        asked = query.get("timeout")
        if not asked:
            return self._seconds
        found = 0.0 if asked == "0" else durations.seconds(asked)
        if found is None:
            text = f'invalid timeout specified in the request URL - time: invalid duration "{asked}"'
            raise bad_request(text)
        return min(found, self._seconds) if found > 0 else self._seconds

    def seat_of(
        self, request: Request, info: RequestInfo | None, parts: list[str]
    ) -> tuple[FairSeats | None, str, int]:
        """Level, flow and seats of a request; no level for one that is exempt."""
        name, flow = classified(request.user, info, parts)
        if name == EXEMPT:
            return None, flow, 0
        level = self.seats.levels[name]
        if request.method in _READS:
            if info is None or info.name or "limit" in request.query:
                return level, flow, 1
            return level, flow, level.width(seats_of_list(self._count(info)))
        return level, flow, level.width(seats_of_body(request.http.content_length or 0))

    @contextmanager
    def watch(self, user: Identity) -> Iterator[None]:
        """Count a watch while it is open; raises 429."""
        name, _ = classified(user, None, [])
        self.seats.watch_begins(name, user.name)
        try:
            yield
        finally:
            self.seats.watch_ends(user.name)
