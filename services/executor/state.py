"""Projects the works of every cluster, the clusters themselves, and what was last reported of each work."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import field

from schemas.codec import Known
from schemas.events.cluster import ClusterChanged, ClusterRemoved
from schemas.events.observed import WorkObserved
from schemas.events.work import WorkRendered, WorkWithdrawn
from schemas.hints import Purged
from schemas.keys import ObjectKey
from schemas.subjects import observed
from services._rules.delivery.cluster_works import ClusterWorks, is_cut, remembered
from services._rules.delivery.member_address import Access, access_of
from services._rules.facets import ServiceState

LaneKey = tuple[str, ObjectKey | None]
"""A cluster and one of its objects; no object: the cluster itself changed."""


class ExecutorState(ServiceState):
    """The projection of the executor; `removed` names clusters that were members."""

    removed: set[str] = field(default_factory=set)
    clusters: dict[str, Access] = field(default_factory=dict)
    by_cluster: dict[str, ClusterWorks] = field(default_factory=dict)

    def of(self, cluster: str) -> ClusterWorks:
        """Works of one cluster, made on first mention."""
        works = self.by_cluster.get(cluster)
        if works is None:
            works = self.by_cluster[cluster] = ClusterWorks()
        return works

    def forget(self, purged: Purged) -> None:
        """Drop works and reports that are gone from the log, and whatever is left of clusters that were removed."""
        for name, works in self.by_cluster.items():
            for gone in purged.objects:
                if works.forget(gone.key, gone.position):
                    self.subjects.pop(observed(name, gone.key), None)
        for name in purged.clusters:
            self.removed.discard(name)
            left = self.by_cluster.get(name)
            if left is not None and name not in self.clusters:
                del self.by_cluster[name]
                for key in left.observed:
                    self.subjects.pop(observed(name, key), None)


def fold(state: ExecutorState, seq: int, subject: str, event: Known) -> Iterable[LaneKey]:
    """Apply one event; the lanes and objects it concerns."""
    match event:
        case WorkRendered() | WorkWithdrawn():
            access = state.clusters.get(event.cluster)
            elsewhere = access is not None and access.mode != "Push"
            state.of(event.cluster).take_work(remembered(event, manifest=not elsewhere), seq)
            return ((event.cluster, event.key),)
        case WorkObserved():
            state.subjects[subject] = seq
            state.of(event.cluster).take_observation(event)
            return ()
        case ClusterChanged():
            state.removed.discard(event.name)
            access = access_of(event)
            if state.clusters.get(event.name) == access:
                return ()
            state.clusters[event.name] = access
            if access.mode != "Push":
                works = state.of(event.name).works
                for key, (work, position) in works.items():
                    works[key] = (remembered(work, manifest=False), position)
            return ((event.name, None),)
        case ClusterRemoved():
            state.removed.add(event.name)
            state.clusters.pop(event.name, None)
            return ((event.name, None),)
        case _:
            return ()


def abandoned(state: ExecutorState, cluster: str) -> list[tuple[WorkWithdrawn, int]]:
    """Withdrawn works of a removed cluster that were not carried out and cannot be any more, with their positions."""
    if cluster not in state.removed:
        return []
    works = state.of(cluster)
    found = [works.works[key] for key in works.unfinished()]
    return [(work, seq) for work, seq in found if isinstance(work, WorkWithdrawn)]


def cut(works: ClusterWorks) -> dict[str, int]:
    """Positions of the works whose manifest stands in the log only, by its digest."""
    return {
        work.digest: position
        for work, position in works.works.values()
        if isinstance(work, WorkRendered) and is_cut(work)
    }
