"""Creates and updates the streams that schemas.topology describes; applying twice changes nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import msgspec
from msgspec import Struct

from schemas.topology import STREAMS, Stream
from services._kit.batch import ApiError
from services._kit.connection import Connection
from services._kit.errors import from_api
from services._kit.ids import random_id
from services._kit.jetstream_log import IDENTITY_KEY, NO_STREAM

NANOSECOND = 1_000_000_000


class _Answer(Struct):
    config: dict[str, Any] = {}
    error: ApiError | None = None


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
        "max_msg_size": -1,
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
    data = msgspec.json.encode(body) if body else b""
    answer = await connection.request(f"$JS.API.STREAM.{call}", data, timeout=10.0)
    return msgspec.json.decode(answer.data, type=_Answer)


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


async def apply_stream(
    connection: Connection, stream: Stream, replicas: int = 1
) -> Literal["created", "updated", "unchanged"]:
    """Make one stream as described, keeping the identity it has; raises Refused when the server will not.

    A stream that more servers keep stays so: fewer of them is for an operator to say.
    """
    wanted = stream_config(stream, replicas)
    info = await _call(connection, f"INFO.{stream.name}", {})
    if info.error is not None and info.error.err_code == NO_STREAM:
        created = await _call(connection, f"CREATE.{stream.name}", {**wanted, "metadata": {IDENTITY_KEY: random_id()}})
        if created.error is None:
            return "created"
        # Somebody else was faster with the same idea: go on with what is there.
        info = await _call(connection, f"INFO.{stream.name}", {})
        if info.error is not None:
            raise from_api(created.error.code, created.error.err_code, created.error.description)
    if info.error is not None:
        raise from_api(info.error.code, info.error.err_code, info.error.description)
    wanted["num_replicas"] = max(replicas, int(info.config.get("num_replicas") or 1))
    metadata: dict[str, str] = info.config.get("metadata") or {}
    if not _differs(wanted, info.config) and IDENTITY_KEY in metadata:
        return "unchanged"
    wanted["metadata"] = {**metadata, IDENTITY_KEY: metadata.get(IDENTITY_KEY) or random_id()}
    updated = await _call(connection, f"UPDATE.{stream.name}", {**info.config, **wanted})
    if updated.error is not None:
        raise from_api(updated.error.code, updated.error.err_code, f"{stream.name}: {updated.error.description}")
    return "updated"


async def apply(connection: Connection, streams: Iterable[Stream] = STREAMS, replicas: int = 1) -> dict[str, str]:
    """Make all streams as described; what happened, by stream."""
    return {stream.name: await apply_stream(connection, stream, replicas) for stream in streams}


async def check(connection: Connection, streams: Iterable[Stream] = STREAMS) -> list[str]:
    """What is missing or different, one sentence each; empty when all is as described.

    Replica counts are the operator's choice and not compared.
    """
    problems = []
    for stream in streams:
        info = await _call(connection, f"INFO.{stream.name}", {})
        if info.error is not None:
            problems.append(f"stream {stream.name}: {info.error.description}; apply the topology")
            continue
        wanted = stream_config(stream)
        del wanted["num_replicas"]
        problems += [
            f"stream {stream.name}: {name} is {info.config.get(name)!r}, expected {wanted[name]!r}; apply the topology"
            for name in _differs(wanted, info.config)
        ]
    return problems
