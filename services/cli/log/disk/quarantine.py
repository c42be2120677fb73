"""Sets damaged messages aside: mends those of which one byte changed, keeps a copy of the others, and lets the rest be.

A block is written again with a record in the place of what was lost that says that a message was removed: its sequence
is not given to another one. The block as it was, and what can be read of each message, go to a directory.
"""

from __future__ import annotations

import base64
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, Literal

import msgspec
from msgspec import Struct

from services.cli.log.disk import highway, records
from services.cli.log.disk.files import Examined, StreamFiles, content_of
from services.cli.log.disk.records import Gap, Record

MESSAGES: Final = "messages.jsonl"
DELETED: Final = b"Fleetlog-Deleted"
"""Header of a deletion on a stream of objects."""
_OBJECTS: Final = "obj"

Fate = Literal["mended", "lost"]


class Damaged(Struct, frozen=True):
    """One damaged part of a stream and what becomes of it.

    `subject` is empty where it cannot be read. `stays` is the last whole message of the subject, 0 for none; it counts
    from now on where it is older than what was lost.
    """

    stream: str
    file: str
    first: int
    last: int
    subject: str
    fate: Fate
    stays: int = 0
    newest: bool = False
    """Whether no later message of the subject is there: its present state is lost."""
    deletion: bool = False
    recorded: bool = False
    """Whether the log holds the object in a fact that is as new."""
    readable: str = ""
    """What is there of the record, in base64; damaged."""


class _Config(Struct):
    subjects: list[str] = []


def holds_objects(stream: StreamFiles) -> bool:
    """Whether a stream holds the objects of the control plane: what is missing there counts as deleted."""
    try:
        config = msgspec.json.decode((stream.directory / "meta.inf").read_bytes(), type=_Config)
    except (OSError, msgspec.MsgspecError):
        return True
    return any(subject.partition(".")[0] == _OBJECTS for subject in config.subjects)


class Plan(Struct):
    """What a repair does to one block."""

    stream: StreamFiles
    path: Path
    content: bytes
    damaged: list[Damaged] = []


def plan(stream: StreamFiles, path: Path, block: Examined, seconds: float) -> Plan:
    """What a repair makes of a block with damaged parts; `seconds` may be spent on mending each."""
    content = block.content
    key = highway.block_key(stream.name, int(path.stem))
    by_place = {one.gap.offset: one.gap for one in block.findings}
    out: list[bytes] = []
    made = Plan(stream, path, b"")
    for piece in block.pieces:
        raw = content[piece.offset : piece.end]
        gap = by_place.get(piece.offset) if isinstance(piece, Gap) else None
        if gap is None:
            out.append(raw)
            continue
        whole = records.mended(raw, key, seconds)
        if whole is not None:
            seq, subject = named(whole)
            made.damaged.append(Damaged(stream.name, path.name, seq, seq, subject, "mended"))
            out.append(whole)
            continue
        made.damaged.append(_lost(stream, path, gap, raw))
        if gap.last >= gap.first or not gap.last:
            out.append(records.erased(gap.first, gap.time, len(raw), key))
    made.content = b"".join(out)
    return made


def named(record: bytes) -> tuple[int, str]:
    """Sequence and subject of a whole record."""
    _, seq, _, subject = records.HEAD.unpack_from(record)
    name = record[records.HEAD.size : records.HEAD.size + subject]
    return seq & ~(records.TOMBSTONE | records.ERASED), name.decode(errors="replace")


def _lost(stream: StreamFiles, path: Path, gap: Gap, raw: bytes) -> Damaged:
    last = max(gap.last, gap.first)
    stays = newer = 0
    if gap.subject:
        for seq in _others(stream, gap.subject):
            if seq < gap.first:
                stays = max(stays, seq)
            elif seq > last:
                newer = max(newer, seq)
    return Damaged(
        stream=stream.name,
        file=path.name,
        first=gap.first,
        last=last,
        subject=gap.subject,
        fate="lost",
        stays=newer or stays,
        newest=not newer,
        deletion=DELETED in raw,
        readable=base64.b64encode(raw).decode(),
    )


def _others(stream: StreamFiles, subject: str) -> Iterator[int]:
    """Sequences of the messages on a subject that are there."""
    removed: set[int] = set()
    found: list[int] = []
    for path in stream.blocks:
        for piece in records.walk(content_of(path)[0], None):
            if isinstance(piece, Record) and piece.tombstone:
                removed.add(piece.seq)
            elif isinstance(piece, Record) and piece.kept and piece.subject == subject:
                found.append(piece.seq)
    return (seq for seq in found if seq not in removed)


def carry_out(plans: Iterable[Plan], aside: Path) -> None:
    """Keep the blocks as they were, note what was lost, and write the new ones; raises OSError.

    Interrupted at any moment, the next repair finds either the block of before or the new one.
    """
    aside.mkdir(parents=True, exist_ok=True)
    for made in plans:
        kept = aside / made.stream.name
        kept.mkdir(exist_ok=True)
        shutil.copyfile(made.path, kept / made.path.name)
        with (aside / MESSAGES).open("ab") as file:
            for one in made.damaged:
                file.write(msgspec.json.encode(one) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        fresh = made.path.with_suffix(".mended")
        with fresh.open("wb") as block:
            block.write(made.content)
            block.flush()
            os.fsync(block.fileno())
        made.stream.index.unlink(missing_ok=True)
        fresh.replace(made.path)
