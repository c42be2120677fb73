"""Creates and updates the streams that schemas.topology describes; applying twice changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from schemas.topology import STREAMS, Stream
from services._kit.base.late_logger import LateLogger
from services._kit.base.log_errors import LogError, Refused, Unavailable, from_api
from services._kit.log.connection import Connection
from services._kit.log.ids import random_id
from services._kit.log.jetstream import IDENTITY_KEY
from services._kit.log.jetstream_api import NANOSECOND, NO_STREAM, ApiAnswer, ApiError, answer, result
from services._rules.log.stream_limits import LEAST, Fill, most_bytes

IMPORTING = "fleetlog-importing"
"""In the metadata of a stream while a command fills it: what stands there is not whole."""


_NO_ROOM: Final = frozenset({10023, 10028, 10047})
"""Codes of a server or an account that has not as much storage as a stream asks for."""
_OPERATORS: Final = ("num_replicas", "max_bytes", "max_msg_size")

log = LateLogger("topology")


class _State(Struct):
    bytes: int = 0
    messages: int = 0
    consumer_count: int = 0


class _Peer(Struct):
    current: bool = False
    offline: bool = False
    lag: int = 0


class _Cluster(Struct):
    leader: str = ""
    replicas: list[_Peer] = []


class _Answer(ApiAnswer):
    config: dict[str, Any] = {}
    state: _State = msgspec.field(default_factory=_State)
    cluster: _Cluster | None = None
    """None where one server stands alone."""


class _Listed(ApiAnswer):
    streams: list[_Answer] = []
    total: int = 0


def stream_config(stream: Stream, replicas: int = 1) -> dict[str, Any]:
    """A stream as the server's API writes it, without the identity."""
    config: dict[str, Any] = {
        "name": stream.name,
        "description": stream.purpose,
        "subjects": list(stream.subjects),
        "retention": "limits",
        "storage": "file",
        "num_replicas": replicas,
        "max_consumers": stream.max_consumers,
        "max_msgs": -1,
        "max_msgs_per_subject": stream.max_per_subject,
        "max_bytes": stream.max_bytes,
        "max_age": int(stream.max_age * NANOSECOND),
        "max_msg_size": stream.max_message,
        "discard": stream.discard,
        "duplicate_window": int(stream.duplicate_window * NANOSECOND),
        "deny_delete": stream.deny_delete,
        "allow_direct": stream.allow_direct,
        "allow_atomic": stream.allow_atomic,
        "compression": stream.compression,
    }
    if stream.sources:
        config["sources"] = [{"name": source} for source in stream.sources]
        del config["subjects"]
    return config


async def _call(connection: Connection, call: str, body: dict[str, Any]) -> _Answer:
    return await answer(connection, f"STREAM.{call}", body, _Answer)


def _differs(wanted: dict[str, Any], present: dict[str, Any]) -> list[str]:
    """Fields of a stream that are not as wanted; the server leaves out what is empty."""
    empty: tuple[Any, ...] = (None, False, 0, "", [])
    changed = []
    for name, value in wanted.items():
        have = present.get(name)
        if name == "sources":
            have = [{"name": source.get("name")} for source in have or []]
        if have != value and not (value in empty and have in empty):
            changed.append(name)
    return changed


def _later(stream: Stream, present: dict[str, Any]) -> bool:
    """Whether a later version has made a stream: it takes all subjects that this version knows, and more."""
    return set(stream.subjects) < set(present.get("subjects") or ())


class NoRoom(Refused):
    """The server has not as much storage as a stream asks for."""


async def apply_stream(
    connection: Connection,
    stream: Stream,
    replicas: int = 1,
    sizes: Mapping[str, int] | None = None,
    notes: Mapping[str, str] | None = None,
) -> Literal["created", "updated", "unchanged"]:
    """Make one stream as described, keeping the identity it has; raises NoRoom, or Refused when the server will not.

    A stream with more replicas keeps them: only an operator reduces their number. The same holds for its size: a
    bound is kept, unless `sizes` (bytes by stream) asks for another. One of a later version keeps all its settings: its
    services may be running beside this one. A stream that is created gets `notes` in its metadata.
    """
    wanted = stream_config(stream, replicas)
    sizes = sizes or {}
    info = await _call(connection, f"INFO.{stream.name}", {})
    if info.error is not None and info.error.err_code == NO_STREAM:
        wanted["max_bytes"] = most_bytes(stream, None, 0, sizes)
        noted = {**(notes or {}), IDENTITY_KEY: random_id()}
        created = await _call(connection, f"CREATE.{stream.name}", {**wanted, "metadata": noted})
        if created.error is None:
            return "created"
        # Another process created it in the meantime: use the existing one.
        info = await _call(connection, f"INFO.{stream.name}", {})
        if info.error is not None:
            raise _error(stream, created.error)
    if info.error is not None:
        raise _error(stream, info.error)
    if _later(stream, info.config):
        wanted = {name: info.config.get(name) for name in wanted}
    wanted["num_replicas"] = max(replicas, int(info.config.get("num_replicas") or 1))
    wanted["max_bytes"] = most_bytes(stream, int(info.config.get("max_bytes") or -1), info.state.bytes, sizes)
    metadata: dict[str, str] = info.config.get("metadata") or {}
    if not _differs(wanted, info.config) and IDENTITY_KEY in metadata:
        return "unchanged"
    wanted["metadata"] = {**metadata, IDENTITY_KEY: metadata.get(IDENTITY_KEY) or random_id()}
    updated = await _call(connection, f"UPDATE.{stream.name}", {**info.config, **wanted})
    if updated.error is not None:
        raise _error(stream, updated.error)
    return "updated"


