"""Streams, subjects, writers and readers of the log as data: what is created, checked, printed and documented."""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

HOUR: Final = 3600.0
DAY: Final = 24 * HOUR
MIB: Final = 1 << 20
GIB: Final = 1 << 30


class Stream(Struct, frozen=True, kw_only=True):
    """One JetStream stream. Sizes in bytes, ages in seconds; -1 and 0 mean unlimited.

    `max_bytes` is what a new stream gets where its server has room for it; an operator may set another size.
    """

    name: str
    subjects: tuple[str, ...]
    purpose: str
    max_per_subject: int = -1
    max_age: float = 0
    max_bytes: int = -1
    max_message: int = -1
    discard: Literal["old", "new"] = "old"
    deny_delete: bool = False
    allow_atomic: bool = False
    allow_direct: bool = True
    compression: Literal["none", "s2"] = "none"
    sources: tuple[str, ...] = ()
    duplicate_window: float = 2.0
    max_consumers: int = 5000


class Subject(Struct, frozen=True, kw_only=True):
    """One family of subjects: its single writer, its readers and the events it holds."""

    pattern: str
    stream: str
    writer: str
    readers: tuple[str, ...]
    events: tuple[str, ...]


SERVICES: Final[tuple[str, ...]] = (
    "detector",
    "cluster_monitor",
    "estimator",
    "scheduler",
    "failover",
    "override_renderer",
    "executor",
    "registrar",
    "status_aggregator",
    "gateway",
    "search",
    "janitor",
    "descheduler",
    "autoscaler",
    "networking",
    "webhook",
)
OPTIONAL: Final[frozenset[str]] = frozenset({"descheduler"})
"""Services that an installation does without unless it asks for them."""
WITHOUT_LOG: Final[frozenset[str]] = frozenset({"webhook"})
"""Services that neither read nor write the log: a kube-apiserver asks them; the embedded one does without."""

FACTS: Final = Stream(
    name="FACTS",
    subjects=(
        "template.>",
        "policy.>",
        "cluster.*",
        "binding.>",
        "estimate.>",
        "placement.>",
        "eviction.>",
        "descheduling.>",
        "work.>",
        "rollup.>",
        "autoscaling.>",
        "endpoints.>",
        "lease.*",
        "identity.*",
        "absence.*",
        "confirmation.*",
        "restore.*",
        "unparked.>",
    ),
    purpose="every fact of the control plane in one total order; the last event of a subject is the present",
    max_per_subject=1024,
    max_bytes=6 * GIB,
    max_message=8 * MIB,
    discard="new",
    deny_delete=True,
    allow_atomic=True,
)
OBSERVED: Final = Stream(
    name="OBSERVED",
    subjects=("observed.>",),
    purpose="what members were seen to hold; only the newest few per object and cluster",
    max_per_subject=16,
    max_bytes=2 * GIB,
    max_message=2 * MIB,
    allow_atomic=True,
)
HISTORY: Final = Stream(
    name="HISTORY",
    subjects=(),
    sources=("FACTS",),
    purpose="the facts of the last 90 days, for history, time travel and replay",
    max_age=90 * DAY,
    max_bytes=8 * GIB,
    deny_delete=True,
    compression="s2",
)
BLOBS: Final = Stream(
    name="BLOBS",
    subjects=("blob.*",),
    purpose="manifest bytes by digest, stored once however many clusters and revisions share them",
    max_per_subject=1,
    max_bytes=2 * GIB,
    max_message=8 * MIB,
    discard="new",
    allow_atomic=True,
)
KEYS: Final = Stream(
    name="KEYS",
    subjects=("key.*",),
    purpose="the keys of the namespaces' Secrets, each wrapped by a master key; a dropped one erases what it encrypted",
    max_per_subject=1,
    max_bytes=64 * MIB,
    max_message=MIB,
    discard="new",
)
EXPLAINED: Final = Stream(
    name="EXPLAINED",
    subjects=("explained.>",),
    purpose="the scheduler's explanations of changed decisions",
    max_per_subject=4,
    max_age=30 * DAY,
    max_bytes=512 * MIB,
    max_message=8 * MIB,
)
PARKED: Final = Stream(
    name="PARKED",
    subjects=("parked.*",),
    purpose="what a service could not process, with reason and input position",
    max_age=14 * DAY,
    max_bytes=64 * MIB,
    max_message=8 * MIB,
)
REQUESTS: Final = Stream(
    name="REQUESTS",
    subjects=("request.*.*",),
    purpose="requests that were carried into members, as the hub and the agents of pull members tell",
    max_per_subject=20_000,
    max_age=30 * DAY,
    max_bytes=512 * MIB,
    max_message=MIB,
    compression="s2",
)
OBJECTS: Final = Stream(
    name="OBJECTS",
    subjects=("obj.>",),
    purpose="the embedded API server's objects; the revision of an object is its position here",
    allow_atomic=True,
)

