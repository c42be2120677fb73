"""JetStream's API: requests and the errors in their answers, consumers, and the protocol of pull requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
from msgspec import Struct

from services._kit.base.log_errors import LogError, from_api

if TYPE_CHECKING:
    from services._kit.log.connection import Connection

NANOSECOND: Final = 1_000_000_000
NOTHING: Final = "100"
"""Status of a heartbeat: nothing was on its way for a while."""
NO_MESSAGE: Final = 10037
NO_STREAM: Final = 10059


class ApiError(Struct):
    """JetStream's error object."""

    code: int = 0
    err_code: int = 0
    description: str = ""

    def translated(self) -> LogError:
        """The error as the log's users know it."""
        return from_api(self.code, self.err_code, self.description)


class ApiAnswer(Struct):
    """What every answer may hold."""

    error: ApiError | None = None


class StreamConfig(Struct, frozen=True):
    """What is of interest of a stream's configuration."""

    metadata: dict[str, str] = {}
    num_replicas: int = 1


class StreamState(Struct, frozen=True):
    """What a stream holds; `deleted` and `subjects` only where the request asked for them."""

    first_seq: int = 0
    last_seq: int = 0
    deleted: list[int] | None = None
    subjects: dict[str, int] = {}


class StreamInfo(ApiAnswer):
    """Configuration and state of a stream; `total` counts the subjects that match the request."""

    config: StreamConfig = StreamConfig()
    state: StreamState = StreamState()
    created: str = ""
    total: int = 0


class _Created(ApiAnswer):
    num_pending: int = 0


A = TypeVar("A", bound=ApiAnswer)


async def answer(
    connection: Connection, call: str, query: Mapping[str, Any], kind: type[A], timeout: float = 10.0
) -> A:
    """The answer to a request, with the error that it may hold; raises Unavailable and Ambiguous."""
    body = msgspec.json.encode(query) if query else b""
    message = await connection.request(f"{connection.api}.{call}", body, timeout=timeout)
    return msgspec.json.decode(message.data, type=kind)


async def result(
    connection: Connection, call: str, query: Mapping[str, Any], kind: type[A], timeout: float = 10.0
) -> A:
    """The answer to a request; raises LogError, also for the error in it."""
    found = await answer(connection, call, query, kind, timeout)
    if found.error is not None:
        raise found.error.translated()
    return found


async def subject_counts(connection: Connection, stream: str, pattern: str, timeout: float = 10.0) -> dict[str, int]:
    """How many messages each subject that matches holds; asked page by page. Raises LogError."""
    counts: dict[str, int] = {}
    while True:
        query = {"subjects_filter": pattern, "offset": len(counts)}
        info = await result(connection, f"STREAM.INFO.{stream}", query, StreamInfo, timeout)
        before = len(counts)
        counts.update(info.state.subjects)
        if len(counts) >= info.total or len(counts) == before:
            return counts


def passing_consumer(name: str, inactive: float) -> dict[str, object]:
    """The configuration of a reader without acknowledgements, which ends after so many seconds without a request."""
    return {
        "name": name,
        "ack_policy": "none",
        "replay_policy": "instant",
        "max_deliver": 1,
        "mem_storage": True,
        "num_replicas": 1,
        "inactive_threshold": int(inactive * NANOSECOND),
    }


async def create_consumer(
    connection: Connection, stream: str, config: Mapping[str, object], timeout: float = 10.0
) -> int:
    """Create a consumer by its configuration; how many messages it has to deliver. Raises LogError."""
    call = f"CONSUMER.CREATE.{stream}.{config.get('name') or config['durable_name']}"
    query = {"stream_name": stream, "config": config, "action": "create"}
    return (await result(connection, call, query, _Created, timeout)).num_pending


class Ended(Struct, frozen=True):
    """The end of a request, of which `left` messages will not come (None: all); or of the consumer, then with `why`."""

    left: int | None = None
    why: str = ""

    def on_way(self, asked: int) -> int:
        """How many of those that were asked for are still to come."""
        return max(0, asked - self.left) if self.left is not None else 0


def positions(reply: str) -> tuple[int, int, int, int]:
    """Stream sequence, consumer sequence, time in ns and messages still pending, from a delivery's reply subject."""
    tokens = reply.split(".")
    at = 4 if len(tokens) == 9 else 6
    return int(tokens[at + 1]), int(tokens[at + 2]), int(tokens[at + 3]), int(tokens[at + 4])


def ended(headers: Mapping[str, str]) -> Ended:
    """The end of a pull request by its status, which is no heartbeat."""
    status, text = headers.get("Status", ""), headers.get("Description", "").lower()
    if status == "503" or (status == "409" and ("deleted" in text or "leadership" in text or "shutdown" in text)):
        return Ended(why=text or "no server answers for it")
    left = headers.get("Nats-Pending-Messages")
    return Ended(left=int(left) if left else None)


def request(messages: int, size: int, expires: float, heartbeat: float) -> bytes:
    """A request for so many messages and bytes at most; `expires` and `heartbeat` in seconds."""
    return msgspec.json.encode(
        {
            "batch": messages,
            "max_bytes": size,
            "expires": int(expires * NANOSECOND),
            "idle_heartbeat": int(heartbeat * NANOSECOND),
        }
    )
