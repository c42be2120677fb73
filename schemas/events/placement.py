"""Facts about placements: where an object runs, why it cannot, and the end of the decision."""

from __future__ import annotations

from msgspec import UNSET, Raw, Struct, UnsetType

from schemas.envelope import Event
from schemas.events.estimate import ClusterEstimate
from schemas.keys import ObjectKey


class TargetCluster(Struct, frozen=True, omit_defaults=True, order=True):
    """One cluster and its share; `replicas` is None for objects that have none."""

    name: str
    replicas: int | None = None


class QuotaRefusal(Struct, frozen=True, omit_defaults=True):
    """The FederatedResourceQuota that a placement would exceed: of `resource`, `requested` in all against `limit`."""

    quota: str
    resource: str
    requested: str
    limit: str


class PlacementDecided(Event, frozen=True, kw_only=True, omit_defaults=True, tag="PlacementDecided.v1"):
    """The object is placed in `clusters`, sorted by name.

    `placement` (the policy's, in JSON) and `replicas` are what was decided upon: a later decision compares with them.
    `affinity_name` is the affinity term in force, `trigger` the reason for scheduling.
    `estimates` are the answers about members' nodes that were used; `estimate_missed`: none came in time.
    `requests` are the amounts per replica (or set of components) that quotas count; None where none are enforced.
    `rescheduled` is the generation of the latest request for a fresh schedule that a success has answered.
    `changes` counts the placements that changed the binding's clusters, `observed_generation` is the generation of the
    binding with this decision in force; `since` is when it became a success.
    """

    key: ObjectKey
    uid: str
    clusters: tuple[TargetCluster, ...]
    binding_generation: int = 0
    placement: Raw | UnsetType = UNSET
    replicas: int = 0
    affinity_name: str = ""
    trigger: str = ""
    scheduler: str = "default-scheduler"
    scheduled_at: float = 0.0
    estimates: tuple[ClusterEstimate, ...] = ()
    estimate_missed: bool = False
    requests: dict[str, str] | None = None
    rescheduled: int = 0
    changes: int = 0
    observed_generation: int = 0
    since: float = 0.0


class PlacementFailed(Event, frozen=True, kw_only=True, omit_defaults=True, tag="PlacementFailed.v1"):
    """No placement satisfies the request; `clusters` (the last good decision) stay in force.

    `reason` is the reason of the binding's Scheduled condition, `message` the remedy for people. `requests` are as in
    PlacementDecided, of `clusters`; `refusal` names the quota where one is the reason. `changes` counts the
    placements that changed the binding's clusters, `observed_generation` is that of the last success; `since` is when
    it became a failure.
    """

    key: ObjectKey
    uid: str
    reason: str
    message: str
    clusters: tuple[TargetCluster, ...] = ()
    binding_generation: int = 0
    placement: Raw | UnsetType = UNSET
    replicas: int = 0
    affinity_name: str = ""
    trigger: str = ""
    scheduler: str = "default-scheduler"
    scheduled_at: float = 0.0
    failed_at: float = 0.0
    estimates: tuple[ClusterEstimate, ...] = ()
    estimate_missed: bool = False
    requests: dict[str, str] | None = None
    refusal: QuotaRefusal | None = None
    rescheduled: int = 0
    changes: int = 0
    observed_generation: int = 0
    since: float = 0.0


class PlacementReleased(Event, frozen=True, kw_only=True, omit_defaults=True, tag="PlacementReleased.v1"):
    """The binding ended; nothing is placed any more."""

    key: ObjectKey
    uid: str


PlacementEvent = PlacementDecided | PlacementFailed | PlacementReleased
