"""Facts about works: the desired state of one object in one cluster."""

from __future__ import annotations

from msgspec import UNSET, Raw, Struct, UnsetType

from schemas.envelope import Event
from schemas.keys import ObjectKey, PolicyKey


class AppliedOverride(Struct, frozen=True, omit_defaults=True):
    """An override policy that changed the manifest, and its overriders in JSON."""

    policy: str
    overriders: Raw


class WorkRendered(Event, frozen=True, kw_only=True, omit_defaults=True, tag="WorkRendered.v1"):
    """The desired manifest of the object in the cluster.

    `digest` names its bytes; `manifest` holds them inline when they are small and no Secret. `shared` bytes belong to
    every cluster with the same content: readers put the cluster's own marks on them
    (services/_rules/delivery/work_labels.py).
    `problem` is the error that prevented a new rendering for this cluster; the previous manifest then stays in force.
    `policy` asks for the object where no template does (a FederatedResourceQuota, a MultiClusterService), `uid` is its
    uid then, and `policy_id` its permanent id if it has one. `provider` is the cluster whose endpoints it holds.
    `generation` counts the works of this uid in this cluster that differ in what the member gets.
    """

    cluster: str
    key: ObjectKey
    uid: str
    api_version: str
    kind: str
    digest: str
    manifest: Raw | UnsetType = UNSET
    binding_generation: int = 0
    placement_seq: int = 0
    conflict_resolution: str = "Abort"
    preserve_on_deletion: bool = False
    suspended: bool = False
    cluster_overrides: tuple[AppliedOverride, ...] = ()
    overrides: tuple[AppliedOverride, ...] = ()
    problem: str = ""
    shared: bool = False
    policy: PolicyKey | None = None
    policy_id: str = ""
    provider: str = ""
    generation: int = 0


class WorkWithdrawn(Event, frozen=True, kw_only=True, omit_defaults=True, tag="WorkWithdrawn.v1"):
    """The object is no longer desired in the cluster; `keep` leaves the member's copy behind, unmanaged.

    `policy` is that of the work.
    """

    cluster: str
    key: ObjectKey
    uid: str
    api_version: str
    kind: str
    reason: str = ""
    keep: bool = False
    policy: PolicyKey | None = None


WorkEvent = WorkRendered | WorkWithdrawn
