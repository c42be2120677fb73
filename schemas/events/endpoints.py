"""Facts about the endpoints of exported Services: what other clusters may send traffic to."""

from __future__ import annotations

from schemas.endpoints import PortOfSlice, SliceEndpoint
from schemas.envelope import Event


class EndpointsCollected(Event, frozen=True, kw_only=True, tag="EndpointsCollected.v1"):
    """The endpoints that count in one slice of a Service that a cluster exports.

    `name` is the slice's, `service` the Service it belongs to. A slice with more endpoints than one may hold is several
    of these, with a number behind the name. `at` is when the cluster reported them, in seconds since 1970. `kept` is
    why the cluster should not be used, where no other one offers the same; empty while it may be used.
    """

    cluster: str
    namespace: str
    name: str
    service: str
    address_type: str
    endpoints: tuple[SliceEndpoint, ...] = ()
    ports: tuple[PortOfSlice, ...] = ()
    at: float = 0.0
    kept: str = ""


class EndpointsReleased(Event, frozen=True, kw_only=True, tag="EndpointsReleased.v1"):
    """The slice does not count any more; `reason` says why.

    `gated`: the cluster still offers it, and it counts again once the cluster may be used.
    """

    cluster: str
    namespace: str
    name: str
    service: str
    reason: str = ""
    gated: bool = False


EndpointsEvent = EndpointsCollected | EndpointsReleased
