"""Objects of the control plane as the facts of a stopped installation hold them: what can stand in for a lost state."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
from msgspec import UnsetType

from schemas.codec import DecodeError, decode
from schemas.events.cluster import ClusterChanged
from schemas.events.policy import PolicyChanged
from schemas.events.template import TemplateChanged
from schemas.keys import ObjectKey
from schemas.manifest import Manifest
from schemas.subjects import blob, cluster, policy_key, template
from services._rules.history.delta_encoding import base_of, decode_delta
from services.apiserver.store.store_port import Key
from services.apiserver.store.subject_names import key_of
from services.cli.common.moments import present
from services.cli.log.disk import records
from services.cli.log.disk.files import StreamFiles, content_of, streams_in
from services.cli.log.disk.records import Record

PREFIX: Final = "obj"
_CLUSTERS: Final = "cluster.karmada.io"


def recorded(store: Path, subject: str) -> Manifest | None:
    """The object of a subject as the last fact about it holds it, with its uid; None where no fact does.

    Secrets are encrypted in facts and are not read.
    """
    key = key_of(PREFIX, subject)
    streams = {stream.name: stream for stream in streams_in(store)}
    if key is None or "FACTS" not in streams:
        return None
    last: tuple[str, bytes] | None = None
    wanted = cluster(key.name) if key.group == _CLUSTERS else template(_object(key))
    for place, data in _messages(streams["FACTS"]):
        if place == wanted or _is_policy(place, key):
            last = place, data
    try:
        return None if last is None else _manifest(*last, streams.get("BLOBS"))
    except (DecodeError, msgspec.MsgspecError):
        return None


def _object(key: Key) -> ObjectKey:
    return ObjectKey(key.group, key.resource, key.namespace, key.name)


def _is_policy(subject: str, key: Key) -> bool:
    if not subject.startswith("policy."):
        return False
    found = policy_key(subject)
    singular = found.kind.lower()
    plural = f"{singular[:-1]}ies" if singular.endswith("y") else f"{singular}s"
    return (plural, found.namespace, found.name) == (key.resource, key.namespace, key.name)


def _manifest(subject: str, data: bytes, blobs: StreamFiles | None) -> Manifest | None:
    event = decode(subject, data)
    match event:
        case TemplateChanged():
            content = _content(event, blobs)
        case PolicyChanged() | ClusterChanged() if not event.deleting:
            content = bytes(event.manifest)
        case _:
            return None
    if content is None:
        return None
    manifest: Manifest = msgspec.json.decode(content)
    metadata = {
        "creationTimestamp": present(),
        **manifest["metadata"],
        "uid": event.uid,
    }
    if event.generation:
        metadata["generation"] = event.generation
    return {**manifest, "metadata": metadata}


def _content(event: TemplateChanged, blobs: StreamFiles | None) -> bytes | None:
    if not isinstance(event.manifest, UnsetType):
        return bytes(event.manifest)
    stored = _last(blobs, blob(event.digest)) if blobs is not None else None
    if stored is None or not (base := base_of(stored)):
        return stored
    built_on = _last(blobs, blob(base)) if blobs is not None else None
    return decode_delta(stored, built_on) if built_on is not None else None


def _last(stream: StreamFiles, subject: str) -> bytes | None:
    found = None
    for place, data in _messages(stream):
        if place == subject:
            found = data
    return found


def _messages(stream: StreamFiles) -> Iterator[tuple[str, bytes]]:
    """Subject and data of the messages of a stream; those that were removed may be among them."""
    for path in stream.blocks:
        content, _ = content_of(path)
        for piece in records.walk(content, None):
            if isinstance(piece, Record) and piece.kept:
                yield piece.subject, data_of(content[piece.offset : piece.end])


def data_of(record: bytes) -> bytes:
    """The data of a whole record."""
    size, _, _, subject = records.HEAD.unpack_from(record)
    at = records.HEAD.size + subject
    if size & records.WITH_HEADERS:
        at += 4 + int.from_bytes(record[at : at + 4], "little")
    return record[at : -records.CHECKSUM]