def _error(stream: Stream, error: ApiError) -> LogError:
    description = f"{stream.name}: {error.description}"
    if error.err_code in _NO_ROOM or "storage" in error.description:
        return NoRoom(error.err_code, description)
    return from_api(error.code, error.err_code, description)


async def apply(
    connection: Connection,
    streams: Iterable[Stream] = STREAMS,
    replicas: int = 1,
    sizes: Mapping[str, int] | None = None,
    notes: Mapping[str, Mapping[str, str]] | None = None,
) -> dict[str, str]:
    """Make all streams as described, created ones with `notes` by stream; what happened, by stream.

    Where the server has no room for the sizes of the streams that have none yet, all of those are made smaller alike.
    Raises NoRoom where not even small ones fit, and where `sizes` asks for too much.
    """
    streams, sizes, notes, share = tuple(streams), dict(sizes or {}), notes or {}, 1.0
    bounded = {fill.stream for fill in await fills(connection) if fill.most > 0}
    new = [stream for stream in streams if stream.name not in bounded | sizes.keys() and stream.max_bytes > 0]
    while True:
        shares = {stream.name: max(LEAST, int(stream.max_bytes * share)) for stream in new} if share < 1 else {}
        try:
            return {
                stream.name: await apply_stream(
                    connection, stream, replicas, {**shares, **sizes}, notes.get(stream.name)
                )
                for stream in streams
            }
        except NoRoom as error:
            if not new or (shares and all(size == LEAST for size in shares.values())):
                raise
            share /= 2
            log.warning("streams_made_smaller", share=share, streams=[stream.name for stream in new], why=str(error))


async def fills(connection: Connection) -> list[Fill]:
    """How full every stream of the server's account is, those of API servers included; raises LogError."""
    found: list[Fill] = []
    while True:
        listed = await result(connection, "STREAM.LIST", {"offset": len(found)}, _Listed)
        found += [_fill(one) for one in listed.streams]
        if not listed.streams or len(found) >= listed.total:
            return sorted(found, key=lambda fill: fill.stream)


def _fill(one: _Answer) -> Fill:
    group = one.cluster or _Cluster(leader="alone")
    return Fill(
        stream=one.config["name"],
        bytes=one.state.bytes,
        most=int(one.config.get("max_bytes") or -1),
        messages=one.state.messages,
        refuses=one.config.get("discard") == "new",
        passing=bool(one.config.get("max_age")),
        consumers=one.state.consumer_count,
        replicas=int(one.config.get("num_replicas") or 1),
        current=bool(group.leader) + sum(peer.current and not peer.offline for peer in group.replicas),
        behind=max((peer.lag for peer in group.replicas), default=0),
    )


class Shortcoming(Struct, frozen=True):
    """What is not as described with one stream, in a sentence that says what to do about it."""

    stream: str
    kind: Literal["missing", "silent", "refused", "importing", "different"]
    """`silent`: its server cannot say now; `importing`: a command fills it, or did not finish that."""
    words: str


async def look(connection: Connection, streams: Iterable[Stream] = STREAMS) -> list[Shortcoming]:
    """What is missing or different; empty when all is as described. Raises Unavailable and Ambiguous without an answer.

    Replica counts and sizes are the operator's choice and not compared; what a later version made counts as described.
    """
    found = []
    for stream in streams:
        info = await _call(connection, f"INFO.{stream.name}", {})
        if info.error is not None:
            found.append(_unknown(stream, info.error))
            continue
        if IMPORTING in (info.config.get("metadata") or {}):
            words = f"stream {stream.name}: an import did not finish; remove all streams and import again"
            found.append(Shortcoming(stream.name, "importing", words))
        if _later(stream, info.config):
            continue
        wanted = stream_config(stream)
        for name in (*_OPERATORS, "description"):
            del wanted[name]
        for name in _differs(wanted, info.config):
            words = f"{name} is {info.config.get(name)!r}, expected {wanted[name]!r}; apply the topology"
            found.append(Shortcoming(stream.name, "different", f"stream {stream.name}: {words}"))
    return found


def _unknown(stream: Stream, error: ApiError) -> Shortcoming:
    """Why nothing is known of a stream."""
    words = f"stream {stream.name}: {error.description}"
    if isinstance(error.translated(), Unavailable):
        return Shortcoming(stream.name, "silent", words)
    kind: Literal["missing", "refused"] = "missing" if error.err_code == NO_STREAM else "refused"
    return Shortcoming(stream.name, kind, f"{words}; apply the topology")


async def check(connection: Connection, streams: Iterable[Stream] = STREAMS) -> list[str]:
    """What is missing or different, one sentence each; see `look`."""
    return [found.words for found in await look(connection, streams)]
