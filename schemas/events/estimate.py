"""Facts about capacity: how many replicas of an object each cluster can take."""

from __future__ import annotations

from msgspec import Struct

from schemas.envelope import Event
from schemas.keys import ObjectKey


class ClusterEstimate(Struct, frozen=True, omit_defaults=True):
    """One cluster's answer; -1 means no opinion.

    `source` names the estimator: `nodes` the service, `agent` the one in the member. `position` is the log's that
    the answer of an agent looked up to; 0: that of the fact. `at` is when it was found, in seconds since 1970.
    `reserved` is what the scheduler took off for placements that were decided since.
    """

    cluster: str
    replicas: int = -1
    source: str = ""
    position: int = 0
    at: float = 0.0
    reserved: int = 0


class CapacityEstimated(Event, frozen=True, kw_only=True, omit_defaults=True, tag="CapacityEstimated.v1"):
    """Further replicas of one object by candidate, for the requirements named by `requirements_digest`.

    It answers everything that was asked up to its `as_of`.
    """

    key: ObjectKey
    uid: str
    requirements_digest: str
    estimates: tuple[ClusterEstimate, ...] = ()


EstimateEvent = CapacityEstimated
