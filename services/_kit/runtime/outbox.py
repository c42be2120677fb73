"""Prepares events for the log: completes provenance and headers, encodes everything once, packs batches."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Final, Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from schemas.codec import Known, encode, subject_of
from schemas.envelope import HEADER_CORRELATION, HEADER_EVENT_ID, HEADER_PRODUCER, HEADER_TRACEPARENT, event_id
from services._kit.log.stream_port import MAX_BATCH, MAX_BATCH_BYTES, NewMessage

K = TypeVar("K", bound=Hashable)

_STREAM_OF: Final[Mapping[str, str]] = {"observed": "OBSERVED", "parked": "PARKED"}


def stream_of(subject: str) -> str:
    """The stream that holds a subject (or a filter) of an event."""
    return _STREAM_OF.get(subject.partition(".")[0], "FACTS")


class KeyedEvents(Struct, Generic[K]):
    """Events of one key, stored together; the other fields are their provenance.

    `as_of`, `causes`, `observed` and `decided_at` replace what the events' provenance has, unless they are empty.
    """

    key: K
    events: Sequence[Known]
    causes: tuple[int, ...] = ()
    correlation: str = ""
    traceparent: str = ""
    as_of: int = 0
    decided_at: float = 0.0
    observed: tuple[int, ...] = ()
    since: float = 0.0
    """When the first cause came up, 0 when not known; not part of the events."""
    together: bool = False
    """Whether no reader may see some of them and not yet the others."""


class Piece(Struct, Generic[K]):
    """Messages of one key for one stream, few and small enough for one batch; `first`: none has a predecessor."""

    key: K
    messages: list[NewMessage]
    size: int
    position: int
    first: bool = True
    together: bool = False


def split(
    group: KeyedEvents[K], producer: str, last_seq_of: Callable[[str], int] | None = None
) -> dict[str, list[Piece[K]]]:
    """The messages of a group by stream, cut where a batch would be too large.

    `prev` becomes the sequence of the subject's previous event. When that event precedes in the same batch, its
    sequence is not known yet and `prev` is negative: the distance to it (-1: the message right before).
    """
    pieces: dict[str, list[Piece[K]]] = {}
    earlier: dict[str, int] = {}
    count: dict[str, int] = {}
    for index, event in enumerate(group.events):
        subject = subject_of(event)
        stream = stream_of(subject)
        number = count.get(stream, 0)
        count[stream] = number + 1
        before = earlier.get(subject)
        if before is not None:
            prev = before - number
        else:
            prev = last_seq_of(subject) if last_seq_of is not None else event.prev
        earlier[subject] = number
        message = _message(group, index, event, subject, prev, producer)
        size = len(message.data)
        held = pieces.setdefault(stream, [])
        if not held or len(held[-1].messages) == MAX_BATCH or held[-1].size + size > MAX_BATCH_BYTES:
            held.append(Piece(group.key, [], 0, group.as_of, together=group.together))
        piece = held[-1]
        piece.messages.append(message)
        piece.size += size
        piece.first = piece.first and prev == 0 and last_seq_of is not None
    return pieces


def _message(group: KeyedEvents[K], index: int, event: Known, subject: str, prev: int, producer: str) -> NewMessage:
    provenance = event.provenance
    if group.as_of:
        # After a takeover nothing marked the key; the newest facets that the decision saw stand for the cause.
        causes, observed = group.causes or provenance.causes, group.observed or provenance.observed
        if not causes and not observed:
            causes = tuple(sorted(provenance.own.values())[-1:])
        provenance = replace(
            provenance, as_of=group.as_of, causes=causes, observed=observed, decided_at=group.decided_at
        )
    event = replace(event, prev=prev, provenance=provenance)
    data = encode(event)
    # The content is part of the cause: an event with other content is another event, not a repetition.
    digest = blake2b(data, digest_size=8).hexdigest()
    name = event_id(f"{producer.partition('/')[0]}/{provenance.as_of}/{digest}", index, subject)
    headers = {
        HEADER_EVENT_ID: name,
        HEADER_CORRELATION: group.correlation or name,
        HEADER_PRODUCER: producer,
    }
    if group.traceparent:
        headers[HEADER_TRACEPARENT] = group.traceparent
    return NewMessage(subject, data, headers)


def stand_alone(pieces: Sequence[Piece[K]]) -> bool:
    """Whether the messages of pieces may be stored one by one: no reader minds having seen some and not yet the others.

    So it is where a key's messages are of different aggregates (works of several clusters), and where nothing was said
    before that one of them could be mixed up with. What is said on one subject after the other has to keep its order.
    """
    if any(piece.together and len(piece.messages) > 1 for piece in pieces):
        return False
    subjects = [message.subject for piece in pieces for message in piece.messages]
    return len(set(subjects)) == len(subjects) and all(piece.first or _one_family(piece) for piece in pieces)


def _one_family(piece: Piece[K]) -> bool:
    return len({message.subject.partition(".")[0] for message in piece.messages}) == 1


def pack(pieces: Sequence[Piece[K]]) -> Iterator[list[Piece[K]]]:
    """Pieces in order, as many per batch as fit."""
    batch: list[Piece[K]] = []
    messages = size = 0
    for piece in pieces:
        if batch and (messages + len(piece.messages) > MAX_BATCH or size + piece.size > MAX_BATCH_BYTES):
            yield batch
            batch, messages, size = [], 0, 0
        batch.append(piece)
        messages += len(piece.messages)
        size += piece.size
    if batch:
        yield batch
