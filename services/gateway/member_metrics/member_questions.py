"""Asks many members at once for their metrics, each within bounds of time and bytes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct, field

from services._kit.concurrency.tasks import all_of
from services._kit.kube.answers.bodies import Buffer
from services._kit.kube.api import UNREADABLE, BadAnswer
from services._kit.proxying.member_exchange import (
    Exchange,
    MemberRefused,
    MemberRequest,
    MemberTransport,
    MemberUnreachable,
)
from services._rules.kubernetes.rbac.service_roles import SERVICE_GROUP, user_of

if TYPE_CHECKING:
    from services.gateway.metrics import QuestionMetrics

AT_ONCE: Final = 128
"""Members that are being asked at a time, for all questions together."""
ALTOGETHER: Final = 256 << 20
"""Bytes of answers that are being read or merged, for all questions together."""
HURRIED_SECONDS: Final = 1.0
"""For a member that did not answer the last question in time, until it answers one again or a while is over."""
REMEMBERED_SECONDS: Final = 60.0
USER: Final = user_of("gateway")
"""In whose name members are asked: the control plane has permitted the caller, and their own roles permit this user."""
_HEADERS: Final = (("Accept", "application/json"), ("Accept-Encoding", "identity"))
_LARGEST_STATUS: Final = 64 << 10
_LONGEST: Final = 500


class QuestionBounds(Struct, frozen=True):
    """Seconds and bytes of the answer of one member."""

    seconds: float
    answer_bytes: int


class Silent(Exception):
    """A member gave no answer that can be used; the text says why."""


class Outcome(Struct):
    """Who answered a question, and why others did not."""

    answered: set[str] = field(default_factory=set)
    silent: dict[str, str] = field(default_factory=dict)


class _Status(Struct):
    message: str = ""
    reason: str = ""


_status: Final = msgspec.json.Decoder(_Status)

PathOf = Callable[[str], Awaitable[str]]
"""The path, with its query, by which a member is asked; empty where it serves nothing of the kind."""
Take = Callable[[str, bytes], Awaitable[None]]
"""Takes the answer of a member in; raises BadAnswer."""


class MemberQuestions:
    """Asks members in the gateway's own name."""

    def __init__(self, transport: MemberTransport, bounds: QuestionBounds, metrics: QuestionMetrics) -> None:
        self._transport = transport
        self._bounds = bounds
        self.seconds = bounds.seconds
        self._metrics = metrics
        self._seats = asyncio.Semaphore(AT_ONCE)
        self._late: dict[str, float] = {}
        self.held_bytes = 0
        """Bytes of answers that are being read or merged."""

    async def ask(self, members: Iterable[str], path_of: PathOf, take: Take, *, most: int = 0) -> Outcome:
        """Ask members, all at once, for `most` bytes each (0: those of a list); none holds up the others."""
        outcome = Outcome()

        async def one(name: str) -> None:
            try:
                if await self._asked(name, path_of, take, most or self._bounds.answer_bytes):
                    outcome.answered.add(name)
            except Silent as error:
                outcome.silent[name] = str(error)[:_LONGEST]
                self._metrics.silent(name)

        await all_of(one(name) for name in dict.fromkeys(members))
        return outcome

    async def _asked(self, name: str, path_of: PathOf, take: Take, most: int) -> bool:
        """Ask one member; whether it has an answer. Raises Silent."""
        held, seconds = _Held(self), self._seconds(name)
        try:
            async with asyncio.timeout(seconds), self._seats:
                path = await path_of(name)
                body = await self._body(name, path, most, held) if path else None
            self._late.pop(name, None)
            if body is not None:
                await take(name, body)
            return body is not None
        except TimeoutError as error:
            self._late[name] = time.monotonic() + REMEMBERED_SECONDS
            raise Silent(f"no answer within {seconds:g} s") from error
        except BadAnswer as error:
            raise Silent(f"its answer cannot be used: {error}") from error
        except (MemberUnreachable, MemberRefused) as error:
            raise Silent(str(error)) from error
        finally:
            held.release()

    async def body(self, name: str, path: str, most: int) -> bytes | None:
        """A small document of a member, None where it has none; raises Silent, MemberUnreachable, MemberRefused."""
        held = _Held(self)
        try:
            return await self._body(name, path, most, held)
        finally:
            held.release()

    def _seconds(self, name: str) -> float:
        hurried = self._late.get(name, 0.0) > time.monotonic()
        return min(self.seconds, HURRIED_SECONDS) if hurried else self.seconds

    async def _body(self, name: str, path: str, most: int, held: _Held) -> bytes | None:
        exchange = await self._transport.open(MemberRequest(name, "GET", path, _HEADERS, USER, (SERVICE_GROUP,)))
        try:
            if exchange.status == 404:
                return None
            if exchange.status != 200:
                raise Silent(_refusal(exchange.status, await _read(exchange, _LARGEST_STATUS, held)))
            if any(key.lower() == "content-encoding" and value != "identity" for key, value in exchange.headers):
                raise Silent("its answer is packed, which was not asked for")
            return await _read(exchange, most, held)
        finally:
            await exchange.close()


class _Held:
    """The bytes that one question to one member holds."""

    def __init__(self, questions: MemberQuestions) -> None:
        self._questions = questions
        self._bytes = 0

    def add(self, count: int) -> None:
        """More bytes; raises Silent where all questions together hold too many."""
        if self._questions.held_bytes + count > ALTOGETHER:
            raise Silent(f"the answers that are being read exceed {ALTOGETHER >> 20} MiB; ask for less")
        self._questions.held_bytes += count
        self._bytes += count

    def release(self) -> None:
        """None any more."""
        self._questions.held_bytes -= self._bytes
        self._bytes = 0


async def _read(exchange: Exchange, most: int, held: _Held) -> bytes:
    found = Buffer()
    while data := await exchange.read():
        held.add(len(data))
        found.add(data)
        if found.size > most:
            raise Silent(f"its answer has more than {most} bytes")
    return found.whole()


def _refusal(code: int, body: bytes) -> str:
    """What a member says that refuses a question."""
    try:
        found = _status.decode(body)
    except UNREADABLE:
        found = _Status()
    text = f"HTTP {code}: {found.message or found.reason}" if found.message or found.reason else f"HTTP {code}"
    if code == 403:
        return f"its roles do not permit {USER} to read metrics (join it again): {text}"
    return text
