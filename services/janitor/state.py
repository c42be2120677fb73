"""Projects what the log holds of every object, policy and cluster, and how far HISTORY has come."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct, field

from schemas.codec import Known
from schemas.events.observed import WorkObserved
from schemas.events.work import WorkRendered, WorkWithdrawn
from schemas.keys import ObjectKey, PolicyKey
from schemas.subjects import BY_KIND, cluster_of, object_key, policy_key
from services._rules.facets import ServiceState
from services._rules.history.retention import Facet, LastObservation, LogEntries, closes

LARGE: Final = 16 << 10
"""Bytes from which on an event counts by its size as well."""
TAIL_BYTES: Final = 4 << 20
"""Bytes of a subject that FACTS keeps beside its newest event; older ones are in HISTORY."""


class Tail(Struct, frozen=True, array_like=True):
    """A subject of which FACTS may hold more events than it should."""

    subject: str


class SliceKey(Struct, frozen=True, array_like=True):
    """Endpoints that a cluster exported, by their subject."""

    subject: str


Key = ObjectKey | PolicyKey | str | SliceKey | Tail
"""An object, a policy, a cluster by its name, a slice of endpoints, or a busy subject."""


class JanitorState(ServiceState):
    """The projection. `held` is the last position that HISTORY was seen to hold, `folded` the last fact taken in."""

    objects: dict[ObjectKey, LogEntries] = field(default_factory=dict)
    policies: dict[PolicyKey, Facet] = field(default_factory=dict)
    clusters: dict[str, Facet] = field(default_factory=dict)
    slices: dict[SliceKey, Facet] = field(default_factory=dict)
    members: set[str] = field(default_factory=set)
    in_cluster: dict[str, set[ObjectKey]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    """Events of a subject beyond its first one, as far as they are known."""
    weights: dict[str, int] = field(default_factory=dict)
    """Bytes of a subject that its last check left, and of the large events since."""
    held: int = 0
    folded: int = 0
    tail: int = 64

    def of(self, key: ObjectKey) -> LogEntries:
        """What is left of one object, made on first mention."""
        remains = self.objects.get(key)
        if remains is None:
            remains = self.objects[key] = LogEntries()
        return remains


def fold(state: JanitorState, seq: int, time: float, subject: str, event: Known) -> Iterable[Key]:
    """Apply one event; what may have come to its end by it, which nothing does by an event that is no end."""
    aggregate = subject.partition(".")[0]
    if isinstance(event, WorkObserved):
        remains = state.of(event.key)
        remains.observed[event.cluster] = LastObservation(seq, time, event.work_seq, event.absent)
        state.in_cluster.setdefault(event.cluster, set()).add(event.key)
        # An observation of a copy without a work may be all that is left of its object.
        return (event.key,) if event.absent or event.cluster not in remains.works else ()
    state.folded = max(state.folded, seq)
    known = Facet(seq, time, closes(event))
    touched: list[Key] = []
    if aggregate in BY_KIND:
        policy = policy_key(subject)
        state.policies[policy] = known
        if known.closed:
            touched.append(policy)
    elif aggregate == "endpoints":
        state.slices[SliceKey(subject)] = known
        if known.closed:
            touched.append(SliceKey(subject))
    elif aggregate == "cluster":
        touched.extend(_cluster(state, cluster_of(subject), known))
    elif isinstance(event, WorkRendered | WorkWithdrawn):
        key, cluster = event.key, event.cluster
        state.of(key).works[cluster] = known
        state.in_cluster.setdefault(cluster, set()).add(key)
        if known.closed:
            touched.append(key)
        if cluster not in state.members:
            touched.append(cluster)
    elif isinstance(named := getattr(event, "key", None), ObjectKey):
        state.of(named).facets[aggregate] = known
        if known.closed:
            touched.append(named)
    if event.prev:
        count = state.counts[subject] = state.counts.get(subject, 0) + 1
        # Checked at intervals, not with every event: each check reads the subject.
        if count >= 2 * state.tail and count % state.tail == 0:
            touched.append(Tail(subject))
    return touched


def weigh(state: JanitorState, subject: str, size: int) -> Iterable[Key]:
    """Count the bytes of one event of FACTS; returns a subject that grew by much, to be checked."""
    if size < LARGE:
        return ()
    weight = state.weights[subject] = state.weights.get(subject, 0) + size
    return (Tail(subject),) if weight > 2 * TAIL_BYTES else ()


def trimmed(state: JanitorState, subject: str, left: Sequence[int], count: int, weight: int) -> None:
    """Note what a check left of a subject: sizes in bytes, and the subject's count and weight when the check began.

    What came in meanwhile stays counted. What HISTORY does not hold yet leaves too much, and is checked once more; the
    newest event stays however large it is.
    """
    heavy = sum(left) if len(left) > 1 else 0
    state.counts[subject] = len(left) + max(0, state.counts.get(subject, 0) - count)
    state.weights[subject] = heavy + max(0, state.weights.get(subject, 0) - weight)


def _cluster(state: JanitorState, name: str, known: Facet) -> Iterable[Key]:
    state.clusters[name] = known
    if not known.closed:
        state.members.add(name)
        return ()
    state.members.discard(name)
    return (name, *state.in_cluster.get(name, ()))


def unreadable(state: JanitorState, subject: str) -> Iterable[Key]:
    """Keys that must not be purged because a newer version wrote a fact about them."""
    aggregate = subject.partition(".")[0]
    if aggregate in BY_KIND:
        return (policy_key(subject),)
    if aggregate == "endpoints":
        return (SliceKey(subject),)
    if aggregate == "cluster":
        # Whatever the fact contains, the cluster may hold copies.
        state.members.add(cluster_of(subject))
        return (cluster_of(subject),)
    if aggregate in ("work", "observed"):
        return (object_key(subject), cluster_of(subject))
    return (object_key(subject),)


def forget_object(state: JanitorState, key: ObjectKey, facts: int, observed: int) -> None:
    """Drop what was purged of an object: its facts up to one position, its observations up to another."""
    remains = state.objects.get(key)
    if remains is None:
        return
    remains.facets = {name: item for name, item in remains.facets.items() if item.seq > facts}
    remains.works = {name: item for name, item in remains.works.items() if item.seq > facts}
    remains.observed = {name: item for name, item in remains.observed.items() if item.seq > observed}
    for cluster, keys in state.in_cluster.items():
        if cluster not in remains.works and cluster not in remains.observed:
            keys.discard(key)
    if remains.nothing:
        del state.objects[key]


def forget_cluster(state: JanitorState, name: str, facts: int, observed: int) -> None:
    """Drop what was purged of a cluster, as `forget_object` does."""
    known = state.clusters.get(name)
    if known is not None and known.seq <= facts:
        del state.clusters[name]
    for key in list(state.in_cluster.get(name, ())):
        remains = state.of(key)
        if name in remains.works and remains.works[name].seq <= facts:
            del remains.works[name]
        if name in remains.observed and remains.observed[name].seq <= observed:
            del remains.observed[name]
        if name not in remains.works and name not in remains.observed:
            state.in_cluster[name].discard(key)
        if remains.nothing:
            del state.objects[key]
    if not state.in_cluster.get(name, ()):
        state.in_cluster.pop(name, None)


def forget_policy(state: JanitorState, key: PolicyKey, facts: int) -> None:
    """Drop a purged policy."""
    known = state.policies.get(key)
    if known is not None and known.seq <= facts:
        del state.policies[key]


def forget_slice(state: JanitorState, key: SliceKey, facts: int) -> None:
    """Drop a purged slice of endpoints."""
    known = state.slices.get(key)
    if known is not None and known.seq <= facts:
        del state.slices[key]
