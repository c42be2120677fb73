"""What the registrar knows: pull members, the manifests that their works name, reports, how objects are interpreted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct, field

from schemas.codec import Known
from schemas.events.cluster import ClusterChanged, ClusterRemoved
from schemas.events.observed import WorkObserved
from schemas.events.policy import PolicyChanged, PolicyDeleted
from schemas.events.work import WorkRendered, WorkWithdrawn
from schemas.hints import Purged
from schemas.keys import ObjectKey, PolicyKey
from schemas.subjects import escape, observed
from services._rules.interpreter.configured import KINDS

Manifest = dict[str, Any]


class Member(Struct, frozen=True):
    """What of a Cluster object concerns its agent."""

    uid: str
    mode: str
    models: tuple[Manifest, ...] = ()


class Works(Struct):
    """Digest and position by object of one cluster (no digest: withdrawn), and how many works name each digest.

    `gone` has the position of the work for which an object was last reported absent.
    """

    digests: dict[ObjectKey, str] = field(default_factory=dict)
    positions: dict[ObjectKey, int] = field(default_factory=dict)
    named: dict[str, int] = field(default_factory=dict)
    gone: dict[ObjectKey, int] = field(default_factory=dict)

    def name(self, key: ObjectKey, digest: str, position: int) -> None:
        """From a position on, the work of an object names this digest and no other."""
        self.positions[key] = position
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
        del self.digests[key], self.positions[key]
        self.gone.pop(key, None)

    def settled(self, last: int) -> int:
        """The position up to which every withdrawn work was carried out; `last` where all of them were."""
        open_ = (
            position
            for key, position in self.positions.items()
            if not self.digests[key] and self.gone.get(key, 0) < position
        )
        return min(open_, default=last + 1) - 1


class RegistrarState(Struct):
    """The projection; `observed` holds position and time of the last report on every subject.

    `configured` names what users configured about the interpretation of objects.
    """

    members: dict[str, Member] = field(default_factory=dict)
    works: dict[str, Works] = field(default_factory=dict)
    observed: dict[str, tuple[int, float]] = field(default_factory=dict)
    configured: set[PolicyKey] = field(default_factory=set)

    def of(self, cluster: str) -> Works:
        """Works of one cluster, made on first mention."""
        works = self.works.get(cluster)
        if works is None:
            works = self.works[cluster] = Works()
        return works


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
            state.of(event.cluster).name(event.key, event.digest, seq)
        case WorkWithdrawn():
            state.of(event.cluster).name(event.key, "", seq)
        case WorkObserved():
            state.observed[subject] = (seq, event.at)
            works = state.of(event.cluster)
            if event.absent:
                works.gone[event.key] = event.work_seq
            else:
                # The last report alone counts: a fresh start sees no other.
                works.gone.pop(event.key, None)
        case ClusterChanged():
            spec = _cluster.decode(event.manifest).spec
            member = Member(event.uid, spec.sync_mode, spec.resource_models or ())
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


def forget(state: RegistrarState, purged: Purged) -> None:
    """Drop works and reports that are gone from the log."""
    for name, works in state.works.items():
        for gone in purged.objects:
            if 0 < works.positions.get(gone.key, 0) <= gone.position:
                works.forget(gone.key)
                state.observed.pop(observed(name, gone.key), None)
    for name in purged.clusters:
        if name not in state.members:
            beginning = f"observed.{escape(name)}."
            for subject in [subject for subject in state.observed if subject.startswith(beginning)]:
                del state.observed[subject]
