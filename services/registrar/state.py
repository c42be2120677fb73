"""Projects pull members, the manifests that their works reference, observations, and interpreter configuration."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import Raw, Struct, field

from schemas.codec import Known
from schemas.events.cluster import ClusterChanged, ClusterRemoved
from schemas.events.observed import WorkObserved
from schemas.events.policy import PolicyChanged, PolicyDeleted
from schemas.events.work import WorkRendered, WorkWithdrawn
from schemas.hints import Purged
from schemas.keys import ObjectKey, PolicyKey
from schemas.manifest import Manifest
from schemas.subjects import escape, observed
from services._rules.delivery.plausibility import Asked
from services._rules.facets import ServiceState
from services._rules.interpreter.configuration import KINDS


class Member(Struct, frozen=True):
    """What of a Cluster object concerns its agent."""

    uid: str
    mode: str
    models: tuple[Manifest, ...] = ()
    identity: str = ""
    """Uid of the member's namespace kube-system, empty while it is not known."""


class Works(Struct):
    """Digest and position by object of one cluster (no digest: withdrawn), and how many works name each digest.

    `gone` has the position of the work for which an object was last reported absent, `uids` of what each work is.
    """

    digests: dict[ObjectKey, str] = field(default_factory=dict)
    positions: dict[ObjectKey, int] = field(default_factory=dict)
    named: dict[str, int] = field(default_factory=dict)
    gone: dict[ObjectKey, int] = field(default_factory=dict)
    uids: dict[ObjectKey, str] = field(default_factory=dict)

    def asked(self, key: ObjectKey) -> Asked | None:
        """The last work of an object; None where there is none."""
        position = self.positions.get(key)
        return Asked(position, self.uids.get(key, ""), self.digests[key]) if position is not None else None

    def name(self, key: ObjectKey, digest: str, position: int, uid: str = "") -> None:
        """From a position on, the work of an object names this digest and no other."""
        self.positions[key], self.uids[key] = position, uid
        before = self.digests.get(key, "")
        self.digests[key] = digest
        if digest == before:
            return
        if before:
            left = self.named[before] - 1
            if left:
                self.named[before] = left
            else:
                del self.named[before]
        if digest:
            self.named[digest] = self.named.get(digest, 0) + 1

    def forget(self, key: ObjectKey) -> None:
        """The work of an object is gone from the log."""
        self.name(key, "", 0)
        del self.digests[key], self.positions[key], self.uids[key]
        self.gone.pop(key, None)

    def settled(self, last: int) -> int:
        """The position up to which every withdrawn work was carried out; `last` where all of them were."""
        open_ = (
            position
            for key, position in self.positions.items()
            if not self.digests[key] and self.gone.get(key, 0) < position
        )
        return min(open_, default=last + 1) - 1


class RegistrarState(ServiceState):
    """The projection; `observed` holds position and time of the last report on every subject.

    `sizes` are the bytes of the statuses of those that have one, `kept` their sums by cluster. `configured` names what
    users configured about the interpretation of objects.
    """

    members: dict[str, Member] = field(default_factory=dict)
    works: dict[str, Works] = field(default_factory=dict)
    observed: dict[str, tuple[int, float]] = field(default_factory=dict)
    configured: set[PolicyKey] = field(default_factory=set)
    sizes: dict[str, int] = field(default_factory=dict)
    kept: dict[str, int] = field(default_factory=dict)

    def of(self, cluster: str) -> Works:
        """Works of one cluster, made on first mention."""
        works = self.works.get(cluster)
        if works is None:
            works = self.works[cluster] = Works()
        return works

    def last_seq(self, subject: str) -> int:
        """Position of the last observation of a subject."""
        return self.observed.get(subject, (0, 0.0))[0]

    def forget(self, purged: Purged) -> None:
        """Drop works and reports that are gone from the log."""
        for name, works in self.works.items():
            for gone in purged.objects:
                if 0 < works.positions.get(gone.key, 0) <= gone.position:
                    works.forget(gone.key)
                    self.observed.pop(observed(name, gone.key), None)
                    self.weigh(name, observed(name, gone.key), 0)
        for name in purged.clusters:
            if name not in self.members:
                beginning = f"observed.{escape(name)}."
                for subject in [subject for subject in self.observed if subject.startswith(beginning)]:
                    del self.observed[subject]
                    self.weigh(name, subject, 0)

    def weigh(self, cluster: str, subject: str, size: int) -> None:
        """The last status on a subject has so many bytes."""
        kept = self.kept.get(cluster, 0) + size - self.sizes.pop(subject, 0)
        if size:
            self.sizes[subject] = size
        if kept:
            self.kept[cluster] = kept
        else:
            self.kept.pop(cluster, None)


class _Spec(Struct, rename="camel"):
    sync_mode: str = ""
    resource_models: tuple[Manifest, ...] | None = None


class _Cluster(Struct):
    spec: _Spec = field(default_factory=_Spec)


_cluster = msgspec.json.Decoder(_Cluster)


def fold(state: RegistrarState, seq: int, subject: str, event: Known) -> Iterable[str]:
    """Apply one event; clusters whose membership changed."""
    match event:
        case WorkRendered():
            state.of(event.cluster).name(event.key, event.digest, seq, event.uid)
        case WorkWithdrawn():
            state.of(event.cluster).name(event.key, "", seq, event.uid)
        case WorkObserved():
            state.observed[subject] = (seq, event.at)
            state.weigh(event.cluster, subject, len(bytes(event.status)) if isinstance(event.status, Raw) else 0)
            works = state.of(event.cluster)
            if event.absent:
                works.gone[event.key] = event.work_seq
            else:
                # The last report alone counts: a fresh start sees no other.
                works.gone.pop(event.key, None)
        case ClusterChanged():
            spec = _cluster.decode(event.manifest).spec
            member = Member(event.uid, spec.sync_mode, spec.resource_models or (), event.identity)
            if state.members.get(event.name) != member:
                state.members[event.name] = member
                return (event.name,)
        case ClusterRemoved():
            # Its works end by events of their own, which a fresh start sees as well.
            if state.members.pop(event.name, None) is not None:
                return (event.name,)
        case PolicyChanged() if event.key.kind in KINDS:
            state.configured.add(event.key)
        case PolicyDeleted():
            state.configured.discard(event.key)
        case _:
            pass
    return ()
