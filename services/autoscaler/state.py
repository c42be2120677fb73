"""Projects the objects that may be scaled, the members that run them, and what was decided of autoscalers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import UNSET, Struct, field
from msgspec.structs import replace

from schemas.codec import Known
from schemas.events.autoscaling import (
    AutoscalerReleased,
    ClusterScale,
    ReplicasRecommended,
    ScheduleAdvanced,
    ScheduleReleased,
)
from schemas.events.binding import BindingRequested
from schemas.events.cluster import ClusterChanged, ClusterRemoved
from schemas.events.rollup import ClusterStatusItem
from schemas.events.template import TemplateChanged
from schemas.keys import ObjectKey, PolicyKey
from services._rules.constants import LABEL_TRUE, RETAIN_REPLICAS_LABEL
from services._rules.delivery.member_address import Access, access_of
from services._rules.facets import ObjectFacets, ObjectStates, is_of_facet

FILTERS: Final = (
    "template.>",
    "binding.>",
    "placement.>",
    "eviction.>",
    "descheduling.>",
    "rollup.>",
    "cluster.*",
    "autoscaling.>",
)
"""What is folded."""
NOT_READY: Final = "the cluster is not ready"
NOT_REPORTED: Final = "it has not reported the object yet"


class _Condition(Struct):
    type: str = ""
    status: str = ""


class _ClusterStatus(Struct):
    conditions: list[_Condition] | None = None


class _Cluster(Struct):
    status: _ClusterStatus = field(default_factory=_ClusterStatus)


class _Scaled(Struct):
    replicas: int = 0


_cluster: Final = msgspec.json.Decoder(_Cluster)
_scaled: Final = msgspec.json.Decoder(_Scaled)


class Member(Struct, frozen=True):
    """One member: how it is reached, and whether it may be asked."""

    access: Access
    reachable: bool


class Target(ObjectFacets):
    """Every facet of one object that may be scaled."""

    @property
    def bound(self) -> BindingRequested | None:
        """The request to place it, unless it was released."""
        return self.binding if isinstance(self.binding, BindingRequested) else None

    @property
    def template_generation(self) -> int:
        """The generation of the template that the log knows, 0 without one."""
        return self.template.generation if isinstance(self.template, TemplateChanged) else 0

    @property
    def retained(self) -> bool:
        """Whether members keep replicas of their own, as those of Deployments with the label do.

        Then what they were assigned says nothing.
        """
        template, bound = self.template, self.bound
        if not isinstance(template, TemplateChanged) or bound is None or bound.kind != "Deployment":
            return False
        return template.labels.get(RETAIN_REPLICAS_LABEL) == LABEL_TRUE


class AutoscalerState(ObjectStates[Target]):
    """The projection of the autoscaler.

    `named` are objects by apiVersion, kind, namespace and name. What was decided is the memory of a decision: the
    window, the rates and the runs of schedules are in it.
    """

    kind = Target
    members: dict[str, Member] = field(default_factory=dict)
    named: dict[tuple[str, str, str, str], ObjectKey] = field(default_factory=dict)
    scaling: dict[PolicyKey, ReplicasRecommended] = field(default_factory=dict)
    schedules: dict[PolicyKey, ScheduleAdvanced] = field(default_factory=dict)

    def scales(self, target: Target, template_replicas: int) -> tuple[ClusterScale, ...]:
        """What the clusters of a target hold of it, as far as the log knows."""
        rollup = target.rollup
        known = rollup is not None and rollup.uid == target.uid
        items = {item.cluster: item for item in rollup.items} if rollup is not None and known else {}
        found = []
        for share in target.targets:
            member = self.members.get(share.name)
            if member is None or not member.reachable:
                found.append(ClusterScale(share.name, away=NOT_READY))
                continue
            asked = template_replicas if share.replicas is None else share.replicas
            existing = _existing(items.get(share.name))
            if existing is None:
                found.append(ClusterScale(share.name, away=NOT_REPORTED))
                continue
            found.append(ClusterScale(share.name, existing if target.retained else asked, existing))
        return tuple(found)


def _existing(item: ClusterStatusItem | None) -> int | None:
    """Replicas that a cluster reports, None where nothing is known."""
    if item is None or not item.applied or item.problem:
        return None
    if item.status is UNSET:
        return 0
    try:
        return max(_scaled.decode(item.status).replicas, 0)
    except msgspec.MsgspecError:
        return None


def fold(state: AutoscalerState, seq: int, subject: str, event: Known) -> Iterable[PolicyKey]:
    """Apply one fact; nothing is decided by it but what the next round finds."""
    match event:
        case ClusterChanged():
            state.members[event.name] = _member(event)
        case ClusterRemoved():
            state.members.pop(event.name, None)
        case ReplicasRecommended():
            state.subjects[subject] = seq
            state.scaling[event.key] = event
        case ScheduleAdvanced():
            state.subjects[subject] = seq
            state.schedules[event.key] = event
            return (event.key,)
        case AutoscalerReleased() | ScheduleReleased():
            state.subjects[subject] = seq
            state.scaling.pop(event.key, None)
            state.schedules.pop(event.key, None)
        case TemplateChanged():
            # Of a template only its labels and its generation matter; the rest would be most of the memory.
            state.take(seq, subject, replace(event, manifest=UNSET, annotations={}))
        case _ if is_of_facet(event):
            target = state.take(seq, subject, event)
            if isinstance(event, BindingRequested):
                state.named[event.api_version, event.kind, event.key.namespace, event.key.name] = event.key
                # What it requires is what placements are decided by, not replicas.
                target.binding = replace(event, requires=())
    return ()


def _member(event: ClusterChanged) -> Member:
    access = access_of(event)
    conditions = _cluster.decode(event.manifest).status.conditions or ()
    ready = any(item.type == "Ready" and item.status == "True" for item in conditions)
    return Member(access, ready and not event.deleting and not access.stranger)
