"""Projects the works of every cluster, the clusters themselves, and what was last reported of each work."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct, field

from schemas.codec import Known
from schemas.events.cluster import ClusterChanged, ClusterRemoved
from schemas.events.observed import WorkObserved
from schemas.events.work import WorkRendered, WorkWithdrawn
from schemas.hints import Purged
from schemas.keys import ObjectKey
from schemas.subjects import observed
from services._rules.cluster_works import ClusterWorks

Manifest = dict[str, Any]
LaneKey = tuple[str, ObjectKey | None]
"""A cluster and one of its objects; no object: the cluster itself changed."""


class Access(Struct, frozen=True, kw_only=True):
    """How a cluster is reached: everything whose change needs a new connection."""

    uid: str
    mode: str
    endpoint: str = ""
    secret: tuple[str, str] = ("", "")
    insecure: bool = False

    def spec(self) -> Manifest:
        """The part of a Cluster spec that opening a connection reads."""
        namespace, name = self.secret
        return {
            "apiEndpoint": self.endpoint,
            "secretRef": {"namespace": namespace, "name": name},
            "insecureSkipTLSVerification": self.insecure,
        }


class _Ref(Struct):
    namespace: str = ""
    name: str = ""


class _Spec(Struct, rename="camel"):
    sync_mode: str = ""
    api_endpoint: str = ""
    secret_ref: _Ref | None = None
    insecure_skip_tls_verification: bool = msgspec.field(name="insecureSkipTLSVerification", default=False)


class _Cluster(Struct):
    spec: _Spec = field(default_factory=_Spec)


_cluster = msgspec.json.Decoder(_Cluster)


def access_of(event: ClusterChanged) -> Access:
    """The access data in a cluster fact."""
    spec = _cluster.decode(event.manifest).spec
    ref = spec.secret_ref or _Ref()
    return Access(
        uid=event.uid,
        mode=spec.sync_mode,
        endpoint=spec.api_endpoint,
        secret=(ref.namespace, ref.name),
        insecure=spec.insecure_skip_tls_verification,
    )


class ExecutorState(Struct):
    """The projection of the executor."""

    clusters: dict[str, Access] = field(default_factory=dict)
    by_cluster: dict[str, ClusterWorks] = field(default_factory=dict)
    subjects: dict[str, int] = field(default_factory=dict)

    def of(self, cluster: str) -> ClusterWorks:
        """Works of one cluster, made on first mention."""
        works = self.by_cluster.get(cluster)
        if works is None:
            works = self.by_cluster[cluster] = ClusterWorks()
        return works


def fold(state: ExecutorState, seq: int, subject: str, event: Known) -> Iterable[LaneKey]:
    """Apply one event; the lanes and objects it concerns."""
    match event:
        case WorkRendered() | WorkWithdrawn():
            state.of(event.cluster).take_work(event, seq)
            return ((event.cluster, event.key),)
        case WorkObserved():
            state.subjects[subject] = seq
            state.of(event.cluster).take_observation(event)
            return ()
        case ClusterChanged():
            access = access_of(event)
            if state.clusters.get(event.name) == access:
                return ()
            state.clusters[event.name] = access
            return ((event.name, None),)
        case ClusterRemoved():
            state.clusters.pop(event.name, None)
            return ((event.name, None),)
        case _:
            return ()


def forget(state: ExecutorState, purged: Purged) -> None:
    """Drop works and reports that are gone from the log, and whatever is left of clusters that were removed."""
    for name, works in state.by_cluster.items():
        for gone in purged.objects:
            if works.forget(gone.key, gone.position):
                state.subjects.pop(observed(name, gone.key), None)
    for name in purged.clusters:
        left = state.by_cluster.get(name)
        if left is not None and name not in state.clusters:
            del state.by_cluster[name]
            for key in left.observed:
                state.subjects.pop(observed(name, key), None)
