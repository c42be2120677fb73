"""Decides when the facts of a deleted object may be purged, in which order, and how far a busy subject may be trimmed.

A closed facet (a tombstone) means to every service the same as no facet. That is what makes a purge safe at any moment:
between two purges, before or after a restart, all services decide the same as with all tombstones in place.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate
from typing import Final

from msgspec import Struct, field

from schemas.codec import Known
from schemas.events.autoscaling import AutoscalerReleased, ScheduleReleased
from schemas.events.binding import BindingReleased
from schemas.events.cluster import ClusterRemoved
from schemas.events.descheduling import ReplicasDescheduled
from schemas.events.endpoints import EndpointsReleased
from schemas.events.estimate import CapacityEstimated
from schemas.events.eviction import EvictionFinished
from schemas.events.placement import PlacementReleased
from schemas.events.policy import PolicyDeleted
from schemas.events.rollup import StatusRolledUp
from schemas.events.template import TemplateDeleted
from schemas.events.work import WorkWithdrawn
from schemas.keys import ObjectKey
from schemas.subjects import cluster as cluster_subject
from schemas.subjects import escape, facet, key_tokens
from schemas.topology import FACTS, OBSERVED

CHILDREN_FIRST: Final = ("rollup", "eviction", "descheduling", "estimate", "placement", "binding", "template")
"""Facets of one object behind its works and observations; what a facet follows from comes after it."""

# These have no end of their own: an estimate answers a binding, and replicas are taken back from a placement.
_CLOSED: Final = (
    TemplateDeleted,
    BindingReleased,
    PlacementReleased,
    EvictionFinished,
    CapacityEstimated,
    ReplicasDescheduled,
    WorkWithdrawn,
    PolicyDeleted,
    ClusterRemoved,
    AutoscalerReleased,
    ScheduleReleased,
    EndpointsReleased,
)


def closes(event: Known) -> bool:
    """Whether an event is the end of its facet: readers treat it as the absence of the facet."""
    return isinstance(event, _CLOSED) or (isinstance(event, StatusRolledUp) and event.closed)


def all_closed(*events: Known | None) -> bool:
    """Whether all facets that a service remembers are closed: then it may forget them."""
    return all(event is None or closes(event) for event in events)


class Facet(Struct, frozen=True, gc=False):
    """The last event of a subject: its position, when it was stored (seconds since 1970), whether it is an end."""

    seq: int
    time: float
    closed: bool


class LastObservation(Struct, frozen=True, gc=False):
    """The last observation of a copy: its own position in OBSERVED, the work it speaks of, whether nothing is there."""

    seq: int
    time: float
    work_seq: int
    absent: bool


class LogEntries(Struct):
    """What the log holds of one object: facets by aggregate, works and observations by cluster."""

    facets: dict[str, Facet] = field(default_factory=dict)
    works: dict[str, Facet] = field(default_factory=dict)
    observed: dict[str, LastObservation] = field(default_factory=dict)

    @property
    def nothing(self) -> bool:
        """Whether the log holds nothing of it."""
        return not (self.facets or self.works or self.observed)


class Purge(Struct, frozen=True):
    """Remove what a subject (or a pattern) of a stream holds up to and including a position."""

    stream: str
    subject: str
    up_to: int


def unfinished(remains: LogEntries, members: Collection[str], folded: int) -> str:
    """Why an object must stay on the log, in words; empty when its end is complete.

    `members` are the clusters that are members now; `folded` is the position in FACTS that is known. A tombstone under
    an older uid is an end as well: what that uid still had open would keep its own facet open.
    """
    for aggregate in reversed(CHILDREN_FIRST):
        known = remains.facets.get(aggregate)
        if known is not None and not known.closed:
            return f"its {aggregate} is not closed"
    for cluster, work in remains.works.items():
        if not work.closed:
            return f"cluster {cluster} shall still hold it"
        if cluster not in members:
            continue  # It was removed: its works count as absent.
        seen = remains.observed.get(cluster)
        if seen is None or not seen.absent or seen.work_seq < work.seq:
            return f"cluster {cluster} has not confirmed that its copy is gone"
    for cluster, seen in remains.observed.items():
        # Streams are read side by side: the work of an observation may be on its way.
        if cluster not in remains.works and seen.work_seq > folded:
            return f"the work that cluster {cluster} reports on is not known yet"
    return ""


def last_activity(remains: LogEntries) -> float:
    """When the last thing was said of an object, in seconds since 1970."""
    known: list[Facet | LastObservation] = [
        *remains.facets.values(),
        *remains.works.values(),
        *remains.observed.values(),
    ]
    return max((item.time for item in known), default=0.0)


def highest(remains: LogEntries) -> int:
    """The highest position in FACTS of an object: what HISTORY has to hold before anything goes."""
    return max((item.seq for item in (*remains.facets.values(), *remains.works.values())), default=0)


def purges_of(key: ObjectKey, remains: LogEntries) -> tuple[Purge, ...]:
    """What to remove of a finished object, in order: children before parents.

    Works go before their observations: a withdrawn work without an observation would be reconciled and reported again.
    """
    tokens = key_tokens(key)
    purges: list[Purge] = []
    if remains.works:
        purges.append(Purge(FACTS.name, f"work.*.{tokens}", max(work.seq for work in remains.works.values())))
    if remains.observed:
        purges.append(Purge(OBSERVED.name, f"observed.*.{tokens}", max(seen.seq for seen in remains.observed.values())))
    for aggregate in CHILDREN_FIRST:
        known = remains.facets.get(aggregate)
        if known is not None:
            purges.append(Purge(FACTS.name, facet(aggregate, key), known.seq))
    return tuple(purges)


def cluster_holds(works: Mapping[ObjectKey, Facet]) -> str:
    """Why what a removed cluster left must stay, in words; empty when all of its works are withdrawn."""
    for key, work in works.items():
        if not work.closed:
            return f"the work of {key} is not withdrawn yet"
    return ""


def cluster_purges(
    name: str, removed: Facet, works: Mapping[ObjectKey, Facet], observed: Mapping[ObjectKey, LastObservation]
) -> tuple[Purge, ...]:
    """What to remove of a removed cluster: its works and observations of whatever object, then its own subject."""
    token = escape(name)
    purges: list[Purge] = []
    if works:
        purges.append(Purge(FACTS.name, f"work.{token}.>", max(work.seq for work in works.values())))
    if observed:
        purges.append(Purge(OBSERVED.name, f"observed.{token}.>", max(seen.seq for seen in observed.values())))
    return (*purges, Purge(FACTS.name, cluster_subject(name), removed.seq))


def trim_position(positions: Sequence[int], tail: int, held: int, sizes: Sequence[int] = (), most: int = 0) -> int:
    """Up to which position a subject may be trimmed so that its newest `tail` events stay; 0: not at all.

    `positions` are those of its events in order; nothing behind `held`, the last position in HISTORY, is cut. With
    `sizes` in bytes of the events, fewer stay where they have more than `most` together, but always the newest.
    """
    kept = min(tail, len(positions))
    if sizes:
        within = accumulate(reversed(sizes[len(sizes) - kept :]))
        kept = max(1, sum(1 for together in within if together <= most))
    surplus = [seq for seq in positions[: len(positions) - kept] if seq <= held]
    return surplus[-1] if surplus else 0
