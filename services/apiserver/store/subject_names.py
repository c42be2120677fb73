"""How objects are written on the stream of a store: subjects by key, and the headers of one message."""

from __future__ import annotations

import base64
from typing import Any, Final

from schemas.envelope import HEADER_TRACEPARENT
from services._kit.log.jetstream import parse_headers
from services.apiserver.store.store_port import Key

EXPECTED: Final = "Nats-Expected-Last-Subject-Sequence"
PREV: Final = "Fleetlog-Prev"
WRITE: Final = "Fleetlog-Write"
DELETED: Final = "Fleetlog-Deleted"
BATCH_ID: Final = "Nats-Batch-Id"
BATCH_SEQUENCE: Final = "Nats-Batch-Sequence"
_SAFE: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-:@+~")

_ESCAPED: Final = str.maketrans({chr(code): f"={code:02X}" for code in range(128) if chr(code) not in _SAFE})


def escape(token: str) -> str:
    """A subject token for any text: bytes outside a safe set become =XX; empty becomes "_"."""
    if not token:
        return "_"
    if _SAFE.issuperset(token):
        return token
    if token.isascii():
        return token.translate(_ESCAPED)
    return "".join(c if c in _SAFE else "".join(f"={b:02X}" for b in c.encode()) for c in token)


def unescape(token: str) -> str:
    """The inverse of `escape`."""
    if token == "_":
        return ""
    if "=" not in token:
        return token
    out, i = bytearray(), 0
    while i < len(token):
        if token[i] == "=":
            out.append(int(token[i + 1 : i + 3], 16))
            i += 3
        else:
            out += token[i].encode()
            i += 1
    return out.decode()


def subject_of(prefix: str, key: Key) -> str:
    """Subject with the states of an object."""
    return f"{prefix}.{escape(key.group)}.{escape(key.resource)}.{escape(key.namespace)}.{escape(key.name)}"


def key_of(prefix: str, subject: str) -> Key | None:
    """The object of a subject; none for a subject that belongs to no object."""
    parts = subject.split(".")
    if len(parts) != 5 or parts[0] != prefix:
        return None
    return Key(*(unescape(p) for p in parts[1:]))


def floor_subject(prefix: str) -> str:
    """Subject on which it is recorded from which revisions on resources can be watched."""
    return f"{prefix}.meta.floor"


def barrier_subject(prefix: str) -> str:
    """Subject of messages without content, whose acknowledgement proves that everything before them is kept."""
    return f"{prefix}.meta.barrier"


def forget_subject(prefix: str) -> str:
    """Subject on which a running server is asked to forget what the Secrets of a namespace held before."""
    return f"forget-{prefix}"


def head_in_batch(sequence: int, write_id: str, number: int, *, deleted: bool, traceparent: str = "") -> bytes:
    """The headers of one message in a batch as they are sent, with the end of the head."""
    mark = f"{DELETED}: 1\r\n" if deleted else ""
    if traceparent:
        mark += f"{HEADER_TRACEPARENT}: {traceparent}\r\n"
    return (
        f"NATS/1.0\r\n{EXPECTED}: {sequence}\r\n{PREV}: {sequence}\r\n{WRITE}: {write_id}\r\n{mark}"
        f"{BATCH_ID}: {write_id}\r\n{BATCH_SEQUENCE}: {number}\r\n\r\n"
    ).encode()


def headers_of(message: dict[str, Any]) -> dict[str, str]:
    """Headers of a message read by the stream API."""
    return parse_headers(base64.b64decode(message.get("hdrs", "")))
