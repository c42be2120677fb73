"""Answers the requests of one cluster one after the other, at a bounded rate, so that no agent can delay another."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

import msgspec
import structlog
from nats.aio.msg import Msg

from schemas.agent import (
    BLOB_DIGEST,
    BLOB_END,
    BLOB_OFFSET,
    BLOB_PROBLEM,
    BLOB_SIZE,
    MAX_BLOBS,
    MAX_QUESTIONS,
    MAX_RECORDS,
    MAX_REPORTS,
    BlobsWanted,
    Hello,
    HelloAnswer,
    Reported,
    ReportedAnswer,
    RoomAnswers,
    RoomQuestions,
)
from schemas.events.observed import WorkObserved
from schemas.events.request import AGENT_SIDE
from schemas.keys import ObjectKey
from schemas.topology import FACTS, REQUESTS
from services._kit.base.log_errors import LogError, Refused
from services._kit.base.pacing import Bucket
from services._kit.delivery.reports import weight
from services._kit.log.connection import Connection
from services._kit.log.jetstream_api import ApiAnswer, create_consumer, result
from services._kit.proxying.request_journal import RequestJournal
from services._kit.runtime.appender import KeyedEvents
from services._kit.runtime.service import Context
from services._rules.identity.accounts import agent_consumer
from services._rules.proxying.request_records import on_record
from services.registrar.capacity_queries import CapacityQueries
from services.registrar.decide import Turned, consumer_config, examine, is_stored, may_have, welcome
from services.registrar.metrics import DeskStats
from services.registrar.refusal_log import Refusals
from services.registrar.request_queue import RequestQueue
from services.registrar.settings import RegistrarSettings
from services.registrar.state import RegistrarState

log = structlog.get_logger("registrar.desk")

NO_CONSUMER: Final = 10014
CATCH_UP_SECONDS: Final = 2.0
CHUNK: Final = 1 << 20
_BURST_SECONDS: Final = 2.0
_READ_ONLY: Final = 8
"""How many bytes that are only read cost as much as one that is stored."""
_LARGEST: Final = 6 << 20
_GARBAGE_PER_SECOND: Final = 50.0
"""Requests that cannot be read; the bytes of large ones are paid for besides."""
_TURNED_AWAY_PER_SECOND: Final = 10.0
_BUSY: Final = "too many requests of this cluster wait: more were sent than its share allows; ask again in a moment"
_BEHIND: Final = "the registrar has not read a work yet that this request is about; ask again in a moment"
_SUPERSEDED: Final = "another agent greeted in the name of this cluster since; greet again before reporting"

T = TypeVar("T")


class Malformed(Exception):
    """A request that cannot be read; the message is the reason."""


class AgentRequests:
    """The requests of one cluster."""

    def __init__(
        self,
        cluster: str,
        context: Context[RegistrarState, str],
        settings: RegistrarSettings,
        stats: DeskStats,
    ) -> None:
        assert context.connection is not None
        self._cluster = cluster
        self._context = context
        self._connection: Connection = context.connection
        self._state = context.projection.state
        self._settings = settings
        self._stats = stats
        self._hellos = Bucket(settings.hellos_per_second, settings.hellos_per_second * _BURST_SECONDS)
        self._reports = Bucket(settings.reports_per_second, settings.reports_per_second * _BURST_SECONDS)
        self._bytes = Bucket(settings.blob_bytes_per_second, settings.blob_bytes_per_second * _BURST_SECONDS)
        self._report_bytes = Bucket(settings.report_bytes_per_second, settings.report_bytes_burst)
        self._session: str | None = None
        """The session in which reports count; None until one is known to this process."""
        self._rooms = CapacityQueries(cluster, context.clock.monotonic, settings.room_answer_seconds)
        self._journal = RequestJournal(context.logs[REQUESTS.name], context.clock)
        self._refusals = Refusals(cluster, context.clock.monotonic)
        waiting = (settings.waiting_requests, settings.waiting_bytes)
        self._garbage = Bucket(_GARBAGE_PER_SECOND, _GARBAGE_PER_SECOND)
        self._turned = Bucket(_TURNED_AWAY_PER_SECOND, _TURNED_AWAY_PER_SECOND)
        self._requests = RequestQueue(f"desk:{cluster}", self._attend, self._turn_away, *waiting)
        # Too many reports of an agent must not delay its requests.
        self._said = RequestQueue(f"reports:{cluster}", self._attend_reports, self._turn_away, *waiting, together=True)

    async def take(self, family: str, message: Msg) -> None:
        """Put a request in line, or turn it away when too many wait; the agent asks again."""
        line = self._said if family == "reports" else self._requests
        if not line.take(family, message):
            await self._turn_away(family, message)

    async def _turn_away(self, family: str, message: Msg) -> None:
        """Have an agent ask again soon; where very many are turned away, most find that out by the silence."""
        self._stats.dropped += 1
        match family:
            case "hello":
                hello = HelloAnswer(problem=_BUSY, heartbeat_seconds=self._settings.agent_heartbeat)
                await self._refuse(message, hello)
            case "reports":
                await self._refuse(message, ReportedAnswer(problem=_BUSY))
            case _:
                return

    async def _refuse(self, message: Msg, answer: HelloAnswer | ReportedAnswer) -> None:
        """Answer a request that is not served, at a bounded rate; an answer that cannot be sent harms no other one."""
        now = self._context.clock.monotonic()
        if self._turned.take(0, now):
            return
        self._turned.take(1, now)
        with suppress(LogError):
            await self._answer(message, msgspec.json.encode(answer))

    async def close(self) -> None:
        """Stop answering."""
        await self._requests.close()
        await self._said.close()
        await self._rooms.close()
        await self._journal.close()

    async def forget(self) -> None:
        """Delete the consumer: the cluster has no agent any more."""
        try:
            call = f"CONSUMER.DELETE.{FACTS.name}.{agent_consumer(self._cluster)}"
            await result(self._connection, call, {}, ApiAnswer, 5.0)
        except Refused as error:
            if error.err_code != NO_CONSUMER:
                log.warning("consumer_kept", cluster=self._cluster, reason=str(error))
        except LogError as error:
            log.warning("consumer_kept", cluster=self._cluster, reason=str(error))

    async def _attend(self, requests: Sequence[tuple[str, Msg]]) -> float:
        handlers = {"hello": self._hello, "blobs": self._blobs, "rooms": self._ask}
        pauses = [await self._carefully(partial(handlers[family], message)) for family, message in requests]
        return max(pauses, default=0.0)

    async def _attend_reports(self, requests: Sequence[tuple[str, Msg]]) -> float:
        return await self._carefully(partial(self._report, [message for _, message in requests]))

    async def _carefully(self, work: Callable[[], Awaitable[float]]) -> float:
        """Do a piece of work; the seconds to wait after it."""
        try:
            return await work()
        except Malformed as error:
            return self._malformed(error)
        except LogError as error:
            self._stats.failed += 1
            log.info("request_failed", cluster=self._cluster, reason=str(error))
        except Exception:
            # A bug concerns one request of one cluster.
            self._stats.failed += 1
            log.exception("request_failed", cluster=self._cluster)
        return 0.0

    def _malformed(self, error: Malformed) -> float:
        self._stats.refused += 1
        log.info("request_malformed", cluster=self._cluster, reason=str(error))
        return self._garbage.take(1, self._context.clock.monotonic())

    async def _hello(self, message: Msg) -> float:
        hello = _read(message, Hello)
        self._stats.hellos += 1
        answer = await self._greet(hello)
        await self._answer(message, msgspec.json.encode(answer))
        return self._hellos.take(1, self._context.clock.monotonic())

    async def _greet(self, hello: Hello) -> HelloAnswer:
        identity = await self._context.logs[FACTS.name].identity()
        restoration = self._context.restoration
        held = restoration is not None and restoration.holds
        found = welcome(self._state, self._cluster, hello, identity.id, identity.last_seq, held=held)
        if isinstance(found, Turned):
            self._stats.refused += 1
            return HelloAnswer(problem=found.problem, heartbeat_seconds=self._settings.agent_heartbeat)
        resync = False
        if hello.fresh:
            await self._make_consumer(found.start)
            resync = self._begin(hello)
        member = self._state.members[self._cluster]
        as_of = self._context.projection.position[FACTS.name]
        return HelloAnswer(
            uid=member.uid,
            stream=FACTS.name,
            consumer=agent_consumer(self._cluster),
            log=identity.id,
            start=found.start,
            heartbeat_seconds=self._settings.agent_heartbeat,
            models=member.models,
            configured=tuple(self._state.configured) if hello.fresh else None,
            as_of=as_of,
            identity=member.identity,
            settled=self._state.of(self._cluster).settled(as_of) if hello.fresh else 0,
            resync=resync,
        )

    def _begin(self, hello: Hello) -> bool:
        """Accept reports in the session of a new heartbeat only; whether another session may have reported before."""
        unknown = self._session is None or self._session != hello.before
        if self._session is not None and unknown:
            self._stats.sessions_taken += 1
            log.warning("session_taken", cluster=self._cluster, instance=hello.instance[:128])
        self._session = hello.session
        return unknown

    async def _is_superseded(self, message: Msg, request: Reported) -> bool:
        """Whether a request is of a session that has ended; the agent gets that answer."""
        if not (request.events or request.waits or request.answers or request.requests):
            return False
        if self._session is None:
            self._session = request.session
        if request.session == self._session:
            return False
        self._stats.refused += 1
        await self._refuse(message, ReportedAnswer(problem=_SUPERSEDED, superseded=True))
        return True

    async def _make_consumer(self, start: int) -> None:
        """Replace the consumer: a reader of the old one gets the answer that it is gone."""
        await self.forget()
        await create_consumer(self._connection, FACTS.name, consumer_config(self._cluster, start), 5.0)
        self._stats.consumers += 1

    async def _blobs(self, message: Msg) -> float:
        wanted = _read(message, BlobsWanted)
        await self._catch_up(wanted.as_of)
        sent = 0
        for digest in wanted.digests[:MAX_BLOBS]:
            # What is too much for one request is left out, and asked for with the next.
            if sent > _LARGEST:
                break
            sent += await self._send_blob(message, digest)
        await self._answer(message, b"", {BLOB_END: "1"})
        return self._bytes.take(sent, self._context.clock.monotonic())

    async def _send_blob(self, message: Msg, digest: str) -> int:
        """Send the bytes of one digest in pieces; their size."""
        if not may_have(self._state, self._cluster, digest):
            self._stats.refused += 1
            problem = f"no current work of {self._cluster} names it"
            await self._answer(message, b"", {BLOB_DIGEST: digest[:128], BLOB_PROBLEM: problem})
            return 0
        try:
            data = await self._context.blobs.get(digest)
        except LogError as error:
            await self._answer(message, b"", {BLOB_DIGEST: digest, BLOB_PROBLEM: str(error)})
            return 0
        for offset in range(0, max(1, len(data)), CHUNK):
            headers = {BLOB_DIGEST: digest, BLOB_SIZE: str(len(data)), BLOB_OFFSET: str(offset)}
            await self._answer(message, data[offset : offset + CHUNK], headers)
        self._stats.blobs += 1
        self._stats.blob_bytes += len(data)
        return len(data)

    async def _report(self, messages: Sequence[Msg]) -> float:
        """Store what was reported in requests that came one after the other: of each object the newest."""
        pause, size = 0.0, 0
        said: list[tuple[Msg, Sequence[WorkObserved]]] = []
        for message in messages:
            size += len(message.data)
            try:
                request = _read(message, Reported)
            except Malformed as error:
                pause = max(pause, self._malformed(error))
                continue
            if await self._is_superseded(message, request):
                pause = max(pause, self._reports.take(1, self._context.clock.monotonic()))
                continue
            pause = max(pause, await self._take_answers(request.answers[:MAX_QUESTIONS]))
            for record in request.requests[:MAX_RECORDS]:
                self._stats.records += 1
                self._journal.take(on_record(record, self._cluster, AGENT_SIDE, self._context.clock.now()))
            if request.waits and not request.events:
                await self._rooms.wait(partial(self._hand_questions, message))
                pause = max(pause, self._reports.take(1, self._context.clock.monotonic()))
            else:
                said.append((message, request.events[:MAX_REPORTS]))
        stored = await self._store(said) if said else 0
        count = sum(1 + len(events) for _, events in said)
        now = self._context.clock.monotonic()
        # To read what is not stored costs, too, but nothing on the log.
        paid = self._report_bytes.take(stored + (size - min(stored, size)) / _READ_ONLY, now)
        return max(pause, self._reports.take(count, now), paid)

    async def _store(self, said: Sequence[tuple[Msg, Sequence[WorkObserved]]]) -> int:
        """Append the newest report on each object, and answer; the bytes that were appended."""
        if not await self._catch_up(max((event.work_seq for _, events in said for event in events), default=0)):
            # A refusal would be the last word on reports that may well be true.
            for message, _ in said:
                await self._answer(message, msgspec.json.encode(ReportedAnswer(problem=_BEHIND)))
            return 0
        position, now = self._context.projection.position[FACTS.name], self._context.clock.now()
        refused: dict[tuple[int, int], str] = {}
        newest: dict[ObjectKey, tuple[tuple[int, int], WorkObserved]] = {}
        for request, (_, events) in enumerate(said):
            for index, event in enumerate(events):
                place = (request, index)
                found = examine(self._state, self._cluster, event, position, now, self._settings.status_bytes)
                if isinstance(found, str):
                    refused[place] = found
                    self._refusals.tell(event.key, found)
                else:
                    newest[found.key] = (place, found)
        due = [(place, event) for place, event in newest.values() if not is_stored(self._state, event)]
        if due:
            groups = [KeyedEvents(f"{place}", (event,)) for place, event in due]
            outcome = await self._context.appender.append(groups)
            for place, event in due:
                if f"{place}" in outcome.parked:
                    refused[place] = str(outcome.parked[f"{place}"])
                    self._refusals.tell(event.key, refused[place])
        for request, (message, events) in enumerate(said):
            own = tuple((index, refused[request, index]) for index in range(len(events)) if (request, index) in refused)
            self._stats.reports += len(events) - len(own)
            await self._answer(message, msgspec.json.encode(ReportedAnswer(refused=own)))
        self._stats.refused += len(refused)
        self._stats.superseded += sum(len(events) for _, events in said) - len(refused) - len(newest)
        return sum(weight(event) for _, event in due)

    async def _take_answers(self, said: Sequence[RoomAnswers]) -> float:
        """Hand answers to the estimator; an answer without a query costs as much as a request that cannot be read."""
        bad = 0
        for answers in said:
            problem = await self._rooms.answered(answers)
            if problem:
                bad += 1
                log.info("answer_refused", cluster=self._cluster, reason=problem)
        self._stats.rooms += len(said) - bad
        self._stats.refused += bad
        now = self._context.clock.monotonic()
        return max(self._hellos.take(bad, now) if bad else 0.0, self._reports.take(len(said), now))

    async def _hand_questions(self, message: Msg, questions: tuple[RoomQuestions, ...]) -> None:
        await self._answer(message, msgspec.json.encode(ReportedAnswer(questions=questions)))

    async def _ask(self, message: Msg) -> float:
        """A question of the estimator for this cluster's agent."""
        await self._rooms.ask(_read(message, RoomQuestions), partial(self._give_answers, message))
        return 0.0

    async def _give_answers(self, message: Msg, answers: RoomAnswers) -> None:
        await self._answer(message, msgspec.json.encode(answers))

    async def _catch_up(self, position: int) -> bool:
        """Wait a moment for a fact that the agent has read already; false when it is on the log, but not read here.

        What the agent made up is not waited for.
        """
        projection = self._context.projection
        if projection.position[FACTS.name] >= position:
            return True
        if (await self._context.logs[FACTS.name].identity()).last_seq < position:
            return True
        try:
            async with asyncio.timeout(CATCH_UP_SECONDS):
                await projection.wait_for(position)
        except TimeoutError:
            return False
        return True

    async def _answer(self, message: Msg, data: bytes, headers: dict[str, str] | None = None) -> None:
        if message.reply:
            await self._connection.publish(message.reply, data, headers)


def _read(message: Msg, kind: type[T]) -> T:
    if len(message.data) > _LARGEST:
        raise Malformed(f"{len(message.data)} bytes on {message.subject}, at most {_LARGEST} are read")
    try:
        return msgspec.json.decode(message.data, type=kind)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise Malformed(f"{message.subject}: {error}") from None
