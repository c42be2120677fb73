"""Limits concurrent requests per cluster by additive increase and multiplicative decrease (AIMD).

The number grows by about one for every round of good answers while at least half of it is in use, and is halved (slow
answers: reduced by a fifth) at most once per round when the cluster reports overload, does not answer, or
answers much slower than it did. A cluster that names a time (Retry-After) is left alone until then.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Final, TypeVar

from schemas.manifest import Manifest
from services._kit.kube.answers.shapes import check_deletion, check_manifest
from services._kit.kube.client import ApiError, BadAnswer, KubeClient, NotLeading, Unreachable

T = TypeVar("T")

TOO_MUCH: Final = frozenset({429, 503, 504})
"""Codes by which an API server reports that it, or a server behind it, is overloaded."""
SLOW_SECONDS: Final = 1.0
"""An answer faster than this is never slow."""
SLOW_FACTOR: Final = 4.0
"""How much slower than its best a cluster answers before that counts as slow."""
_FORGET: Final = 1.02
_HALF: Final = 0.5
_FIFTH: Final = 0.8


class RequestOutcome(Enum):
    """How a request went, as far as the cluster's load is concerned."""

    ANSWERED = "answered"
    PUSHED_BACK = "pushed back"
    SILENT = "silent"
    UNSENT = "unsent"


def too_much(error: Exception) -> bool:
    """Whether a refusal concerns the cluster's load and not the object."""
    return isinstance(error, ApiError) and error.status in TOO_MUCH


class Window:
    """How many requests may be under way; pure, times are given in seconds of any one clock."""

    def __init__(self, most: int, *, longest_pause: float = 30.0) -> None:
        self.limit = float(max(most, 1))
        self.under_way = 0
        self.resume_at = 0.0
        """Nothing is sent before this moment."""
        self._most = self.limit
        self._longest_pause = longest_pause
        self._reduced_at = float("-inf")
        self._best = 0.0

    def may_begin(self, now: float) -> bool:
        """Whether there is room for one more request."""
        return self.under_way < int(self.limit) and now >= self.resume_at

    def begin(self) -> None:
        """One more request is under way."""
        self.under_way += 1

    def ended(self, outcome: RequestOutcome, began: float, now: float, retry_after: float = 0.0) -> None:
        """A request that was begun at a moment is over; `retry_after` is what the cluster asked for, in seconds."""
        used = 2 * self.under_way >= self.limit
        self.under_way -= 1
        match outcome:
            case RequestOutcome.PUSHED_BACK:
                self._reduce(_HALF, began, now)
                if retry_after > 0:
                    self.resume_at = max(self.resume_at, now + min(retry_after, self._longest_pause))
            case RequestOutcome.SILENT:
                self._reduce(_HALF, began, now)
            case RequestOutcome.ANSWERED:
                taken = now - began
                slow = taken > SLOW_SECONDS and taken > SLOW_FACTOR * self._best > 0
                # The best is forgotten slowly, so that a cluster that became another is measured by what it is now.
                self._best = taken if not self._best else min(taken, self._best * _FORGET)
                if slow:
                    # Perhaps only some objects are slow there: the others must not come to a stop behind them.
                    self._reduce(_FIFTH, began, now, least=self._most / 4)
                elif used:
                    self.limit = min(self._most, self.limit + 1 / self.limit)
            case RequestOutcome.UNSENT:
                pass

    def _reduce(self, by: float, began: float, now: float, least: float = 1.0) -> None:
        if began < self._reduced_at:
            return  # Sent before the last reduction: it is no evidence of the effect of that.
        self.limit = max(self.limit * by, min(self.limit, least), 1.0)
        self._reduced_at = now


class ConcurrencyLimiter:
    """Lets requests to one cluster through in the order they came, as many at once as its window allows."""

    def __init__(self, most: int, *, longest_pause: float = 30.0) -> None:
        self.window = Window(most, longest_pause=longest_pause)
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    async def send(self, request: Callable[[], Awaitable[T]]) -> T:
        """Send one request when it is its turn; raises what it raises."""
        loop = asyncio.get_running_loop()
        if self._waiting or not self.window.may_begin(loop.time()):
            await self._turn()
        else:
            self.window.begin()
        began = loop.time()
        outcome, retry_after = RequestOutcome.UNSENT, 0.0
        try:
            answer = await request()
            outcome = RequestOutcome.ANSWERED
            return answer
        except NotLeading:
            raise
        except Unreachable:
            outcome = RequestOutcome.SILENT
            raise
        except ApiError as error:
            outcome = RequestOutcome.PUSHED_BACK if too_much(error) else RequestOutcome.ANSWERED
            retry_after = error.retry_after
            raise
        finally:
            self.window.ended(outcome, began, loop.time(), retry_after)
            self._admit()

    async def _turn(self) -> None:
        """Return when it is our turn, with the request counted as under way."""
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        self._admit()
        try:
            await waiting
        except asyncio.CancelledError:
            if waiting.done() and not waiting.cancelled():
                # It was our turn already: the next one gets it.
                self.window.under_way -= 1
                self._admit()
            raise

    def _admit(self) -> None:
        """Let as many through as may be, and come back when a pause is over."""
        loop = asyncio.get_running_loop()
        while self._waiting and self.window.may_begin(loop.time()):
            waiting = self._waiting.popleft()
            if not waiting.done():
                self.window.begin()
                waiting.set_result(None)
        pause = self.window.resume_at - loop.time()
        if self._waiting and pause > 0 and self._timer is None:
            self._timer = loop.call_later(pause, self._resume)

    def _resume(self) -> None:
        self._timer = None
        self._admit()

    def close(self) -> None:
        """Cancel the pending pause, which must not outlive the lane; the owner cancels waiting requests."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class LimitedClient:
    """A client whose requests wait for their turn; raises what the client raises, and BadAnswer for no object."""

    def __init__(self, client: KubeClient, pace: ConcurrencyLimiter) -> None:
        self._client = client
        self._pace = pace

    async def get(self, path: str) -> Manifest:
        """Read one object."""
        return _named(path, await self._pace.send(lambda: self._client.get(path)))

    async def create(self, path: str, body: bytes) -> Manifest:
        """POST an object to its collection."""
        return _an_object(path, await self._pace.send(lambda: self._client.create(path, body)))

    async def update(self, path: str, body: bytes) -> Manifest:
        """PUT an object."""
        return _named(path, await self._pace.send(lambda: self._client.update(path, body)))

    async def delete(self, path: str, *, propagation: str = "", uid: str = "") -> bytes:
        """DELETE an object, optionally only if it still has this uid."""
        answer = await self._pace.send(lambda: self._client.delete(path, propagation=propagation, uid=uid))
        try:
            check_deletion(answer, path.rpartition("/")[2], uid)
        except BadAnswer as error:
            raise BadAnswer(f"DELETE {path}: {error}") from error
        return answer


def _an_object(path: str, answer: Manifest, name: str = "") -> Manifest:
    try:
        check_manifest(answer)
        found = answer["metadata"]["name"]
        if name and found != name:
            raise BadAnswer(f"the answer is about {found[:60]!r}")
    except BadAnswer as error:
        raise BadAnswer(f"{path}: {error}") from error
    return answer


def _named(path: str, answer: Manifest) -> Manifest:
    return _an_object(path, answer, path.rpartition("/")[2])
