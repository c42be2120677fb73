"""Finds the request behind a change among the writes that the embedded API server stored of the object."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from schemas.codec import Known
from schemas.events.policy import PolicyChanged, PolicyDeleted
from schemas.events.template import TemplateChanged, TemplateDeleted
from services._rules.tracing.logged_event import ApiRequest, traceparent
from services._rules.tracing.trace_builder import FROM_REQUEST


class StoredWrite(Struct, frozen=True):
    """One write of an object: its revision, when it was stored (seconds since 1970), the revision before it (0: none).

    `traceparent` is the header that the client sent, empty without one.
    """

    revision: int
    time: float
    previous: int
    deleted: bool = False
    uid: str = ""
    generation: int = 0
    traceparent: str = ""


def request_behind(event: Known, time: float, writes: Sequence[StoredWrite], resource: str) -> ApiRequest | None:
    """The write that an event stored at `time` follows from; None where it is not at hand, or not certain.

    `writes` are those of the object in their order, the latest few of them.
    """
    recent = [write for write in writes if time - FROM_REQUEST <= write.time <= time]
    match event:
        case TemplateDeleted() | PolicyDeleted():
            found = next((write for write in reversed(recent) if write.deleted), None)
        case TemplateChanged() | PolicyChanged() if event.prev and event.generation:
            # Status and labels are written within one generation, too; its first write began it.
            found = next(
                (write for write in recent if write.generation == event.generation and not write.deleted), None
            )
            if found is not None and not _begins(found, writes):
                found = None
        case TemplateChanged() | PolicyChanged():
            alive = [write for write in recent if not write.deleted]
            # A claim, which the log foretells, makes a generation of its own.
            created = [write for write in alive if not write.previous and not event.prev]
            found = next(reversed(created or alive), None)
        case _:
            found = None
    if found is None:
        return None
    verb = "delete" if found.deleted else "update" if found.previous else "create"
    trace, parent = traceparent(found.traceparent)
    return ApiRequest(found.revision, found.time, verb, resource, found.uid, trace, parent)


def _begins(write: StoredWrite, writes: Sequence[StoredWrite]) -> bool:
    """Whether a write is known to be the first of its generation."""
    if not write.previous:
        return True
    before = next((one for one in writes if one.revision == write.previous), None)
    return before is not None and (before.deleted or before.generation != write.generation)
