"""Facts about member clusters: only what decisions depend on, never heartbeats or raw samples."""

from __future__ import annotations

from msgspec import Raw

from schemas.envelope import Event


class ClusterChanged(Event, frozen=True, kw_only=True, omit_defaults=True, tag="ClusterChanged.v1"):
    """The full present state of a member: `manifest` is its Cluster object (labels, spec, status) in JSON.

    `deleting` is true from the request to remove it until its works are gone. `identity` is the uid of the member's
    namespace kube-system, empty while it is not known; `stranger` is the one that answers in its place at the moment,
    empty while the member itself does: nothing is read from a stranger or written to it. `shaped_at` is when its labels
    or its spec changed last, in seconds since 1970: what follows clusters was placed again then.
    """

    name: str
    uid: str
    manifest: Raw
    generation: int = 0
    deleting: bool = False
    identity: str = ""
    stranger: str = ""
    shaped_at: float = 0.0


class ClusterRemoved(Event, frozen=True, kw_only=True, omit_defaults=True, tag="ClusterRemoved.v1"):
    """The cluster of this uid is no member any more; its works count as absent. `reason` is the evidence for it."""

    name: str
    uid: str
    reason: str = ""


ClusterEvent = ClusterChanged | ClusterRemoved
