"""Facts of every aggregate about one object and a few clusters, for properties over histories in any order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import replace

from schemas.codec import Known, subject_of
from schemas.envelope import Provenance
from schemas.events.binding import BindingReleased
from schemas.events.cluster import ClusterChanged
from schemas.events.descheduling import LoweredCluster, ReplicasDescheduled
from schemas.events.estimate import CapacityEstimated, ClusterEstimate
from schemas.events.eviction import EvictionFinished
from schemas.events.lease import LeaseTaken
from schemas.events.observed import WorkObserved
from schemas.events.placement import PlacementFailed, PlacementReleased
from schemas.events.policy import PolicyChanged, PolicyDeleted
from schemas.events.rollup import ClusterStatusItem, StatusRolledUp
from schemas.events.template import TemplateDeleted
from schemas.keys import ObjectKey, PolicyKey
from services._kit.log.stream_port import Message
from tests.support import facts
from tests.support.facts import (
    AGGREGATED,
    KEY,
    binding,
    cluster,
    cpus,
    evicted,
    member,
    override,
    placement,
    raw,
    removed,
    template,
    withdrawn,
    work,
)

NOW = 1_700_000_000.0
CARES = {"application": {"decisionConditions": {"tolerationSeconds": 0}, "purgeMode": "Directly"}}
NEEDS = cpus()
GROUP: dict[str, Any] = {"workloadAffinityGroups": {"antiAffinityGroup": "g"}}
MEMBERS = ("m1", "m2")
UIDS = ("u1", "u2")
OTHER = ObjectKey("apps", "deployments", "default", "other")
OVERRIDES = PolicyKey("OverridePolicy", "default", "pause")


def tainted(name: str, effect: str = "NoExecute") -> ClusterChanged:
    """A member with one taint."""
    return cluster(name, taints=[{"key": "x", "value": "", "effect": effect, "timeAdded": "2023-11-14T22:13:20Z"}])


def seen(name: str, uid: str, position: int, *, absent: bool) -> WorkObserved:
    """What a cluster reports of its copy."""
    return facts.seen(name, uid=uid, work_seq=position, applied=not absent, absent=absent, health="Unknown")


def overriding(operator: str) -> PolicyChanged:
    """An OverridePolicy that renders, or that cannot."""
    rule = {"overriders": {"plaintext": [{"path": "/spec/paused", "operator": operator, "value": True}]}}
    selectors = [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "nginx"}]
    return override(rule, name=OVERRIDES.name, resourceSelectors=selectors)


ABOUT_CLUSTERS: list[Known] = [fact for name in MEMBERS for fact in (cluster(name), tainted(name), removed(name))]
ABOUT_OBJECTS: list[Known] = [
    fact
    for uid in UIDS
    for fact in (
        replace(template(), uid=uid),
        TemplateDeleted(key=KEY, uid=uid),
        binding(uid=uid),
        binding(uid=uid, failover=CARES, propagateDeps=True),
        BindingReleased(key=KEY, uid=uid),
        placement(uid=uid, m1=1, m2=1),
        PlacementFailed(key=KEY, uid=uid, reason="Unschedulable", message="no room"),
        PlacementReleased(key=KEY, uid=uid),
        replace(evicted("m1", "Directly", created_at=NOW), uid=uid),
        EvictionFinished(key=KEY, uid=uid, left=("m1",)),
        StatusRolledUp(key=KEY, uid=uid, items=(ClusterStatusItem(cluster="m1", applied=True, health="Unhealthy"),)),
        StatusRolledUp(key=KEY, uid=uid, closed=True),
    )
]
ABOUT_COPIES: list[Known] = [
    fact
    for uid in UIDS
    for name in MEMBERS
    for fact in (
        work(name, uid=uid),
        withdrawn(name, uid=uid),
        seen(name, uid, 3, absent=False),
        seen(name, uid, 1000, absent=True),
    )
]
ABOUT_ROOM: list[Known] = [
    *(member(name, cpu, pods=100) for name in MEMBERS for cpu in (1, 8)),
    member("m2", 4, pods=100, syncMode="Pull"),
    binding(4, AGGREGATED, **NEEDS),
    binding(9, AGGREGATED, **NEEDS, **GROUP),
    replace(binding(3, AGGREGATED, **NEEDS, **GROUP), key=OTHER),
    LeaseTaken(service="estimator", instance="estimator-0"),
    CapacityEstimated(key=KEY, uid="u1", requirements_digest="d", estimates=(ClusterEstimate("m1", 3, "nodes"),)),
    ReplicasDescheduled(key=KEY, uid="u1", placement=2, clusters=(LoweredCluster("m1", 1, 2),)),
    StatusRolledUp(
        key=KEY, uid="u1", items=(ClusterStatusItem(cluster="m1", applied=True, status=Raw(b'{"readyReplicas":1}')),)
    ),
]
STARTED: list[Known] = [
    member("m1", 8, pods=100),
    member("m2", 8, pods=100),
    template(),
    binding(4, AGGREGATED, **NEEDS, **GROUP),
    replace(binding(3, AGGREGATED, **NEEDS, **GROUP), key=OTHER),
    replace(placement(m1=2, m2=2), placement=raw(AGGREGATED)),
    work("m1"),
    work("m2"),
    seen("m1", "u1", 3, absent=False),
    ABOUT_ROOM[-1],
]
"""An object that runs in two clusters, and one that is to come."""
ABOUT_POLICIES: list[Known] = [overriding("add"), overriding("remove"), PolicyDeleted(key=OVERRIDES, uid="o")]
ALL: list[Known] = ABOUT_CLUSTERS + ABOUT_OBJECTS + ABOUT_COPIES


def of_families(facts: Sequence[Known], *families: str) -> list[Known]:
    """The facts of these aggregates."""
    return [fact for fact in facts if subject_of(fact).partition(".")[0] in families]


def histories(*families: str) -> st.SearchStrategy[list[Known]]:
    """Facts of these aggregates in any order, without those about room and policies."""
    return st.lists(st.sampled_from(of_families(ALL, *families)), max_size=8)


def messages(history: Sequence[Known]) -> list[tuple[Message, Known]]:
    """The facts as they come from the log, one after the other."""
    return [
        (
            Message(subject=subject_of(event), seq=number, time=NOW, data=b"", headers={}),
            replace(event, provenance=Provenance(as_of=number - 1, decided_at=NOW)),
        )
        for number, event in enumerate(history, 1)
    ]
