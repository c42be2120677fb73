"""Appends several messages as one atomic batch (ADR-50), and single ones without its headers.

First and last message are requests, those between plain publishes, and all of them are sent before the first answer is
waited for: the server checks everything when the batch is committed. The first message carries its event id as
message id. It names the batch: when an answer was lost and the batch is sent again, the log refuses it as a duplicate.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec import ValidationError
from msgspec.json import Decoder
from nats.aio.msg import Msg

from schemas.envelope import HEADER_EVENT_ID
from services._kit.base.log_errors import Ambiguous, Conflict, FenceLost, LogError
from services._kit.log.connection import Connection
from services._kit.log.ids import Sequence as Ids
from services._kit.log.jetstream_api import ApiAnswer
from services._kit.log.stream_port import Appended, Fence, NewMessage, check_batch

EXPECTED_SEQ = "Nats-Expected-Last-Subject-Sequence"
EXPECTED_SUBJECT = "Nats-Expected-Last-Subject-Sequence-Subject"
EXPECTED_STREAM = "Nats-Expected-Stream"
MSG_ID = "Nats-Msg-Id"
BATCH_ID = "Nats-Batch-Id"
BATCH_SEQ = "Nats-Batch-Sequence"
BATCH_COMMIT = "Nats-Batch-Commit"

_ids = Ids()


class PubAck(ApiAnswer):
    """JetStream's answer to a stored message or batch."""

    stream: str = ""
    seq: int = 0
    duplicate: bool = False
    count: int = 0


_pub_ack = Decoder(PubAck)


def _headers(message: NewMessage, stream: str, first: bool, fence: Fence | None) -> dict[str, str]:
    headers = dict(message.headers)
    if message.expect_last is not None:
        headers[EXPECTED_SEQ] = str(message.expect_last)
    if first:
        headers[EXPECTED_STREAM] = stream
        if fence is not None:
            headers[EXPECTED_SEQ] = str(fence.seq)
            headers[EXPECTED_SUBJECT] = fence.subject
        event_id = headers.get(HEADER_EVENT_ID)
        if event_id:
            headers[MSG_ID] = event_id
    return headers


def parse_ack(message: Msg) -> PubAck:
    """The publish acknowledgement of the log; raises the error in it."""
    try:
        ack = _pub_ack.decode(message.data)
    except ValidationError as error:
        raise Ambiguous(f"unreadable answer from the log: {error}") from error
    if ack.error is not None:
        raise ack.error.translated()
    return ack


async def publish_batch(
    connection: Connection, stream: str, messages: Sequence[NewMessage], fence: Fence | None, timeout: float = 5.0
) -> Appended:
    """Store all messages or none; see `Log.append` for what is raised.

    A conflict is reported as FenceLost when the fence is the batch's only condition, as Conflict otherwise.
    """
    check_batch(messages, fence)
    try:
        if len(messages) == 1:
            return await _single(connection, stream, messages[0], fence, timeout)
        return await _atomic(connection, stream, messages, fence, timeout)
    except Conflict as error:
        raise _blamed(error, messages, fence) from None


def _blamed(error: Conflict, messages: Sequence[NewMessage], fence: Fence | None) -> Conflict:
    """The same conflict, as FenceLost where the fence is the only condition that can have failed."""
    only_fence = fence is not None and type(error) is Conflict and all(m.expect_last is None for m in messages)
    return FenceLost(error.err_code, error.description) if only_fence else error


async def publish_each(
    connection: Connection, stream: str, messages: Sequence[NewMessage], fence: Fence | None, timeout: float = 5.0
) -> list[Appended | LogError]:
    """Store every message on its own, all of them sent before the first answer; what became of each.

    A conflict is reported as FenceLost when the fence is the message's only condition, as Conflict otherwise.
    """
    for message in messages:
        check_batch([message], fence)
    sent: list[asyncio.Future[Msg] | LogError] = []
    until = asyncio.get_running_loop().time() + timeout
    try:
        for message in messages:
            headers = _headers(message, stream, True, fence)
            try:
                sent.append(await connection.send_request(message.subject, message.data, headers))
            except LogError as error:
                sent.append(error)
        return [
            await _answer(connection, message, fence, future, until)
            for message, future in zip(messages, sent, strict=True)
        ]
    finally:
        for future in sent:
            if isinstance(future, asyncio.Future):
                future.cancel()


async def _answer(
    connection: Connection,
    message: NewMessage,
    fence: Fence | None,
    future: asyncio.Future[Msg] | LogError,
    until: float,
) -> Appended | LogError:
    if isinstance(future, LogError):
        return future
    left = max(0.0, until - asyncio.get_running_loop().time())
    try:
        ack = parse_ack(await connection.answer(future, message.subject, left))
    except Conflict as error:
        return _blamed(error, [message], fence)
    except LogError as error:
        return error
    return Appended(ack.seq, ack.seq)


async def _single(
    connection: Connection, stream: str, message: NewMessage, fence: Fence | None, timeout: float
) -> Appended:
    headers = _headers(message, stream, True, fence)
    ack = parse_ack(await connection.request(message.subject, message.data, headers, timeout))
    return Appended(ack.seq, ack.seq)


async def _atomic(
    connection: Connection, stream: str, messages: Sequence[NewMessage], fence: Fence | None, timeout: float
) -> Appended:
    batch = _ids.next()
    last = len(messages) - 1
    opened: asyncio.Future[Msg] | None = None
    committed: asyncio.Future[Msg] | None = None
    try:
        for index, message in enumerate(messages):
            headers = _headers(message, stream, index == 0, fence)
            headers[BATCH_ID] = batch
            headers[BATCH_SEQ] = str(index + 1)
            if index == 0:
                opened = await connection.send_request(message.subject, message.data, headers)
            elif index == last:
                headers[BATCH_COMMIT] = "1"
                committed = await connection.send_request(message.subject, message.data, headers)
            else:
                await connection.publish(message.subject, message.data, headers)
        if opened is None or committed is None:
            raise ValueError("a batch has at least two messages")
        ack = parse_ack(await connection.answer(committed, messages[last].subject, timeout))
    except LogError as error:
        raise _first_refusal(opened, error) from None
    finally:
        for future in (opened, committed):
            if future is not None and not future.done():
                future.cancel()
            elif future is not None and not future.cancelled():
                future.exception()
    return Appended(ack.seq - last, ack.seq)


def _first_refusal(opened: asyncio.Future[Msg] | None, error: LogError) -> LogError:
    """The reason why the batch was not even opened, when that is why its commit failed."""
    if opened is None or not opened.done() or opened.cancelled() or opened.exception() is not None:
        return error
    answer = opened.result()
    if not answer.data:
        return error
    try:
        parse_ack(answer)
    except LogError as first:
        return first
    return error