STREAMS: Final[tuple[Stream, ...]] = (FACTS, OBSERVED, HISTORY, BLOBS, KEYS, EXPLAINED, PARKED, REQUESTS)

SUBJECTS: Final[tuple[Subject, ...]] = (
    Subject(
        pattern="template.<shard>.<key>",
        stream="FACTS",
        writer="detector",
        readers=(
            "detector",
            "override_renderer",
            "status_aggregator",
            "gateway",
            "janitor",
            "autoscaler",
            "networking",
        ),
        events=("TemplateChanged", "TemplateDeleted"),
    ),
    Subject(
        pattern="policy.<kind>.<namespace>.<name>",
        stream="FACTS",
        writer="detector",
        readers=(
            "detector",
            "scheduler",
            "override_renderer",
            "executor",
            "registrar",
            "status_aggregator",
            "gateway",
            "janitor",
            "networking",
        ),
        events=("PolicyChanged", "PolicyDeleted"),
    ),
    Subject(
        pattern="cluster.<name>",
        stream="FACTS",
        writer="cluster_monitor",
        readers=(
            "cluster_monitor",
            "estimator",
            "scheduler",
            "failover",
            "override_renderer",
            "executor",
            "registrar",
            "status_aggregator",
            "gateway",
            "janitor",
            "search",
            "autoscaler",
            "networking",
            "detector",
        ),
        events=("ClusterChanged", "ClusterRemoved"),
    ),
    Subject(
        pattern="binding.<shard>.<key>",
        stream="FACTS",
        writer="detector",
        readers=(
            "detector",
            "estimator",
            "scheduler",
            "failover",
            "override_renderer",
            "status_aggregator",
            "gateway",
            "janitor",
            "descheduler",
            "autoscaler",
            "networking",
        ),
        events=("BindingRequested", "BindingReleased"),
    ),
    Subject(
        pattern="estimate.<shard>.<key>",
        stream="FACTS",
        writer="estimator",
        readers=("estimator", "scheduler", "gateway", "janitor"),
        events=("CapacityEstimated",),
    ),
    Subject(
        pattern="placement.<shard>.<key>",
        stream="FACTS",
        writer="scheduler",
        readers=(
            "estimator",
            "scheduler",
            "failover",
            "override_renderer",
            "status_aggregator",
            "gateway",
            "janitor",
            "descheduler",
            "autoscaler",
            "networking",
        ),
        events=("PlacementDecided", "PlacementFailed", "PlacementReleased"),
    ),
    Subject(
        pattern="eviction.<shard>.<key>",
        stream="FACTS",
        writer="failover",
        readers=(
            "estimator",
            "scheduler",
            "failover",
            "override_renderer",
            "status_aggregator",
            "gateway",
            "janitor",
            "descheduler",
            "autoscaler",
            "networking",
        ),
        events=("EvictionRequested", "EvictionFinished"),
    ),
    Subject(
        pattern="descheduling.<shard>.<key>",
        stream="FACTS",
        writer="descheduler",
        readers=(
            "estimator",
            "scheduler",
            "override_renderer",
            "status_aggregator",
            "gateway",
            "janitor",
            "descheduler",
            "autoscaler",
        ),
        events=("ReplicasDescheduled",),
    ),
    Subject(
        pattern="work.<cluster>.<key>",
        stream="FACTS",
        writer="override_renderer",
        readers=(
            "override_renderer",
            "executor",
            "registrar",
            "status_aggregator",
            "cluster_monitor",
            "gateway",
            "janitor",
            "networking",
        ),
        events=("WorkRendered", "WorkWithdrawn"),
    ),
    Subject(
        pattern="rollup.<shard>.<key>",
        stream="FACTS",
        writer="status_aggregator",
        readers=(
            "status_aggregator",
            "scheduler",
            "estimator",
            "failover",
            "gateway",
            "janitor",
            "descheduler",
            "autoscaler",
            "networking",
        ),
        events=("StatusRolledUp",),
    ),
    Subject(
        pattern="autoscaling.<kind>.<namespace>.<name>",
        stream="FACTS",
        writer="autoscaler",
        readers=("autoscaler", "gateway", "janitor"),
        events=("ReplicasRecommended", "AutoscalerReleased", "ScheduleAdvanced", "ScheduleReleased"),
    ),
    Subject(
        pattern="endpoints.<cluster>.<namespace>.<name>",
        stream="FACTS",
        writer="networking",
        readers=("networking", "override_renderer", "janitor", "people"),
        events=("EndpointsCollected", "EndpointsReleased"),
    ),
    Subject(
        pattern="lease.<service>",
        stream="FACTS",
        writer="the new leader of the service",
        readers=("every service",),
        events=("LeaseTaken",),
    ),
    Subject(
        pattern="identity.control-plane",
        stream="FACTS",
        writer="detector",
        readers=("detector", "cluster_monitor", "people"),
        events=("ControlPlaneIdentified",),
    ),
    Subject(
        pattern="absence.<scope>",
        stream="FACTS",
        writer="detector (templates), cluster_monitor (clusters, member/<name>)",
        readers=("detector", "cluster_monitor", "people"),
        events=("AbsenceHeld", "AbsenceReleased"),
    ),
    Subject(
        pattern="confirmation.<scope>",
        stream="FACTS",
        writer="operators, by fleetlog confirm-absence",
        readers=("detector", "cluster_monitor", "people"),
        events=("AbsenceConfirmed",),
    ),
    Subject(
        pattern="restore.log",
        stream="FACTS",
        writer="the commands that restore",
        readers=("every service",),
        events=("RestoreStarted", "RestoreReleased"),
    ),
    Subject(
        pattern="restore.<service>",
        stream="FACTS",
        writer="the service",
        readers=("every service",),
        events=("RestoreCompared",),
    ),
    Subject(
        pattern="unparked.<service>.<key>",
        stream="FACTS",
        writer="operators, by fleetlog parked retry and drop",
        readers=("the service",),
        events=("KeyRetried", "KeyDropped"),
    ),
    Subject(
        pattern="observed.<cluster>.<key>",
        stream="OBSERVED",
        writer="executor (push members), registrar (for the agents of pull members)",
        readers=(
            "executor",
            "registrar",
            "status_aggregator",
            "cluster_monitor",
            "gateway",
            "janitor",
            "networking",
        ),
        events=("WorkObserved",),
    ),
    Subject(
        pattern="explained.<shard>.<key>",
        stream="EXPLAINED",
        writer="scheduler",
        readers=("people",),
        events=("PlacementExplained",),
    ),
    Subject(
        pattern="parked.<service>",
        stream="PARKED",
        writer="the service",
        readers=("people",),
        events=("KeyParked",),
    ),
    Subject(
        pattern="request.<cluster>.<side>",
        stream="REQUESTS",
        writer="gateway and search (side hub), registrar (side agent)",
        readers=("people",),
        events=("MemberRequested",),
    ),
)
