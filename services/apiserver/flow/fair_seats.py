"""Seats that flows share fairly: each flow has a bounded queue, and free seats go to the waiting flows in turn."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

FULL: Final = "queue-full"
LATE: Final = "time-out"


class Refused(Exception):
    """There was no seat in time, or no place in the queue; `reason` says which."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class _Waiting:
    __slots__ = ("turn", "width")

    def __init__(self, turn: asyncio.Future[None], width: int) -> None:
        self.turn, self.width = turn, width


class _Flow:
    __slots__ = ("queue", "taken")

    def __init__(self) -> None:
        self.taken = 0
        self.queue: deque[_Waiting] = deque()


class FairSeats:
    """`seats` in all, of which one flow has `share` at most; `queue` requests of a flow wait for `patience` seconds."""

    def __init__(self, name: str, seats: int, share: int, queue: int, patience: float) -> None:
        self.name = name
        self.seats = seats
        self.share = max(1, min(share, seats))
        self.taken = 0
        self.waiting = 0
        self._queue = queue
        self._patience = patience
        self._flows: dict[str, _Flow] = {}
        self._turns: deque[str] = deque()
        self._blocked = False
        """Whether the flow whose turn it is waits for seats of others."""

    def width(self, wanted: int) -> int:
        """The seats that a request gets which would need so many."""
        return min(wanted, self.share)

    def take(self, name: str, width: int) -> bool:
        """Take seats if that is possible at once; the fast path."""
        flow = self._flows.get(name)
        if flow is None:
            flow = self._flows[name] = _Flow()
        elif flow.queue or flow.taken + width > self.share:
            return False
        if self._blocked or self.taken + width > self.seats:
            if not flow.taken and not flow.queue:
                del self._flows[name]
            return False
        flow.taken += width
        self.taken += width
        return True

    async def wait(self, name: str, width: int) -> None:
        """Wait for seats after `take` found none; raises Refused."""
        flow = self._flows.get(name)
        if flow is None:
            flow = self._flows[name] = _Flow()
        if len(flow.queue) >= self._queue:
            raise Refused(FULL)
        waiting = _Waiting(asyncio.get_running_loop().create_future(), width)
        if not flow.queue:
            self._turns.append(name)
        flow.queue.append(waiting)
        self.waiting += 1
        self._seat()
        try:
            async with asyncio.timeout(self._patience):
                await waiting.turn
        except BaseException as error:
            if waiting.turn.done() and not waiting.turn.cancelled():
                # The seat came at the moment in which the wait ended.
                self.leave(name, width)
            else:
                self._forget(name, flow, waiting)
            if isinstance(error, TimeoutError):
                raise Refused(LATE) from None
            raise

    def leave(self, name: str, width: int) -> None:
        """Give seats back."""
        flow = self._flows[name]
        flow.taken -= width
        self.taken -= width
        if self._turns:
            self._seat()
        if not flow.taken and not flow.queue:
            self._flows.pop(name, None)

    def _forget(self, name: str, flow: _Flow, waiting: _Waiting) -> None:
        if waiting in flow.queue:
            flow.queue.remove(waiting)
            self.waiting -= 1
        if not flow.queue:
            if name in self._turns:
                self._turns.remove(name)
            if not flow.taken:
                self._flows.pop(name, None)
        self._seat()

    def _seat(self) -> None:
        """Seat those whose turn it is, one of each flow after the other."""
        self._blocked = False
        passed = 0
        while passed < len(self._turns):
            name = self._turns[0]
            flow = self._flows[name]
            first = flow.queue[0]
            if flow.taken + first.width > self.share:
                self._turns.rotate(-1)
                passed += 1
                continue
            if self.taken + first.width > self.seats:
                # Later and narrower ones wait as well: otherwise a wide one would wait for ever.
                self._blocked = True
                return
            flow.queue.popleft()
            self.waiting -= 1
            self._turns.popleft()
            if flow.queue:
                self._turns.append(name)
            passed = 0
            if not first.turn.done():
                flow.taken += first.width
                self.taken += first.width
                first.turn.set_result(None)
